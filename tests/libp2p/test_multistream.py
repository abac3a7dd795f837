"""multistream-select: both roles against each other, recorded bytes, and any bytes."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearsay.libp2p.mux.multistream import HEADER, MAX_LINES, Dialer, Listener, line
from hearsay.libp2p.names.errors import MultistreamError


def negotiate(dialer, listener, cut=lambda data: [data]):
    to_listener, to_dialer = dialer.start(), listener.start()
    while to_listener or to_dialer:
        answers = b""
        for piece in cut(to_listener):
            answers += listener.receive(piece) if listener.protocol is None else b""
        proposals = b""
        for piece in cut(to_dialer):
            proposals += dialer.receive(piece) if dialer.protocol is None else b""
        to_listener, to_dialer = proposals, answers


def test_the_bytes_of_the_specification():
    dialer = Dialer(["/noise"])
    assert dialer.start() == b"\x13/multistream/1.0.0\n\x07/noise\n"
    assert dialer.receive(b"\x13/multistream/1.0.0\n\x07/noise\nrest") == b""
    assert (dialer.protocol, dialer.leftover) == ("/noise", b"rest")


@pytest.mark.parametrize("cut", [lambda data: [data], lambda data: [bytes((byte,)) for byte in data]])
def test_the_first_protocol_both_know_is_chosen(cut):
    dialer, listener = Dialer(["/a", "/b", "/c"]), Listener({"/c", "/b"})
    negotiate(dialer, listener, cut)
    assert dialer.protocol == listener.protocol == "/b"


def test_the_dialer_fails_without_a_common_protocol():
    with pytest.raises(MultistreamError, match="none of our protocols"):
        negotiate(Dialer(["/a", "/b"]), Listener({"/c"}))


def test_a_listener_answers_proposals_that_come_at_once():
    listener = Listener({"/b"})
    answer = listener.receive(line(HEADER) + line("/a") + line("/b") + b"data")
    assert answer == line("na") + line("/b")
    assert listener.leftover == b"data"


@pytest.mark.parametrize(
    ("role", "data", "complaint"),
    [
        (Listener({"/a"}), line("/multistream/2.0.0"), "does not speak"),
        (Listener({"/a"}), b"\x02ab", "newline"),
        (Listener({"/a"}), b"\x00", "newline"),
        (Listener({"/a"}), b"\x81\x10", "at most 1024"),
        (Listener({"/a"}), b"\xff" * 12, "varint"),
        (Listener({"/a"}), b"\x03\xff\xff\n", "not UTF-8"),
        (Listener({"/a"}), line(HEADER) + line("/x") * MAX_LINES, "without agreement"),
        (Dialer(["/a"]), line(HEADER) + line("/b"), "the peer answered '/b'"),
        (Dialer(["/a"]), b"GET / HTTP/1.1\r\n\r\n" + b"a" * 99, "newline"),
    ],
)
def test_invalid_negotiations_are_refused(role, data, complaint):
    with pytest.raises(MultistreamError, match=complaint):
        role.receive(data)


def test_a_length_that_is_declared_and_never_sent_costs_nothing():
    listener = Listener({"/a"})
    assert listener.receive(b"\x80\x08") == b""
    assert listener.protocol is None


@given(st.binary(max_size=100) | st.binary(max_size=60).map(lambda tail: line(HEADER) + tail), st.booleans())
def test_any_bytes_end_in_silence_agreement_or_a_multistream_error(data, dialing):
    role = Dialer(["/a"]) if dialing else Listener({"/a"})
    with contextlib.suppress(MultistreamError):
        role.receive(data)
