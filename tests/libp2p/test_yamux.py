"""Yamux: exchanges between two machines, recorded frames, limits, floods, and any bytes."""

from __future__ import annotations

import itertools

import pytest
from attacker import data_frame, frame
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule
from profiles import examples

from hearsay.libp2p.mux.yamux import Yamux, YamuxLimits
from hearsay.libp2p.mux.yamux_frames import (
    HEADER,
    INITIAL_WINDOW,
    Finished,
    Flag,
    FrameType,
    GoAway,
    Opened,
    Received,
    Reset,
)
from hearsay.libp2p.names.errors import YamuxError
from hearsay.libp2p.resources import Budget


def opened(listener, *streams):
    for stream in streams:
        assert listener.receive(frame(FrameType.WINDOW_UPDATE, Flag.SYN, stream, 0)) == [Opened(stream)]


def test_a_stream_from_its_opening_to_its_end():
    dialer, listener = Yamux(True), Yamux(False)
    stream = dialer.open()
    assert stream == 1
    dialer.send(stream, b"question")
    dialer.finish(stream)
    assert listener.receive(dialer.take()) == [Opened(1), Received(1, b"question"), Finished(1)]
    listener.send(stream, b"answer")
    listener.finish(stream)
    assert dialer.receive(listener.take()) == [Received(1, b"answer"), Finished(1)]
    assert dialer._streams == listener._streams == {}
    assert listener.open() == 2


def test_the_frames_on_the_wire():
    dialer = Yamux(True)
    dialer.open()
    dialer.send(1, b"hi")
    dialer.ping(7)
    dialer.go_away(GoAway.NORMAL)
    assert dialer.take().hex() == (
        "000100010000000100000000"  # window update, SYN, stream 1
        "000000000000000100000002" + b"hi".hex() +
        "000200010000000000000007"  # ping 7
        "000300000000000000000000"
    )  # fmt: skip


def test_pings_are_answered_and_going_away_is_reported():
    dialer, listener = Yamux(True), Yamux(False)
    dialer.ping(77)
    assert listener.receive(dialer.take()) == []
    assert listener.take() == frame(FrameType.PING, Flag.ACK, 0, 77)
    listener.go_away(GoAway.NORMAL)
    assert dialer.receive(listener.take()) == []
    with pytest.raises(YamuxError, match="no new streams"):
        dialer.open()


def test_data_waits_for_the_window_and_goes_on_when_it_opens():
    dialer, listener = Yamux(True), Yamux(False, YamuxLimits(max_window=INITIAL_WINDOW))
    stream = dialer.open()
    payload = bytes(INITIAL_WINDOW + 1000)
    dialer.send(stream, payload)
    got = 0
    while True:
        output = dialer.take()
        if not output:
            break
        got += sum(len(event.data) for event in listener.receive(output) if isinstance(event, Received))
    assert got == INITIAL_WINDOW
    assert dialer.unsent(stream) == 1000
    assert dialer.take_drained() == []
    listener.read(stream, INITIAL_WINDOW)
    dialer.receive(listener.take())
    assert listener.receive(dialer.take()) == [Received(stream, bytes(1000))]
    assert dialer.take_drained() == [stream]


def test_streams_take_turns():
    dialer, listener = Yamux(True), Yamux(False)
    streams = [dialer.open() for _ in range(3)]
    for stream in streams:
        dialer.send(stream, bytes(100_000))
    events = [event for event in listener.receive(dialer.take()) if isinstance(event, Received)]
    assert [event.stream for event in events[:6]] == [1, 3, 5, 1, 3, 5]


def test_a_reader_is_given_a_larger_window_within_the_budget():
    limits = YamuxLimits(max_unread_bytes=1024 * 1024, max_window=1024 * 1024)
    listener = Yamux(False, limits)
    opened(listener, 1, 3)
    listener.take()
    updates = []
    for stream in (1, 3):
        listener.receive(data_frame(stream, bytes(INITIAL_WINDOW)))
        listener.read(stream, INITIAL_WINDOW)
        updates.append(HEADER.unpack(listener.take())[4])
    assert updates == [1024 * 1024, INITIAL_WINDOW]


def test_windows_grow_only_while_there_is_room():
    listener = Yamux(False)
    listener.budget = Budget("connection", 3 << 20)
    updates = []
    for stream, kept in ((1, 0), (3, 5 << 19)):
        opened(listener, stream)
        assert listener.budget.reserve(kept)
        listener.receive(data_frame(stream, bytes(INITIAL_WINDOW)))
        listener.take()
        listener.read(stream, INITIAL_WINDOW)
        updates.append(HEADER.unpack(listener.take())[4])
    assert updates == [1 << 20, INITIAL_WINDOW]


