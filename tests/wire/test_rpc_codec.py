"""Encoded RPCs: compared with the protobuf library and the sizes of the core; limits and hostile bytes."""

from __future__ import annotations

import tracemalloc
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st
from protobuf_reference import ReferenceRpc, blobs, rpcs, to_reference

from hearsay.core.language.rpc import Control, Message, Rpc, Subscription
from hearsay.core.language.sizes import rpc_size
from hearsay.libp2p.names.protobuf import bytes_field, varint_field
from hearsay.wire.decode import decode_rpc
from hearsay.wire.encode import encode_rpc
from hearsay.wire.fields import RpcLimits, WireError
from hearsay.wire.messages import by_author, by_content, by_data

LIMITS = RpcLimits()


def decoded(data, limits=LIMITS, message_id=lambda *_: b"id"):
    return decode_rpc(data, message_id, limits)


def test_known_bytes():
    message = Message(b"", "t", b"data", b"\x00\x01p", b"12345678")
    rpc = Rpc((Subscription("t", True),), (message,))
    assert (
        encode_rpc(rpc).hex()
        == "0a0508011201741218" + "0a03000170" + "120464617461" + "1a083132333435363738" + "220174"
    )


@given(rpcs)
def test_bytes_are_those_of_protobuf(rpc):
    assert encode_rpc(rpc) == to_reference(rpc).SerializeToString()


@given(rpcs)
def test_the_core_computes_the_size_that_is_encoded(rpc):
    assert rpc_size(rpc) == len(encode_rpc(rpc))
    again = decoded(encode_rpc(rpc)).rpc
    assert rpc_size(again) == len(encode_rpc(again))


@given(rpcs)
def test_what_is_encoded_is_decoded(rpc):
    found = decoded(encode_rpc(rpc))
    control = None if rpc.control == Control() else rpc.control
    assert found.rpc == Rpc(rpc.subscriptions, rpc.messages, control, rpc.partial, rpc.test)
    assert found.left_out == 0
    assert [message.encoded for message in found.rpc.messages] == [
        wire.SerializeToString() for wire in to_reference(rpc).messages
    ]


@given(st.binary(max_size=300))
def test_any_bytes_are_an_rpc_or_a_wire_error(data):
    try:
        found = decoded(data).rpc
    except WireError:
        return
    assert decoded(encode_rpc(found)).rpc == found


@given(rpcs, st.integers(0, 400), st.integers(1, 255))
def test_mutated_bytes_are_an_rpc_or_a_wire_error(rpc, place, change):
    data = bytearray(encode_rpc(rpc))
    if place < len(data):
        data[place] ^= change
    try:
        found = decoded(bytes(data)).rpc
    except WireError:
        return
    assert decoded(encode_rpc(found)).rpc == found


@given(st.lists(st.tuples(st.integers(1, 9), blobs), max_size=8))
def test_messages_in_any_order_read_as_protobuf_reads_them(fields):
    body = b"".join(bytes_field(number, value) for number, value in fields if number != 4)
    body += bytes_field(4, b"topic")
    data = bytes_field(2, body)
    (message,) = decoded(data).rpc.messages
    reference = ReferenceRpc.FromString(data).messages[0]
    for name, value in (("source", message.source), ("seqno", message.seqno), ("signature", message.signature)):
        assert value == (getattr(reference, name) if reference.HasField(name) else None)
    assert message.data == reference.data
    reference.DiscardUnknownFields()
    assert message.encoded == reference.SerializeToString()


def test_old_senders_with_several_topics_the_last_one_wins():
    body = bytes_field(2, b"data") + bytes_field(4, b"first") + bytes_field(4, b"last")
    (message,) = decoded(bytes_field(2, body)).rpc.messages
    assert message.topic == "last"
    assert message.encoded == bytes_field(2, b"data") + bytes_field(4, b"last")


