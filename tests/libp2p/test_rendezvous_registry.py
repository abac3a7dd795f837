"""The registry of a rendezvous point: lifetimes, order of answers, and limits. Tests set the clock."""

from __future__ import annotations

import gc
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearsay.libp2p.frames import frame
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import peer_id_of
from hearsay.libp2p.rendezvous import (
    DEFAULT_TTL_S,
    MAX_MESSAGE_BYTES,
    MAX_TTL_S,
    MessageType,
    PeerRecord,
    RendezvousMessage,
    Status,
    encode_message,
    read_envelope,
    seal_record,
)
from hearsay.libp2p.rendezvous_streams import ENTRY_BYTES, EXPIRY_S, Registry, RegistryLimits

KEYS = [PrivateKey.from_seed(bytes([number]) * 32) for number in range(120)]
PEERS = [peer_id_of(key.public) for key in KEYS]
ADDRESS = Multiaddr.parse("/ip4/127.0.0.1/tcp/4001")


def record(who, sequence=1, addresses=1):
    return seal_record(KEYS[who], PeerRecord(PEERS[who], sequence, (ADDRESS,) * addresses))


RECORDS = [record(who) for who in range(len(KEYS))]
ENTRY = ENTRY_BYTES + len(RECORDS[0]) + len("news")
HOME, AWAY = "127.0.0.1", "127.0.0.2"


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Point:
    """A registry; its methods name a peer by the index in `PEERS`."""

    def __init__(self, **limits):
        self.clock = Clock()
        self.registry = Registry(self.clock, RegistryLimits(**limits))

    def register(self, who, namespace="news", envelope=None, ttl_s=0, at=HOME):
        envelope = RECORDS[who] if envelope is None else envelope
        asked = RendezvousMessage(type=MessageType.REGISTER, namespace=namespace, record=envelope, ttl_s=ttl_s)
        return self.registry.answer(PEERS[who], at, asked).status

    def unregister(self, who, namespace="news"):
        asked = RendezvousMessage(type=MessageType.UNREGISTER, namespace=namespace)
        assert self.registry.answer(PEERS[who], HOME, asked) is None

    def answer(self, namespace="news", limit=0, cookie=b""):
        asked = RendezvousMessage(type=MessageType.DISCOVER, namespace=namespace, limit=limit, cookie=cookie)
        return self.registry.answer(PEERS[-1], HOME, asked)

    def listed(self, **asked):
        """Return the peers in the answer to a DISCOVER, in order."""
        return registered(self.answer(**asked))

    def parts(self, limit=0):
        """Return all parts of an answer; the last one has no records."""
        found = [self.answer(limit=limit)]
        while found[-1].records:
            assert len(found) < len(PEERS), "parts without end"
            found.append(self.answer(limit=limit, cookie=found[-1].cookie))
        return found


def registered(answer):
    return [PEERS.index(read_envelope(envelope).check().peer) for envelope in answer.records]


def test_a_peer_is_found_until_its_registration_expires_or_it_unregisters():
    point = Point()
    assert (point.register(0), point.register(1, ttl_s=30)) == (Status.OK, Status.OK)
    assert set(point.listed()) == {0, 1}
    assert point.listed(namespace="other") == []
    point.clock.now = 31
    assert point.listed() == [0]
    point.clock.now = DEFAULT_TTL_S + 1
    assert point.listed() == []
    point.register(0)
    point.unregister(0)
    assert point.listed() == []


def test_a_cookie_brings_only_new_registrations_of_its_namespace():
    point = Point()
    point.register(0)
    first = point.answer()
    point.register(1)
    assert point.listed(cookie=first.cookie) == [1]
    assert point.listed(cookie=point.answer(cookie=first.cookie).cookie) == []
    for wrong in ({"namespace": "other", "cookie": first.cookie}, {"cookie": b"x"}):
        assert point.answer(**wrong).status == Status.INVALID_COOKIE


