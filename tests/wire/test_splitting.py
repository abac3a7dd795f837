"""Splitting of large RPCs: pieces are within the limit, and have the parts of the RPC in their order."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from protobuf_reference import rpcs

from hearsay.core.language.rpc import (
    Control,
    ControlPart,
    Features,
    Graft,
    IHave,
    Message,
    PeerInfo,
    Prune,
    Rpc,
    Subscription,
)
from hearsay.core.language.sizes import rpc_size
from hearsay.wire.encode import check_fits, check_topic, encode_rpc, split_rpc
from hearsay.wire.fields import RpcLimits, TooLarge

KINDS = ("graft", "prune", "extensions", "features")


def united_ids(rpc_list, kind):
    """Return the topic and id of each id of a kind of control part, in order."""
    return [
        (getattr(part, "topic", None), known)
        for rpc in rpc_list
        if rpc.control is not None
        for part in getattr(rpc.control, kind)
        for known in part.ids
    ]


@given(rpcs, st.integers(300, 1500))
def test_pieces_are_within_the_limit_and_have_the_same_parts(rpc, limit):
    pieces, oversized = split_rpc(rpc, limit)
    assert all(len(encode_rpc(piece)) <= limit for piece in pieces)
    assert [change for piece in pieces for change in piece.subscriptions] == list(rpc.subscriptions)
    kept = [message for message in rpc.messages if message not in oversized]
    assert [message for piece in pieces for message in piece.messages] == kept
    kept_partials = [piece.partial for piece in pieces if piece.partial is not None]
    assert kept_partials == (
        [] if rpc.partial is None or rpc_size(Rpc(partial=rpc.partial)) > limit - 6 else [rpc.partial]
    )
    assert [piece.test for piece in pieces if piece.test is not None] == ([rpc.test] if rpc.test is not None else [])
    control = rpc.control or Control()
    assert not control.features or pieces[0].control.features == control.features
    for kind in ("ihave", "iwant", "idontwant"):
        whole = Rpc(control=control)
        assert united_ids(pieces, kind) == united_ids([whole], kind)
    for kind in KINDS:
        found = [part for piece in pieces if piece.control for part in getattr(piece.control, kind)]
        fitting = [
            part for part in getattr(control, kind) if rpc_size(Rpc(control=Control(**{kind: (part,)}))) <= limit
        ]
        assert set(fitting) >= set(found)
        assert len(found) >= len([p for p in fitting if rpc_size(Rpc(control=Control(**{kind: (p,)}))) <= limit - 4])


@pytest.mark.parametrize("kind", get_args(ControlPart), ids=lambda kind: kind.__name__)
def test_every_control_part_has_a_field_of_control(kind):
    """Otherwise splitting would lose it."""
    part = kind.__new__(kind)
    assert tuple(Control.of((part,)).parts()) == (part,)


def test_a_part_without_a_field_is_an_error():
    with pytest.raises(KeyError):
        Control.of((Subscription("t", True),))


def test_an_rpc_that_fits_stays_one():
    rpc = Rpc((Subscription("t", True),))
    assert split_rpc(rpc, 100) == ([rpc], [])


def test_a_long_ihave_is_cut_between_ids():
    ids = tuple(bytes([number]) * 40 for number in range(100))
    pieces, _ = split_rpc(Rpc(control=Control(ihave=(IHave("news", ids),))), 1000)
    assert len(pieces) == 5
    assert tuple(known for piece in pieces for known in piece.control.ihave[0].ids) == ids


def test_tag_and_length_of_control_count_when_other_parts_fill_the_room():
    changes = tuple(Subscription(f"topic{number:02}", True) for number in range(40))
    hello = Rpc(changes, control=Control(features=(Features(True, True),)))
    for limit in range(60, 436):
        pieces, _ = split_rpc(hello, limit)
        assert max(len(encode_rpc(piece)) for piece in pieces) <= limit
        assert tuple(change for piece in pieces for change in piece.subscriptions) == changes


def control_bytes(rpc: Rpc) -> int:
    """Return the bytes that go's limit counts: those of subscriptions and control."""
    return len(encode_rpc(replace(rpc, messages=(), partial=None, test=None)))


@given(rpcs, st.integers(300, 1500))
def test_subscriptions_and_control_have_a_limit_of_their_own(rpc, limit):
    pieces, oversized = split_rpc(rpc, 1 << 20, limit)
    assert not oversized
    assert all(control_bytes(piece) <= limit for piece in pieces)
    assert [message for piece in pieces for message in piece.messages] == list(rpc.messages)
    assert [change for piece in pieces for change in piece.subscriptions] == list(rpc.subscriptions)
    for kind in ("ihave", "iwant", "idontwant"):
        assert united_ids(pieces, kind) == united_ids([rpc], kind)


def test_a_hello_beyond_gos_limit_of_control_is_split():
    """go-libp2p-pubsub v0.19 resets the stream above 512 KiB of subscriptions and control, or 1 MiB in all."""
    hello = Rpc(tuple(Subscription(f"topic/{number:040}", True) for number in range(12_000)))
    assert 512 << 10 < control_bytes(hello) < 1 << 20
    pieces, _ = split_rpc(hello, 1 << 20)
    assert len(pieces) == 2
    assert all(control_bytes(piece) <= 512 << 10 for piece in pieces)


def test_a_part_above_the_limit_of_control_is_left_out():
    large, small = Prune("t", 60, (PeerInfo(b"p", bytes(2000)),)), Prune("u")
    assert split_rpc(Rpc(control=Control(prune=(large, small))), 1 << 20, 1000) == (
        [Rpc(control=Control(prune=(small,)))],
        [],
    )


def test_a_large_message_needs_no_room_of_control():
    message = Message(b"1", "t", bytes(900_000))
    graft = Control(graft=(Graft("t"),))
    assert split_rpc(Rpc((), (message,), graft), 1 << 20) == ([Rpc((), (message,), graft)], [])


def test_a_message_that_cannot_fit_is_left_out_and_the_rest_goes():
    large, small = Message(b"1", "t", bytes(2000)), Message(b"2", "t", b"x")
    pieces, oversized = split_rpc(Rpc((), (large, small), Control(prune=(Prune("t"),))), 1000)
    assert oversized == [large]
    assert pieces == [Rpc((), (small,), Control(prune=(Prune("t"),)))]


def test_a_single_message_that_cannot_fit_is_refused_to_its_author():
    message = Message(b"", "t", bytes(100))
    size = len(encode_rpc(Rpc(messages=(message,))))
    check_fits(message, RpcLimits(max_rpc_bytes=size))
    with pytest.raises(TooLarge, match=f"{size} bytes"):
        check_fits(message, RpcLimits(max_rpc_bytes=size - 1))


def test_names_that_peers_would_leave_out_are_not_sent():
    limits = RpcLimits(max_topic_bytes=4, max_id_bytes=8)
    check_topic("news", limits)
    with pytest.raises(TooLarge, match="5 bytes"):
        check_topic("näws", limits)
    check_fits(Message(bytes(8), "news", b""), limits)
    with pytest.raises(TooLarge, match="9 bytes"):
        check_fits(Message(bytes(9), "news", b""), limits)
