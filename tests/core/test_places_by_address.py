"""Places by address: many peers at one address get few places, unless no other peers want them.

Rules: PLACES-1, PLACES-2, SIZE-2.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearsay.core.language.actions import PartDropped, Send
from hearsay.core.language.events import Join, PeerConnected, Publish, RpcReceived, TimerFired
from hearsay.core.language.rpc import MESHSUB_11, Control, Graft, Message, Rpc, Subscription
from hearsay.core.registry import ROUTERS, create
from hearsay.core.rules.randomness import Randomness

SHARED_ADDRESS = "192.0.2.1"
GRAFT = Rpc(control=Control(graft=(Graft("news"),)))


def router(seed=1, places=2, **more):
    kind = ROUTERS["gossipsub"]
    given = {**kind.presets["v1.1"], "places_per_address": places, **more}
    return create(kind, "me", kind.parameters.from_mapping(given), Randomness(seed))


def connect_subscribers(router, names, address):
    """Connect subscribers of the topic; if `address` is None, each has its own address."""
    for name in names:
        router.handle(
            PeerConnected(name, MESHSUB_11, address=f"of {name}" if address is None else address), router.now
        )
        router.handle(RpcReceived(name, Rpc((Subscription("news", True),))), router.now)


def other_peers(count):
    return [f"other {number:02}" for number in range(count)]


def peers_at_shared_address(count):
    return [f"name {number:02}" for number in range(count)]


def mesh(router):
    return router.strategy.mesh.topics["news"].ordered


def count_at_shared_address(peers):
    return sum(peer.startswith("name") for peer in peers)


def beat(router, times=1):
    for _ in range(times):
        router.handle(TimerFired(), router.due)


@given(st.integers(0, 1000))
def test_a_mesh_is_begun_with_few_peers_of_one_address(seed):
    node = router(seed)
    connect_subscribers(node, other_peers(10), None)
    connect_subscribers(node, peers_at_shared_address(60), SHARED_ADDRESS)
    node.handle(Join("news"), 0)
    assert len(mesh(node)) == 6
    assert count_at_shared_address(mesh(node)) <= 2


@given(st.integers(0, 1000))
def test_a_peer_of_another_address_enters_a_mesh_full_of_one_address(seed):
    node = router(seed)
    connect_subscribers(node, other_peers(10), None)
    node.handle(Join("news"), 0)
    connect_subscribers(node, peers_at_shared_address(60), SHARED_ADDRESS)
    for name in peers_at_shared_address(60):
        node.handle(RpcReceived(name, GRAFT), 1)
    assert len(mesh(node)) == 12
    known = [peer for peer in other_peers(10) if peer in mesh(node)]
    for name in other_peers(10):
        node.handle(RpcReceived(name, GRAFT), 2)
        assert name in mesh(node)
    assert len(mesh(node)) == 12
    assert set(known) <= set(mesh(node)), "no member of another address was pruned"
    assert count_at_shared_address(mesh(node)) == 2
    refused = node.handle(RpcReceived("name 59", GRAFT), 3)
    assert any(isinstance(action, PartDropped) for action in refused)


def test_lent_places_do_not_count_when_other_peers_are_available():
    node = router()
    node.handle(Join("news"), 0)
    connect_subscribers(node, peers_at_shared_address(60), SHARED_ADDRESS)
    for name in peers_at_shared_address(60):
        node.handle(RpcReceived(name, GRAFT), 1)
    assert count_at_shared_address(mesh(node)) == 12
    connect_subscribers(node, other_peers(5), None)
    beat(node)
    assert (len(mesh(node)), count_at_shared_address(mesh(node))) == (16, 12)
    beat(node)
    assert (len(mesh(node)), count_at_shared_address(mesh(node))) == (6, 2), (
        "above D_high members with lent places are pruned first"
    )


@pytest.mark.parametrize("address", [SHARED_ADDRESS, ""])
def test_peers_behind_one_address_or_without_a_known_address_fill_a_mesh(address):
    node = router()
    connect_subscribers(node, peers_at_shared_address(40), address)
    node.handle(Join("news"), 0)
    assert len(mesh(node)) == 6
    for name in peers_at_shared_address(40):
        node.handle(RpcReceived(name, GRAFT), 1)
    assert len(mesh(node)) == 12
    beat(node, 5)
    assert len(mesh(node)) == 12


def test_a_fan_out_has_few_peers_of_one_address():
    node = router()
    connect_subscribers(node, other_peers(10), None)
    connect_subscribers(node, peers_at_shared_address(60), SHARED_ADDRESS)
    sent = node.handle(Publish(Message("id", "news", b"", "me", b"")), 0)
    assert count_at_shared_address([action.peer for action in sent if isinstance(action, Send)]) <= 2


@given(st.integers(0, 1000))
def test_without_the_rule_addresses_change_nothing(seed):
    def run(address):
        node = router(seed, places=0)
        connect_subscribers(node, other_peers(5), None)
        connect_subscribers(node, peers_at_shared_address(30), address)
        done = [node.handle(Join("news"), 0)]
        done += [node.handle(RpcReceived(name, GRAFT), 1) for name in peers_at_shared_address(30)]
        beat(node, 3)
        return done, mesh(node)

    assert run(SHARED_ADDRESS) == run("")