def test_window_overflow_ends_the_connection():
    listener = Yamux(False)
    opened(listener, 1)
    listener.receive(data_frame(1, bytes(INITIAL_WINDOW)))
    with pytest.raises(YamuxError, match="window is 0"):
        listener.receive(data_frame(1, b"x"))


def test_a_length_beyond_the_window_is_refused_before_its_bytes_come():
    listener = Yamux(False)
    opened(listener, 1)
    with pytest.raises(YamuxError, match="whose window"):
        listener.receive(frame(FrameType.DATA, 0, 1, INITIAL_WINDOW + 1))


def test_a_frame_that_opens_a_stream_is_held_to_the_window_too():
    assert Yamux(False).receive(frame(FrameType.DATA, Flag.SYN, 1, INITIAL_WINDOW)) == [Opened(1)]
    with pytest.raises(YamuxError, match="whose window"):
        Yamux(False).receive(frame(FrameType.DATA, Flag.SYN, 1, INITIAL_WINDOW + 1))


def test_a_length_that_is_declared_and_never_sent_costs_nothing():
    listener = Yamux(False)
    opened(listener, 1)
    assert listener.receive(frame(FrameType.DATA, 0, 1, INITIAL_WINDOW)) == []
    assert listener._unread == 0


def test_data_of_an_incomplete_frame_is_returned_at_once():
    listener = Yamux(False)
    opened(listener, 1)
    sent = data_frame(1, b"one two three", Flag.FIN)
    assert listener.receive(sent[:5]) == []
    assert listener.receive(sent[5:15]) == [Received(1, b"one")]
    assert listener.receive(sent[15:19]) == [Received(1, b" two")]
    assert listener.receive(sent[19:]) == [Received(1, b" three"), Finished(1)]


def test_a_flood_of_streams_is_reset_and_then_ends_the_connection():
    listener = Yamux(False, YamuxLimits(max_inbound_streams=2, max_unsent_answers=10))
    opened(listener, 1, 3)
    assert listener.receive(frame(FrameType.WINDOW_UPDATE, Flag.SYN, 5, 0)) == []
    assert len(listener._streams) == 2
    assert listener.take()[24:] == frame(FrameType.WINDOW_UPDATE, Flag.RST, 5, 0)
    assert listener.receive(data_frame(5, b"late")) == []
    with pytest.raises(YamuxError, match="faster than it takes"):
        listener.receive(b"".join(frame(FrameType.WINDOW_UPDATE, Flag.SYN, 2 * n + 7, 0) for n in range(20)))


def test_a_flood_of_pings_ends_the_connection():
    with pytest.raises(YamuxError, match="faster than it takes"):
        Yamux(False).receive(frame(FrameType.PING, Flag.SYN, 0, 1) * 2000)


def test_unread_bytes_of_all_streams_are_bounded():
    listener = Yamux(False, YamuxLimits(max_unread_bytes=INITIAL_WINDOW * 2))
    opened(listener, 1, 3, 5)
    listener.receive(data_frame(1, bytes(INITIAL_WINDOW)))
    listener.receive(data_frame(3, bytes(INITIAL_WINDOW)))
    with pytest.raises(YamuxError, match="unread bytes"):
        listener.receive(data_frame(5, b"x"))


def test_resets_free_unread_bytes():
    listener = Yamux(False)
    opened(listener, 1)
    listener.receive(data_frame(1, b"abc"))
    assert listener._unread == 3
    assert listener.receive(frame(FrameType.WINDOW_UPDATE, Flag.RST, 1, 0)) == [Reset(1)]
    assert (listener._unread, listener._streams) == (0, {})
    listener.send(1, b"no stream is there")
    listener.take()
    assert listener.take() == b""


def test_the_rest_of_a_frame_is_ignored_after_its_stream_is_reset():
    listener = Yamux(False)
    opened(listener, 1)
    listener.receive(frame(FrameType.DATA, 0, 1, 10, b"12345"))
    listener.reset(1)
    assert listener.receive(b"67890" + frame(FrameType.WINDOW_UPDATE, Flag.SYN, 3, 0)) == [Opened(3)]


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (HEADER.pack(1, 0, 0, 0, 0), "version 1"),
        (frame(9, 0, 0, 0), "type 9"),
        (data_frame(0, b"x", Flag.SYN), "not one of its numbers"),
        (data_frame(2, b"x", Flag.SYN), "not one of its numbers"),
        (data_frame(1, b"x"), "never opened"),
        (data_frame(2, b"x"), "never opened"),
        (frame(FrameType.WINDOW_UPDATE, Flag.SYN, 1, 0) * 2, "opened twice"),
        (frame(FrameType.WINDOW_UPDATE, Flag.SYN, 1, (1 << 32) - 1), "beyond 32 bits"),
        (data_frame(1, b"x", Flag.SYN | Flag.FIN) + data_frame(1, b"y"), "after its end"),
    ],
)
def test_broken_rules_end_the_connection(data, complaint):
    with pytest.raises(YamuxError, match=complaint):
        Yamux(False).receive(data)


