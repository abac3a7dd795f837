"""Encoded parts of episub: compared with the protobuf library and the core's sizes; limits and hostile bytes."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from episub_strategy import any_episub_part
from hypothesis import given
from hypothesis import strategies as st
from protobuf_classes import message_classes
from protobuf_reference import blobs

from hearsay.core.language import episub_parts
from hearsay.core.language.rpc import FIRST_EXTENSION_FIELD, Control, Extension, Message, PartKind, Rpc
from hearsay.core.language.sizes import rpc_size
from hearsay.libp2p.names.protobuf import bytes_field, varint_field
from hearsay.wire.decode import decode_rpc
from hearsay.wire.encode import encode_rpc, split_rpc
from hearsay.wire.fields import RpcLimits, WireError, encode_part

LIMITS = RpcLimits()

topics = st.text(max_size=6)
peers = st.binary(min_size=1, max_size=8).map(lambda key: bytes((0, len(key))) + key)
numbers = st.integers(0, (1 << 64) - 1)
any_part = any_episub_part(
    topics=topics,
    id_lists=st.lists(blobs, max_size=4).map(tuple),
    announced=st.lists(st.tuples(blobs, numbers), max_size=4).map(
        lambda pairs: (tuple(known for known, _ in pairs), tuple(hops for _, hops in pairs))
    ),
    peers=peers,
    peer_lists=st.lists(peers, max_size=4).map(tuple),
    numbers=numbers,
    sketches=st.lists(numbers, max_size=4).map(tuple),
)
rpcs = st.builds(
    lambda messages, control: Rpc((), messages, Control(episub=control) if control else None),
    st.lists(st.builds(Message, st.just(b"id"), topics, blobs, hops=st.none() | numbers), max_size=3).map(tuple),
    st.lists(any_part, max_size=4).map(tuple),
)


def decoded(data, limits=LIMITS, episub=True):
    return decode_rpc(data, lambda *_: b"id", limits, episub)


def alone(part):
    return Rpc(control=Control(episub=(part,)))


@given(rpcs)
def test_an_rpc_survives_a_round_trip_and_has_the_size_that_the_core_computes(rpc):
    data = encode_rpc(rpc)
    assert rpc_size(rpc) == len(data)
    found = decoded(data)
    assert found.rpc == rpc
    assert found.left_out == 0
    assert encode_rpc(found.rpc) == data


EpisubPart = message_classes("episub")["EpisubPart"]


@given(any_part)
def test_the_protobuf_library_reads_the_same(part):
    wire = EpisubPart.FromString(encode_part(part))
    assert wire.kind == PartKind[type(part).__name__.upper().removeprefix("EPISUB")]
    for field in fields(part):
        value = getattr(part, field.name)
        name = {"topics": "topic", "source": "peer"}.get(field.name, field.name)
        found = getattr(wire, name)
        if name == "topic" and field.name == "topic":
            assert list(found) == [value]
        elif isinstance(value, tuple):
            assert tuple(found) == value
        else:
            assert found == value


@given(st.binary(max_size=200))
def test_any_bytes_are_parts_or_a_wire_error(data):
    for wrapped in (data, bytes_field(3, data), bytes_field(3, bytes_field(7, data))):
        try:
            found = decoded(wrapped).rpc
        except WireError:
            continue
        assert decoded(encode_rpc(found)).rpc == found


@given(rpcs)
def test_episub_parts_of_peers_with_other_protocols_are_left_out(rpc):
    found = decoded(encode_rpc(rpc), episub=False).rpc
    assert found.control is None
    assert found.messages == tuple(replace(message, hops=None) for message in rpc.messages)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        varint_field(1, 200) + bytes_field(2, b"t"),
        varint_field(1, PartKind.PRUNE),
        varint_field(1, PartKind.PRUNE) + bytes_field(2, b"\xff"),
        varint_field(1, PartKind.JOIN) + bytes_field(2, b"t"),
        varint_field(1, PartKind.JOIN) + bytes_field(2, b"t") + bytes_field(5, b"no key"),
        varint_field(1, PartKind.NODES) + bytes_field(2, b"t") + bytes_field(3, b"no key"),
        varint_field(1, PartKind.NEIGHBOR) + bytes_field(2, b"t") + varint_field(7, 4),
        varint_field(1, PartKind.IHAVE) + bytes_field(2, b"t") + bytes_field(14, b"id"),
        varint_field(1, PartKind.IHAVE) + bytes_field(2, b"t") + bytes_field(15, b"\x01\x01"),
        varint_field(1, PartKind.IHAVE) + bytes_field(2, b"t") + bytes_field(14, b"id") + bytes_field(15, b"\xff"),
    ],
)
def test_malformed_parts_are_left_out_and_counted(body):
    found = decoded(bytes_field(3, bytes_field(7, body)))
    assert (found.rpc.control, found.left_out) == (None, 1)


def test_ids_and_peers_are_counted_before_anything_is_built():
    ids = encode_rpc(alone(episub_parts.EpisubGraft("t", (b"x",) * 11)))
    with pytest.raises(WireError, match="10 message ids"):
        decoded(ids, RpcLimits(max_ids=10))
    peers = encode_rpc(alone(episub_parts.Nodes("t", (b"\x00\x01x",) * 11, 1)))
    with pytest.raises(WireError, match="10 exchanged peers"):
        decoded(peers, RpcLimits(max_exchanged_peers=10))


def test_a_long_sketch_is_cut():
    found = decoded(encode_rpc(alone(episub_parts.ShuffleReply("t", (), 1, tuple(range(100_000))))))
    assert found.rpc.control.episub[0].sketch == tuple(range(64))


def test_long_announcements_and_grafts_are_split():
    ids = tuple(b"%030d" % number for number in range(1000))
    rpc = Rpc(
        control=Control(
            episub=(episub_parts.EpisubIHave("t", ids, tuple(range(1000))), episub_parts.EpisubGraft("t", ids))
        )
    )
    pieces, oversized = split_rpc(rpc, 4096)
    assert oversized == []
    assert all(len(encode_rpc(piece)) <= 4096 for piece in pieces)
    again = [part for piece in pieces for part in piece.control.episub]
    announced = [part for part in again if isinstance(part, episub_parts.EpisubIHave)]
    assert tuple(known for part in announced for known in part.ids) == ids
    assert tuple(hops for part in announced for hops in part.hops) == tuple(range(1000))
    assert tuple(known for part in again if isinstance(part, episub_parts.EpisubGraft) for known in part.ids) == ids


def test_short_field_numbers_of_older_nodes_are_read():
    """Experimental fields once had numbers below 0x200000."""
    part = episub_parts.EpisubGraft("t", (b"1",))
    message = Message(b"id", "t", b"data", encoded=None, hops=3)
    rpc = Rpc((), (message,), Control(extensions=(Extension(FIRST_EXTENSION_FIELD, b"x"),), episub=(part,)))
    plain = encode_rpc(Rpc(messages=(replace(message, hops=None),)))[2:]
    old = bytes_field(2, plain + varint_field(7, 3))
    old += bytes_field(3, bytes_field(64, b"x") + bytes_field(7, encode_part(part)))
    assert decoded(old).rpc == decoded(encode_rpc(rpc)).rpc == rpc
    assert decoded(old, episub=False).rpc == Rpc((), (replace(message, hops=None),), replace(rpc.control, episub=()))
    assert len(encode_rpc(rpc)) == rpc_size(rpc)


@pytest.mark.parametrize(
    ("more", "has_more"), [(b"", False), (bytes_field(9, b"x"), True), (varint_field(5, 1), True)]
)
def test_a_hop_count_is_known_and_other_unknown_fields_stay_noted(more, has_more):
    """A signature may cover fields that this program does not know, but never the hop count."""
    plain = bytes_field(2, b"data") + bytes_field(4, b"topic")
    for data in (plain + varint_field(7, 3) + more, plain + more + varint_field(7, 3)):
        (message,) = decoded(bytes_field(2, data)).rpc.messages
        assert (message.hops, message.has_more) == (3, has_more)
