"""Rendezvous: messages, what a point remembers, and its bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearsay.libp2p.errors import EncodingError
from hearsay.libp2p.keys import PrivateKey
from hearsay.libp2p.multiaddr import Multiaddr
from hearsay.libp2p.peer_id import peer_id_of
from hearsay.libp2p.peer_record import PeerRecord, seal_record
from hearsay.libp2p.rendezvous import (
    DEFAULT_TTL_S,
    MAX_ANSWER,
    MAX_TTL_S,
    MessageType,
    Registry,
    RegistryLimits,
    RendezvousMessage,
    Status,
    decode_message,
    encode_message,
    open_registration,
    unsigned_record,
)

KEYS = [PrivateKey.generate() for _ in range(3)]
PEERS = [peer_id_of(key.public) for key in KEYS]
RECORDS = [
    seal_record(key, PeerRecord(peer, 1, (Multiaddr.parse("/ip4/127.0.0.1/tcp/4001"),)))
    for key, peer in zip(KEYS, PEERS, strict=True)
]


def register(who, namespace="news", record=None, ttl_s=0):
    record = RECORDS[who] if record is None else record
    return RendezvousMessage(type=MessageType.REGISTER, namespace=namespace, record=record, ttl_s=ttl_s)


def discover(namespace="news", limit=0, cookie=b""):
    return RendezvousMessage(type=MessageType.DISCOVER, namespace=namespace, limit=limit, cookie=cookie)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.mark.parametrize(
    "message",
    [
        register(0, ttl_s=7200),
        RendezvousMessage(type=MessageType.REGISTER_RESPONSE, status=Status.INVALID_TTL, ttl_s=5),
        RendezvousMessage(type=MessageType.UNREGISTER, namespace="новости"),
        discover(limit=3, cookie=b"biscuit"),
        RendezvousMessage(type=MessageType.DISCOVER_RESPONSE, records=tuple(RECORDS), cookie=b"c", status=103),
    ],
)
def test_messages_come_back(message):
    assert decode_message(encode_message(message)) == message


def test_the_bytes_of_the_specification():
    assert encode_message(discover(limit=5, cookie=b"c")).hex() == "08032a0b0a046e65777310051a0163"


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_an_encoding_error(data):
    try:
        message = decode_message(data)
    except EncodingError:
        return
    Registry(Clock()).answer(PEERS[0], message)


def test_who_registered_is_found_until_the_time_is_over_or_it_leaves():
    clock = Clock()
    registry = Registry(clock)
    assert registry.answer(PEERS[0], register(0)).ttl_s == DEFAULT_TTL_S
    registry.answer(PEERS[1], register(1, ttl_s=60))
    assert registry.answer(PEERS[2], discover()).records == (RECORDS[0], RECORDS[1])
    assert registry.answer(PEERS[2], discover("other")).records == ()
    clock.now = 61
    assert registry.answer(PEERS[2], discover()).records == (RECORDS[0],)
    assert registry.answer(PEERS[0], RendezvousMessage(type=MessageType.UNREGISTER, namespace="news")) is None
    assert registry.answer(PEERS[2], discover()).records == ()


def test_a_cookie_brings_what_is_new_and_is_for_its_namespace():
    registry = Registry(Clock())
    registry.answer(PEERS[0], register(0))
    first = registry.answer(PEERS[2], discover())
    registry.answer(PEERS[1], register(1))
    assert registry.answer(PEERS[2], discover(cookie=first.cookie)).records == (RECORDS[1],)
    for wrong in (discover("other", cookie=first.cookie), discover(cookie=b"x")):
        assert registry.answer(PEERS[2], wrong).status == Status.INVALID_COOKIE


def test_what_is_refused():
    registry = Registry(Clock(), RegistryLimits(per_peer=2, registrations=3))
    refused = {
        Status.INVALID_NAMESPACE: (register(0, ""), register(0, "x" * 256)),
        Status.INVALID_TTL: (register(0, ttl_s=MAX_TTL_S + 1),),
        Status.INVALID_RECORD: (register(0, record=RECORDS[1]), register(0, record=b"nonsense")),
    }
    for status, questions in refused.items():
        assert {registry.answer(PEERS[0], question).status for question in questions} == {status}
    statuses = [registry.answer(PEERS[0], register(0, name)).status for name in ("a", "b", "c", "a")]
    assert statuses == [Status.OK, Status.OK, Status.UNAVAILABLE, Status.OK]
    statuses = [registry.answer(PEERS[1], register(1, name)).status for name in ("a", "b")]
    assert statuses == [Status.OK, Status.UNAVAILABLE]
    assert len(registry) == 3


def test_room_is_made_by_what_is_over():
    clock = Clock()
    registry = Registry(clock, RegistryLimits(registrations=1))
    registry.answer(PEERS[0], register(0, ttl_s=10))
    assert registry.answer(PEERS[1], register(1)).status == Status.UNAVAILABLE
    clock.now = 11
    assert registry.answer(PEERS[1], register(1)).status == Status.OK


def test_a_registration_is_read_signed_or_not():
    """py-libp2p's points hand out `{id = 1, addrs = 2}`; these bytes are of its generated protobuf classes."""
    addresses = (Multiaddr.parse("/ip4/127.0.0.1/tcp/4001"), Multiaddr.parse("/ip4/10.0.0.1/tcp/2"))
    older = b"\x0a\x26" + PEERS[0] + b"".join(b"\x12\x08" + address.encode() for address in addresses)
    assert open_registration(older) == (PEERS[0], addresses)
    assert unsigned_record(PEERS[0], addresses) == older
    assert open_registration(RECORDS[0]) == (PEERS[0], addresses[:1])


@given(st.binary(max_size=100) | st.binary(max_size=60).map(lambda tail: RECORDS[0][:-8] + tail))
def test_any_registration_is_read_or_refused(record):
    try:
        peer, _ = open_registration(record)
    except EncodingError:
        return
    assert peer


def test_answers_are_bounded():
    message = RendezvousMessage(type=MessageType.DISCOVER_RESPONSE, records=(b"",) * (MAX_ANSWER + 1))
    with pytest.raises(EncodingError):
        decode_message(encode_message(message))