def test_what_is_refused():
    point = Point(per_peer=2)
    assert {point.register(0, ""), point.register(0, "x" * 256)} == {Status.INVALID_NAMESPACE}
    assert point.register(0, ttl_s=MAX_TTL_S + 1) == Status.INVALID_TTL
    wrong = (b"", RECORDS[1], b"nonsense", RECORDS[0][:-1] + b"x")
    assert {point.register(0, envelope=envelope) for envelope in wrong} == {Status.INVALID_RECORD}
    statuses = [point.register(0, name) for name in ("a", "b", "c", "a")]
    assert statuses == [Status.OK, Status.OK, Status.UNAVAILABLE, Status.OK]
    assert len(point.registry) == 2


def test_a_record_is_bounded():
    point = Point()
    large = seal_record(KEYS[0], PeerRecord(PEERS[0], 2, (Multiaddr.parse("/dns4/" + "a" * 200 + "/tcp/1"),) * 30))
    assert point.register(0, envelope=large) == Status.INVALID_RECORD
    assert point.register(0) == Status.OK


def test_of_two_records_of_a_peer_the_newer_one_is_sent():
    point = Point()
    newer = record(0, sequence=2)
    for envelope in (newer, RECORDS[0]):
        assert point.register(0, envelope=envelope) == Status.OK
        assert point.answer().records == (newer,)


def test_a_peer_without_room_is_refused_and_no_other_peer():
    point = Point(peer_bytes=2 * ENTRY)
    assert [point.register(0, name) for name in ("aaaa", "bbbb", "cccc")] == [Status.OK] * 2 + [Status.UNAVAILABLE]
    assert point.register(1) == Status.OK
    assert len(point.registry) == 3


def test_in_a_full_address_the_peer_with_most_registrations_loses_some():
    point = Point(address_bytes=5 * ENTRY)
    point.register(5, "zzzz")
    for name in ("aaaa", "bbbb", "cccc", "dddd"):
        point.register(0, name)
    for who in (1, 2):
        assert point.register(who) == Status.OK
    assert point.listed(namespace="zzzz") == [5]
    assert [point.listed(namespace=name) for name in ("aaaa", "bbbb", "cccc", "dddd")] == [[], [], [0], [0]]
    assert set(point.listed()) == {1, 2}


def test_in_a_full_registry_the_largest_address_loses_registrations():
    """Forty registrations from one address leave room for peers of another one."""
    point = Point(bytes=40 * ENTRY)
    for who in range(40):
        point.register(who, at=AWAY)
    assert [point.register(who) for who in (50, 51, 52)] == [Status.OK] * 3
    assert point.registry.budget.used <= 40 * ENTRY
    assert {50, 51, 52} < set(point.listed())
    assert len(point.registry) == 40


def test_in_a_full_namespace_the_largest_address_loses_registrations():
    point = Point(per_namespace=10)
    for who in range(10):
        point.register(who, at=AWAY)
    for who in (50, 51):
        assert point.register(who) == Status.OK
    assert {50, 51} < set(point.listed())
    assert len(point.listed()) == 10


def test_expired_registrations_free_their_memory():
    point = Point(per_namespace=100)
    for who in range(3):
        point.register(who, ttl_s=10)
    used = point.registry.budget.used
    point.clock.now = EXPIRY_S
    point.register(4)
    assert len(point.registry) == 1
    assert point.registry.budget.used < used


def test_addresses_take_turns_in_an_answer():
    """Ninety registrations of one address hide neither an earlier nor a later one of other addresses."""
    point = Point()
    point.register(100, at="10.0.0.1")
    for who in range(90):
        point.register(who, at=AWAY)
    point.register(101, at="10.0.0.2")
    for _ in range(20):
        assert {100, 101} < set(point.listed(limit=3)), "the first peers"


def test_the_order_of_addresses_is_random():
    point = Point()
    for who in range(20):
        point.register(who, at=f"10.0.0.{who}")
    assert len({point.listed(limit=1)[0] for _ in range(60)}) > 5


