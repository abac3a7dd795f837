"""Bounds in bytes: counted bytes are near the memory in use, and no collection exceeds its bound."""

from __future__ import annotations

import tracemalloc

import pytest

from hearsay.core.episub.caches import PayloadCache
from hearsay.core.episub.parameters import EpisubParameters
from hearsay.core.language.actions import PartDropped, Reason
from hearsay.core.language.events import Join, PeerConnected, PeerDisconnected, RpcReceived, SendFailed
from hearsay.core.language.rpc import MESHSUB, Control, Message, Prune, Rpc, Subscription
from hearsay.core.language.sizes import SEEN_BYTES, message_footprint
from hearsay.core.mesh.mesh import MAX_UNSENT
from hearsay.core.mesh.message_memory import MessageCache
from hearsay.core.mesh.parameters import GossipsubParameters
from hearsay.core.registry import ROUTERS, create
from hearsay.core.rules.randomness import Randomness
from hearsay.core.shell.parameters import MAX_COUNT
from hearsay.core.shell.peers import ConnectedPeer, PeerBook, subscription_bytes
from hearsay.core.shell.seen import TimedSeen, WindowedSeen

UNBOUNDED = 1 << 40


def router(**parameters):
    kind = ROUTERS["gossipsub"]
    return create(kind, "me", kind.parameters.from_mapping(parameters), Randomness(1))


def message(number, size=100):
    return Message(
        number.to_bytes(46, "big"), f"topic {number:05}", bytes([number % 256]) * size, number.to_bytes(38, "big")
    )


def subscribe(machine, peer, names):
    return machine.handle(RpcReceived(peer, Rpc(tuple(Subscription(name, True) for name in names))), machine.now)


def fill_subscriptions(count):
    book = PeerBook()
    peer = book.connected["peer"] = ConnectedPeer("peer", "", True, "", False)
    for number in range(count):
        book.subscribe(peer, f"topic {number}")
    return book, book.topic_bytes


def fill_shared_topics(count):
    book = PeerBook()
    for number in range(count // 500):
        peer = book.connected[number] = ConnectedPeer(number.to_bytes(38, "big"), "", True, "", False)
        for topic in range(500):
            book.subscribe(peer, f"topic {topic}")
    return book, book.topic_bytes


def fill_seen_cache(count):
    seen = TimedSeen(1_000, UNBOUNDED, UNBOUNDED)
    for number in range(count):
        seen.add(number.to_bytes(46, "big"), 10_000 + number, None)
    return seen, count * (SEEN_BYTES + 46)


def fill_message_cache(count):
    cache = MessageCache(GossipsubParameters(max_cached_bytes=MAX_COUNT))
    message_bytes = 0
    for number in range(count):
        each = message(number)
        cache.put(each)
        message_bytes += message_footprint(each)
    return cache, message_bytes


@pytest.mark.parametrize("fill", [fill_subscriptions, fill_shared_topics, fill_seen_cache, fill_message_cache])
def test_counted_bytes_are_near_the_memory_in_use(fill):
    tracemalloc.start()
    try:
        kept, counted = fill(6_000)
        allocated = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept is not None
    assert 0.5 * counted < allocated < 1.05 * counted


def test_subscriptions_of_one_peer_are_bounded_in_bytes():
    machine = router(max_subscription_bytes_per_peer=10_000)
    machine.handle(PeerConnected("peer", MESHSUB), 0)
    actions = subscribe(machine, "peer", [f"{number}" + "x" * 1_000 for number in range(30)])
    peer = machine.connected["peer"]
    assert len(peer.topics) == 8
    assert peer.topic_bytes == sum(map(subscription_bytes, peer.topics)) <= 10_000
    dropped = [(action.count, action.reason) for action in actions if isinstance(action, PartDropped)]
    assert dropped == [(22, Reason.OVER_LIMIT)]


def test_subscriptions_of_all_peers_are_bounded_except_those_to_own_topics():
    machine = router(max_subscription_bytes=20_000)
    machine.handle(Join("news"), 0)
    for peer in ("a", "b", "late"):
        machine.handle(PeerConnected(peer, MESHSUB), 0)
    for peer in ("a", "b"):
        subscribe(machine, peer, [f"{peer}{number}" for number in range(100)])
    assert 20_000 <= machine.peers.topic_bytes < 21_000
    actions = subscribe(machine, "late", ["news", "sport"])
    assert machine.connected["late"].topics == {"news"}
    assert [action.reason for action in actions if isinstance(action, PartDropped)] == [Reason.THROTTLED]
    machine.handle(PeerDisconnected("a"), 0)
    subscribe(machine, "late", ["sport"])
    assert machine.connected["late"].topics == {"news", "sport"}
    for peer in ("b", "late"):
        machine.handle(PeerDisconnected(peer), 0)
    assert machine.peers.topic_bytes == 0


def test_a_message_cache_of_bytes_loses_the_oldest_and_counts_the_rest():
    size = message_footprint(message(0))
    cache = MessageCache(GossipsubParameters(history_length=2, history_gossip=2, max_cached_bytes=3 * size))
    for number in range(5):
        cache.put(message(number))
    assert [kept.data[0] for kept in cache.messages()] == [2, 3, 4]
    cache.put(message(5, size=3 * size))
    assert len(cache) == 0, "a message larger than the cache is not kept"
    for number in range(6, 20):
        cache.put(message(number))
        cache.shift()
    assert len(cache) == 1
    for number in range(20, 22):
        cache.put(message(number))
    assert len(cache) == 3


def test_a_payload_cache_of_bytes_loses_the_oldest_and_counts_the_rest():
    size = message_footprint(message(0))
    cache = PayloadCache(EpisubParameters(payload_ttl_ms=1, max_cached_bytes=3 * size))
    for number in range(5):
        cache.put(message(number), 1, None, 0)
    cache.put(message(4), 1, None, 0)
    assert [kept.data[0] for kept in cache.messages(0)] == [2, 3, 4]
    for number in range(5, 8):
        cache.put(message(number), 1, None, 2_000)
    assert [kept.data[0] for kept in cache.messages(2_000)] == [5, 6, 7]


@pytest.mark.parametrize(
    "seen", [TimedSeen(10, UNBOUNDED, 3 * (SEEN_BYTES + 46)), WindowedSeen(1, UNBOUNDED, 3 * (SEEN_BYTES + 46))]
)
def test_a_seen_cache_of_bytes_loses_the_oldest_and_counts_the_rest(seen):
    for now in (0, 20, 40):
        seen.expire(now)
        for number in range(now, now + 5):
            seen.add(number.to_bytes(46, "big"), now, None)
        assert seen.known == {number.to_bytes(46, "big") for number in range(now + 2, now + 5)}
        seen.shift()
        seen.shift()
        seen.expire(now + 19)
        assert len(seen) == 0


def test_prunes_that_did_not_leave_do_not_make_a_router_remember_a_peers_names():
    machine = router()
    machine.handle(Join("news"), 0)
    machine.handle(PeerConnected("peer", MESHSUB), 0)
    for first in range(0, 10 * MAX_UNSENT, 100):
        names = [f"topic {number}" for number in range(first, first + 100)]
        machine.handle(SendFailed("peer", Rpc(control=Control(prune=tuple(map(Prune, names))))), 0)
    machine.handle(SendFailed("peer", Rpc(control=Control(prune=(Prune("news"),)))), 0)
    mesh = machine.strategy.mesh
    assert len(mesh._unsent["peer"]) == MAX_UNSENT + 1
    assert "news" in mesh._unsent["peer"]