def test_a_field_left_out_is_not_an_empty_one():
    body = bytes_field(3, b"12345678") + bytes_field(4, b"t")
    (message,) = decoded(bytes_field(2, body)).rpc.messages
    assert message.data == b""
    assert encode_rpc(Rpc(messages=(message,))) == bytes_field(2, body)


def test_several_control_messages_merge():
    data = bytes_field(3, bytes_field(3, bytes_field(1, b"a"))) + bytes_field(3, bytes_field(3, bytes_field(1, b"b")))
    control = decoded(data).rpc.control
    assert [graft.topic for graft in control.graft] == ["a", "b"]
    assert [graft.topic for graft in ReferenceRpc.FromString(data).control.graft] == ["a", "b"]


def test_malformed_parts_are_left_out_and_counted():
    data = (
        bytes_field(1, varint_field(1, 1))  # no topic
        + bytes_field(1, varint_field(1, 1) + bytes_field(2, b"\xff"))  # not UTF-8
        + bytes_field(2, bytes_field(2, b"data"))
        + bytes_field(3, bytes_field(3, b"") + bytes_field(4, bytes_field(1, b"t") + bytes_field(2, b"\x0a\x01x")))
    )
    found = decoded(data)
    assert found.left_out == 5
    assert (found.rpc.subscriptions, found.rpc.messages, found.rpc.control.graft) == ((), (), ())
    assert found.rpc.control.prune[0].peers == ()


def test_topics_need_not_be_ascii():
    rpc = Rpc((Subscription("グループ/ü", True),))
    assert decoded(encode_rpc(rpc)).rpc == rpc
    assert ReferenceRpc.FromString(encode_rpc(rpc)).subscriptions[0].topic == "グループ/ü"


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (bytes_field(1, b"\x08\x01\x12\x00") * 4, "3 subscriptions"),
        (bytes_field(2, b"\x22\x00") * 4, "3 messages"),
        (bytes_field(3, bytes_field(3, b"\x0a\x00") * 4), "3 control parts"),
        (bytes_field(3, bytes_field(3, b"\x0a\x00")) * 4, "3 control parts"),
        (bytes_field(3, bytes_field(1, b"\x12\x00" * 4)), "3 message ids"),
        (bytes_field(3, bytes_field(2, b"\x0a\x00" * 2) + bytes_field(5, b"\x0a\x00" * 2)), "3 message ids"),
        (bytes_field(3, bytes_field(4, b"\x12\x00" * 4)), "3 exchanged peers"),
        (bytes(1001), "at most 1000"),
        (b"\x0a\x05ab", "longer than its message"),
    ],
)
def test_too_much_is_refused(data, complaint):
    limits = RpcLimits(
        max_rpc_bytes=1000, max_subscriptions=3, max_messages=3, max_control=3, max_ids=3, max_exchanged_peers=3
    )
    with pytest.raises(WireError, match=complaint):
        decoded(data, limits)


