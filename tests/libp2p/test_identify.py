"""Identify, ping and signed peer records: round trips, limits, any bytes."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearsay.libp2p import identify, rendezvous
from hearsay.libp2p.identify import Identity, decode_identity, encode_identity
from hearsay.libp2p.names.errors import EncodingError
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import peer_id_of
from hearsay.libp2p.names.protobuf import bytes_field
from hearsay.libp2p.rendezvous import PeerRecord, read_envelope, seal_record

ALICE, BOB = (PrivateKey.from_seed(bytes([number]) * 32) for number in (1, 2))
ADDRESS = Multiaddr.parse("/ip4/127.0.0.1/tcp/4001")
FULL = Identity(
    ALICE.public.encoded, (ADDRESS, ADDRESS), ("/a", "/b"), ADDRESS, "ipfs/0.1.0", "hearsay/0.1", b"record"
)


def test_an_identity_round_trips():
    assert decode_identity(encode_identity(FULL)) == FULL
    assert decode_identity(b"") == Identity()


def test_several_messages_merge():
    head, tail = Identity(b"key", (), ("/a",)), Identity(b"", (ADDRESS,), ("/b",))
    merged = decode_identity(encode_identity(head) + encode_identity(tail))
    assert merged.protocols == ("/a", "/b")
    assert merged.listen_addresses == (ADDRESS,)


def test_unknown_addresses_are_skipped():
    encoded = bytes_field(2, b"\xff\x7f") + bytes_field(2, ADDRESS.encode()) + bytes_field(4, b"\xff\x7f")
    assert decode_identity(encoded) == Identity(listen_addresses=(ADDRESS,))


def test_identify_is_bounded():
    with pytest.raises(EncodingError, match="protocols"):
        decode_identity(bytes_field(3, b"/p") * (identify.MAX_PROTOCOLS + 1))
    with pytest.raises(EncodingError, match="bytes"):
        decode_identity(bytes(identify.MAX_IDENTIFY_BYTES + 1))
    with pytest.raises(EncodingError, match="name"):
        decode_identity(bytes_field(6, b"a" * 257))
    assert len(decode_identity(bytes_field(2, ADDRESS.encode()) * 200).listen_addresses) == rendezvous.MAX_ADDRESSES


def test_a_record_is_opened_when_its_peer_signed_it():
    record = PeerRecord(peer_id_of(ALICE.public), 7, (ADDRESS,))
    assert read_envelope(seal_record(ALICE, record)).check() == record
    with pytest.raises(EncodingError, match="another peer"):
        read_envelope(seal_record(BOB, record)).check()
    envelope = seal_record(ALICE, record)
    with pytest.raises(EncodingError, match="wrong signature"):
        read_envelope(envelope[:-1] + bytes([envelope[-1] ^ 1])).check()
    with pytest.raises(EncodingError, match="at most"):
        read_envelope(bytes(9000)).check()


@given(st.binary(max_size=200))
def test_any_bytes_are_an_identity_or_an_encoding_error(raw):
    for read in (decode_identity, lambda data: read_envelope(data).check()):
        with contextlib.suppress(EncodingError):
            read(raw)


@given(st.integers(0, 100), st.integers(1, 250))
def test_a_mutated_record_is_refused(place, change):
    envelope = bytearray(seal_record(ALICE, PeerRecord(peer_id_of(ALICE.public), 7, (ADDRESS,))))
    envelope[place] ^= change
    with contextlib.suppress(EncodingError):
        assert read_envelope(bytes(envelope)).check() == PeerRecord(peer_id_of(ALICE.public), 7, (ADDRESS,))