frames = st.builds(
    lambda kind, flags, stream, data, length: frame(
        kind, flags, stream, len(data) if kind == FrameType.DATA else length, data if kind == FrameType.DATA else b""
    ),
    st.sampled_from(FrameType),
    st.sampled_from([0, 0, Flag.SYN, Flag.ACK, Flag.FIN, Flag.RST, Flag.SYN | Flag.FIN]),
    st.sampled_from([0, 1, 1, 3, 3, 5, 2]),
    st.binary(max_size=40),
    st.integers(0, 1 << 20),
)


def receive_all(chunks):
    """Return a listener after these chunks, its events with data of a stream joined, and the text of its error."""
    listener = Yamux(False)
    events = []
    try:
        for chunk in chunks:
            for event in listener.receive(chunk):
                last = events[-1] if events else None
                if isinstance(event, Received) and isinstance(last, Received) and event.stream == last.stream:
                    event = Received(event.stream, events.pop().data + event.data)
                events.append(event)
    except YamuxError as error:
        return listener, None, str(error)
    return listener, events, None


@examples(3)
@given(st.lists(frames, max_size=12), st.lists(st.integers(0, 800), max_size=10))
def test_events_do_not_depend_on_how_the_stream_is_cut(parts, cuts):
    data = b"".join(parts)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    cut = [data[a:b] for a, b in itertools.pairwise(edges)]
    whole, pieces = receive_all([data]), receive_all(cut)
    assert whole[1:] == pieces[1:]
    if whole[2] is None:
        assert whole[0].take() == pieces[0].take()


@given(st.binary(max_size=300) | st.binary(max_size=100).map(lambda tail: b"\0\x01\0\x01\0\0\0\x01\0\0\0\0" + tail))
def test_any_bytes_end_in_events_or_a_yamux_error(data):
    receive_all([data])


class TwoEnds(RuleBasedStateMachine):
    """Two machines joined by a link: each receives the bytes that the other sent, in order."""

    streams = Bundle("streams")

    def __init__(self):
        super().__init__()
        limits = YamuxLimits(max_window=400_000, max_inbound_streams=8)
        self.ends = [Yamux(True, limits), Yamux(False, limits)]
        self.sent = {}
        self.got = {}
        self.unread = {}

    @rule(target=streams, end=st.integers(0, 1))
    def open(self, end):
        return end, self.ends[end].open()

    @rule(stream=streams, size=st.integers(0, 300_000), other=st.booleans())
    def send(self, stream, size, other):
        end, number = stream
        side = end ^ other
        if number in self.ends[side]._streams and not self.ends[side]._streams[number].finishing:
            data = bytes([len(self.sent.get((side, number), b"")) % 251]) * size
            self.ends[side].send(number, data)
            self.sent[side, number] = self.sent.get((side, number), b"") + data

    @rule(end=st.integers(0, 1), cut=st.integers(0, 100_000))
    def carry(self, end, cut):
        output = self.ends[end].take()
        for piece in (output[:cut], output[cut:]):
            for event in self.ends[1 - end].receive(piece):
                if isinstance(event, Received):
                    key = end, event.stream
                    self.got[key] = self.got.get(key, b"") + event.data
                    self.unread[key] = self.unread.get(key, 0) + len(event.data)

    @rule(end=st.integers(0, 1))
    def read_all(self, end):
        for (sender, number), count in self.unread.items():
            if sender != end:
                self.ends[end].read(number, count)
                self.unread[sender, number] = 0

    @rule(stream=streams, other=st.booleans())
    def finish(self, stream, other):
        self.ends[stream[0] ^ other].finish(stream[1])

    @rule(stream=consumes(streams))
    def reset(self, stream):
        self.ends[stream[0]].reset(stream[1])

    @invariant()
    def nothing_is_invented_or_out_of_order(self):
        for key, data in self.got.items():
            assert self.sent.get(key, b"").startswith(data)

    @invariant()
    def the_count_of_unread_bytes_is_that_of_all_streams(self):
        for end in self.ends:
            assert end._unread == sum(state.unread for state in end._streams.values())


TestTwoEnds = TwoEnds.TestCase