def test_the_newest_of_an_address_come_first():
    point = Point()
    for who in range(50):
        point.register(who)
    assert point.listed(limit=2) == [49, 48]


def test_parts_of_an_answer_have_each_peer_once():
    point = Point()
    for who in range(100):
        point.register(who, at=f"10.0.0.{who % 7}")
    parts = point.parts(limit=9)
    assert sorted(who for part in parts for who in registered(part)) == list(range(100))
    assert {len(part.records) for part in parts[:-2]} == {9}
    point.register(110)
    assert point.listed(cookie=parts[-1].cookie) == [110]


def test_an_answer_is_smaller_than_the_largest_message():
    """A hundred of the padded records are larger than the largest message."""
    point = Point()
    padding = (Multiaddr.parse("/dns4/" + "a" * 200 + "/tcp/1"),) * 17
    for who in range(100):
        assert point.register(who, envelope=seal_record(KEYS[who], PeerRecord(PEERS[who], 2, padding))) == Status.OK
    parts = point.parts()
    assert sum(len(envelope) for part in parts for envelope in part.records) > MAX_MESSAGE_BYTES
    assert max(len(frame(encode_message(part))) for part in parts) <= 70_000
    assert sorted(who for part in parts for who in registered(part)) == list(range(100))


def test_a_record_that_fills_an_answer_is_sent_alone():
    point = Point(answer_bytes=100)
    for who in range(3):
        point.register(who)
    assert [len(part.records) for part in point.parts()] == [1, 1, 1, 0]


def test_the_memory_of_registrations_is_close_to_the_counted_bytes():
    point = Point()
    point.register(0, "warm")
    tracemalloc.start()
    names = [f"topic {number:04d}" for number in range(500)]
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    used = point.registry.budget.used
    for who in (1, 2):
        for number in range(500):
            # new objects for each registration, as if read from a socket
            envelope = bytes(bytearray(RECORDS[who]))
            assert point.register(who, names[number][:5] + names[number][5:], envelope) == Status.OK
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert taken < 1.5 * (point.registry.budget.used - used)


QUESTIONS = st.lists(
    st.tuples(
        st.sampled_from(("register", "register", "unregister", "discover")),
        st.integers(0, 5),
        st.sampled_from(("news", "a", "b")),
        st.sampled_from((HOME, AWAY, "10.0.0.1")),
        st.sampled_from((1, 100, 7200)),
        st.floats(0, 30),
    ),
    max_size=60,
)


@given(QUESTIONS)
def test_after_any_requests_registrations_are_counted_and_bounded(questions):
    point = Point(peer_bytes=3 * ENTRY, address_bytes=4 * ENTRY, bytes=6 * ENTRY, per_namespace=4)
    for kind, who, namespace, at, ttl_s, later_s in questions:
        point.clock.now += later_s
        match kind:
            case "register":
                point.register(who, namespace, ttl_s=ttl_s, at=at)
            case "unregister":
                point.unregister(who, namespace)
            case _:
                point.answer(namespace)
    registry = point.registry
    kept = [kept for peers in registry._names.values() for kept in peers.values()]
    assert registry.budget.used == sum(one.bytes for one in kept) <= 6 * ENTRY
    assert len(registry) == len(kept)
    assert all(len(peers) <= 4 for peers in registry._names.values())
    for peers in registry._names.values():
        numbers = [one.number for one in peers.values()]
        assert numbers == sorted(numbers)
    for address, place in registry._addresses.items():
        here = {(one.namespace, one.peer) for one in kept if one.address == address}
        assert here == place.registrations.keys() != set()
    assert registry._peers.keys() == {one.peer for one in kept}


@pytest.mark.parametrize("upto", [0, 1 << 40])
def test_a_forged_cookie_is_harmless(upto):
    point = Point()
    point.register(0)
    made_up = b"".join(number.to_bytes(size, "big") for number, size in ((0, 8), (upto, 8), (1 << 31, 4), (7, 4)))
    assert point.listed(cookie=made_up + b"news") == []
