"""Varints, protobuf fields, frames, multiaddrs and base58: known values, round trips, any bytes."""

from __future__ import annotations

import contextlib
from base64 import b32encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearsay.libp2p.frames import FrameReader, frame
from hearsay.libp2p.names import peer_id, protobuf
from hearsay.libp2p.names.errors import EncodingError, FrameError, ProtocolError
from hearsay.libp2p.names.multiaddr import Multiaddr, tcp_multiaddr
from hearsay.libp2p.names.protobuf import DELIMITED, FIXED32, FIXED64, GROUP, VARINT, bytes_field, varint_field, walk

PEER = "12D3KooWD3eckifWpRn9wQpMG9R9hX3sD158z7EqHWmweQAJU5SA"


def pieces(data, draw):
    """Return the data, cut at random places."""
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=12)))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


@given(st.integers(0, (1 << 64) - 1))
def test_varints_round_trip(value):
    encoded = protobuf.encode(value)
    assert protobuf.decode(encoded, 0, len(encoded)) == (value, len(encoded))
    assert protobuf.decode_partial(encoded[:-1], 0, len(encoded) - 1) is None


@pytest.mark.parametrize("raw", [b"", b"\x80", b"\xff" * 9 + b"\x02", b"\xff" * 11])
def test_bad_varints_are_refused(raw):
    with pytest.raises(EncodingError):
        protobuf.decode(raw, 0, len(raw))


def test_varints_without_an_end_are_refused():
    assert protobuf.decode_partial(b"\x80" * 9, 0, 9) is None
    with pytest.raises(EncodingError, match="longer than 10 bytes"):
        protobuf.decode_partial(b"\x80" * 10, 0, 10)


def test_known_base58():
    assert peer_id.to_base58(b"Hello World!") == "2NEpo7TZRRrLZSi2U"
    assert peer_id.to_base58(bytes.fromhex("0000287fb4cd")) == "11233QC4"


@given(st.binary(max_size=64))
def test_base58_and_base32_round_trip(raw):
    assert peer_id.from_base58(peer_id.to_base58(raw)) == raw
    assert peer_id.from_base32(b32encode(raw).decode().rstrip("=").lower()) == raw


def test_fixed_fields_and_groups_have_no_value():
    data = (
        varint_field(9, 7)
        + b"\x0b\x08\x01\x13\x14\x0c"  # group 1 with a varint and an empty group 2
        + b"\x19" + bytes(8)  # fixed64, field 3
        + b"\x25" + bytes(4)  # fixed32, field 4
        + bytes_field(5, b"here")
    )  # fmt: skip
    found = list(walk(data, 0, len(data)))
    assert found[0][:3] == (9, VARINT, 7)
    number, wire_type, start, stop = found[-1]
    assert (number, wire_type, data[start:stop]) == (5, DELIMITED, b"here")
    assert [field[:2] for field in found[1:-1]] == [(1, GROUP), (3, FIXED64), (4, FIXED32)]


def test_groups_nest_to_any_depth():
    """go relays unknown fields with groups in groups, ten thousand deep or more."""
    deep = b"\x0b" * 100_000 + b"\x0c" * 100_000
    assert list(walk(deep, 0, len(deep))) == [(1, GROUP, len(deep), len(deep))]
    with pytest.raises(EncodingError, match="cut off"):
        list(walk(b"\x0b" * 100_000, 0, 100_000))
    with pytest.raises(EncodingError, match="group 1 ends with the number 2"):
        list(walk(b"\x0b\x14", 0, 2))


@given(st.binary(max_size=200))
def test_walking_any_bytes_ends_in_fields_or_an_encoding_error(data):
    try:
        for _, wire_type, start, stop in walk(data, 0, len(data)):
            assert wire_type != DELIMITED or 0 <= start <= stop <= len(data)
    except EncodingError:
        pass


@given(st.lists(st.binary(max_size=300), max_size=8), st.data())
def test_frames_do_not_depend_on_how_the_stream_is_cut(payloads, data):
    reader = FrameReader(300)
    found = []
    for piece in pieces(b"".join(map(frame, payloads)), data.draw):
        found += reader.receive(piece)
    assert found == payloads
    assert (reader._buffer, reader.may_have_frame) == (b"", False)


def test_a_length_that_is_declared_and_never_sent_costs_nothing():
    reader = FrameReader(1 << 20)
    assert reader.receive(protobuf.encode(1 << 20)) == []
    assert (len(reader._buffer), reader.may_have_frame) == (3, False)


def test_frames_beyond_the_limit_are_refused_before_their_bytes_come():
    with pytest.raises(FrameError, match="at most 100"):
        FrameReader(100).receive(protobuf.encode(101))
    with pytest.raises(FrameError):
        FrameReader(100).receive(b"\xff" * 11)


@pytest.mark.parametrize(
    ("text", "raw"),
    [
        ("/ip4/127.0.0.1/tcp/4001", "047f000001060fa1"),
        ("/ip6/::1/tcp/80", "29" + "00" * 15 + "01060050"),
        ("/dns4/example.org/tcp/1", "360b6578616d706c652e6f7267060001"),
        ("/ip4/1.2.3.4/udp/4001/quic-v1", "040102030491020fa1cd03"),
        (f"/p2p/{PEER}", "a50326" + peer_id.from_base58(PEER).hex()),
    ],
)
def test_known_multiaddrs(text, raw):
    address = Multiaddr.parse(text)
    assert address.encode().hex() == raw
    assert Multiaddr.decode(bytes.fromhex(raw)) == address
    assert str(address) == text


def test_endpoint_and_peer_of_a_multiaddr():
    address = Multiaddr.parse(f"/ip4/10.0.0.1/tcp/4001/ipfs/{PEER}")
    assert str(address) == f"/ip4/10.0.0.1/tcp/4001/p2p/{PEER}"
    assert address.tcp_endpoint == ("10.0.0.1", 4001)
    assert address.peer == peer_id.from_base58(PEER)
    assert Multiaddr.parse("/ip4/1.2.3.4/udp/4001/quic-v1").tcp_endpoint is None
    assert str(tcp_multiaddr("fe80::1%eth0", 5)) == "/ip6/fe80::1/tcp/5"
    assert tcp_multiaddr("127.0.0.1", 5).with_peer(address.peer).peer == address.peer


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("ip4/1.2.3.4", "that start with /"),
        ("/", "0 parts"),
        ("/ip4", "needs a value"),
        ("/ip4/1.2.3/tcp/1", "ip4"),
        ("/ip4/1.2.3.4/tcp/65536", "0…65535"),
        ("/garlic64/x", "'garlic64' is not supported"),
        ("/p2p/QmNo", "peer id"),
    ],
)
def test_errors_of_multiaddrs_name_the_wrong_part(text, complaint):
    with pytest.raises(EncodingError, match=complaint):
        Multiaddr.parse(text)


@given(st.binary(max_size=60) | st.binary(max_size=20).map(lambda tail: b"\x04\x7f\0\0\x01\x06\x0f\xa1" + tail))
def test_any_bytes_are_a_multiaddr_or_an_encoding_error(raw):
    try:
        address = Multiaddr.decode(raw)
    except EncodingError:
        return
    assert Multiaddr.decode(address.encode()) == address
    assert Multiaddr.parse(str(address)) == address


@given(st.text("/ip46tcdns0123.:p2", max_size=40))
def test_any_text_is_a_multiaddr_or_a_protocol_error(text):
    with contextlib.suppress(ProtocolError):
        Multiaddr.parse(text)
