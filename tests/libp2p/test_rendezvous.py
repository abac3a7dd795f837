"""Rendezvous: its messages, and registrations of the older form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearsay.libp2p.names.errors import EncodingError
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import peer_id_of
from hearsay.libp2p.rendezvous import (
    MAX_ANSWER,
    MessageType,
    PeerRecord,
    RendezvousMessage,
    Status,
    decode_message,
    encode_message,
    open_unsigned,
    seal_record,
    unsigned_record,
)
from hearsay.libp2p.rendezvous_streams import Registry

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
def test_messages_round_trip(message):
    assert decode_message(encode_message(message)) == message


def test_the_bytes_of_the_specification():
    assert encode_message(discover(limit=5, cookie=b"c")).hex() == "08032a0b0a046e65777310051a0163"


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_an_encoding_error(data):
    try:
        message = decode_message(data)
    except EncodingError:
        return
    Registry(lambda: 0.0).answer(PEERS[0], "127.0.0.1", message)


def test_a_registration_of_the_older_form_is_read():
    """py-libp2p's points return `{id = 1, addrs = 2}`. Its generated protobuf classes made these bytes."""
    addresses = (Multiaddr.parse("/ip4/127.0.0.1/tcp/4001"), Multiaddr.parse("/ip4/10.0.0.1/tcp/2"))
    older = b"\x0a\x26" + PEERS[0] + b"".join(b"\x12\x08" + address.encode() for address in addresses)
    assert open_unsigned(older) == (PEERS[0], addresses)
    assert unsigned_record(PEERS[0], addresses) == older
    with pytest.raises(EncodingError):
        open_unsigned(RECORDS[0])


@given(st.binary(max_size=100) | st.binary(max_size=60).map(lambda tail: RECORDS[0][:-8] + tail))
def test_any_registration_of_the_older_form_is_read_or_refused(record):
    try:
        peer, _ = open_unsigned(record)
    except EncodingError:
        return
    assert peer


def test_answers_are_bounded():
    message = RendezvousMessage(type=MessageType.DISCOVER_RESPONSE, records=(b"",) * (MAX_ANSWER + 1))
    with pytest.raises(EncodingError):
        decode_message(encode_message(message))