def test_a_four_megabyte_frame_of_subscribes_builds_nothing():
    flood = bytes_field(1, b"\x08\x01\x12\x02ab") * (1 << 19)
    limits = RpcLimits(max_rpc_bytes=1 << 22)
    assert len(flood) == 1 << 22
    with pytest.raises(WireError, match="20000 subscriptions"):
        decoded(flood, limits)
    tracemalloc.start()
    try:
        with pytest.raises(WireError):
            decoded(flood, limits)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("data", "left_out", "kept"),
    [
        (bytes_field(1, b"\x08\x01" + bytes_field(2, b"abcd")), 0, True),
        (bytes_field(1, b"\x08\x01" + bytes_field(2, b"abcde")), 1, False),
        (bytes_field(2, bytes_field(4, b"abcde")), 1, False),
        (bytes_field(3, bytes_field(1, bytes_field(1, b"abcde"))), 1, False),
        (bytes_field(3, bytes_field(3, bytes_field(1, b"abcde"))), 1, False),
        (bytes_field(3, bytes_field(4, bytes_field(1, b"abcde"))), 1, False),
        (bytes_field(3, bytes_field(1, bytes_field(1, b"abcd") + bytes_field(2, bytes(7)))), 1, True),
        (bytes_field(3, bytes_field(2, bytes_field(1, bytes(7)) + bytes_field(1, bytes(6)))), 1, True),
        (bytes_field(3, bytes_field(5, bytes_field(1, bytes(7)))), 1, True),
        (bytes_field(2, bytes_field(3, bytes(7)) + bytes_field(4, b"abcd")), 1, False),
        (bytes_field(10, bytes_field(1, b"abcd") + bytes_field(2, bytes(6))), 0, True),
        (bytes_field(10, bytes_field(1, b"abcd") + bytes_field(2, bytes(7))), 1, False),
        (bytes_field(3, bytes_field(7, b"\x08\x0a" + bytes_field(2, b"abcde"))), 1, False),
        (bytes_field(3, bytes_field(7, b"\x08\x06" + bytes_field(2, b"abcd") + bytes_field(14, bytes(7)))), 1, False),
    ],
)
def test_names_that_are_too_long_are_left_out(data, left_out, kept):
    limits = RpcLimits(max_topic_bytes=4, max_id_bytes=6)
    found = decode_rpc(data, by_author, limits, episub=True)
    assert (found.left_out, found.rpc != Rpc()) == (left_out, kept)
    unbounded = decode_rpc(data, by_author, RpcLimits(), episub=True)
    assert (unbounded.left_out, unbounded.rpc != Rpc()) == (0, True)


def _filled(part, most, control=False):
    parts = part * min(most, ((1 << 20) - 8) // len(part))
    return bytes_field(3, parts) if control else parts


_AUTHORED = bytes_field(1, bytes(38)) + bytes_field(2, b"x" * 20) + bytes_field(3, bytes(8))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "data",
    [
        _filled(bytes_field(1, b"\x08\x01" + bytes_field(2, b"a" * 42)), 20_000),
        _filled(bytes_field(2, _AUTHORED + bytes_field(4, b"abc")), 10_000),
        _filled(bytes_field(4, b"\x0a\x01a\x18\xff\xff\x03"), 20_000, control=True),
        bytes_field(3, bytes_field(2, bytes_field(1, bytes(17)) * 50_000)),
        _filled(bytes_field(7, b"\x08\x0d" + bytes_field(2, b"a") * 15), 20_000, control=True),
        bytes_field(3, bytes_field(7, b"\x08\x0d" + bytes_field(2, b"a") * 340_000)),
    ],
    ids=("subscriptions", "messages", "prunes", "ids", "lists of topics", "one list of topics"),
)
def test_the_memory_of_one_decoded_rpc_is_bounded(data):
    assert len(data) <= 1 << 20
    tracemalloc.start()
    try:
        decoded_rpc = decode_rpc(data, by_author, RpcLimits(), episub=True).rpc
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
        assert decoded_rpc != Rpc()
    finally:
        tracemalloc.stop()


def test_message_ids():
    assert by_author("t", b"peer", b"number", b"data") == b"peernumber"
    assert by_author("t", None, None, b"data") == by_content("t", None, None, b"data")
    body = bytes_field(1, b"peer") + bytes_field(3, b"1") + bytes_field(4, b"t")
    assert decoded(bytes_field(2, body), message_id=by_author).rpc.messages[0].id == b"peer1"


def test_numbers_cannot_be_sent():
    with pytest.raises(TypeError, match="simulations"):
        encode_rpc(Rpc((Subscription(7, True),)))


def test_the_same_data_in_two_topics_are_two_messages():
    messages = (("a", b"bc"), ("ab", b"c"), ("", b"abc"))
    assert len({by_content(topic, None, None, data) for topic, data in messages}) == 3
    assert by_data("a", None, None, b"data") == by_data("b", None, None, b"data") == sha256(b"data").digest()
