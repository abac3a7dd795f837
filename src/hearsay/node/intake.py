"""The streams that a peer opens to the node. A `PeerInput` handles their bytes, and peers take turns.

A stream is paused while input of its peer cannot be handled. A newer stream of the peer replaces an older one when
all complete frames of the older one are handled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

from hearsay.core.language.rpc import EPISUB
from hearsay.libp2p.limits.rates import Turns
from hearsay.libp2p.mux.stream import Stream
from hearsay.node.incoming.verification import Batch, Verdicts, Verification
from hearsay.node.receive import PeerInput
from hearsay.node.receive_events import CheckNeeded, DriverEvent, FrameRefused, InputEvent, PauseNeeded

LEAVE_S = 5.0
"""Maximum seconds to handle the remaining input of a peer that is gone."""


class Intake:
    """The inbound streams of one peer. `act` is called with the events of their input."""

    def __init__(
        self, received: PeerInput, turns: Turns, verification: Verification, act: Callable[[DriverEvent], None]
    ) -> None:
        self.input = received
        self.used_s = 0.0
        self.stream: Stream | None = None
        self._turns = turns
        self._verification = verification
        self._act = act
        self._batch: Batch | None = None
        self._following: Stream | None = None
        """A newer stream, which is read when the frames of the older one are handled."""
        self._open = self._working = self._stream_paused = self._has_read = False
        self._wake: asyncio.TimerHandle | None = None
        """The end of a pause in reading from the peer; None without a pause."""
        self._on_left: Callable[[], None] | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def receive_from(self, stream: Stream) -> None:
        """Read from a stream that the peer has opened, after the frames of an older one."""
        if self._following is not None:
            self._following.reset()
        self._following = stream
        if not self.input.has_frames and not self._stream_paused:
            self._read_newer_stream()
        self._turns.schedule(self)

    def set_open(self, is_open: bool) -> None:
        """Set whether the router knows the peer. Only then its input is handled."""
        self._open = is_open
        self._turns.schedule(self)

    def schedule(self) -> None:
        """Handle the input, or pause the stream, because `PeerInput.paused` has changed."""
        self._turns.schedule(self)

    def pause_for(self, for_s: float) -> None:
        """Pause reading from the peer for `for_s` seconds from now."""
        if self._wake is not None:
            self._wake.cancel()
        self._wake = asyncio.get_running_loop().call_later(for_s, self._end_pause)
        self._turns.schedule(self)

    def leave(self, left: Callable[[], None]) -> None:
        """Handle the remaining input of a peer that is gone, then call `left`."""
        self._on_left = left
        if self._is_done and not self._working:
            self.end()
            return
        self._deadline = asyncio.get_running_loop().call_later(LEAVE_S, self.end)
        self._turns.schedule(self)

    def end(self) -> None:
        """Drop the remaining input."""
        self._open = False
        self.stream = self._following = None
        self.input.end()
        self._turns.leave(self)
        if self._batch is not None:
            self._verification.forget(self._batch)
            self._batch = None
        for timer in (self._wake, self._deadline):
            if timer is not None:
                timer.cancel()
        self._wake = self._deadline = None
        left, self._on_left = self._on_left, None
        if left is not None:
            left()

    def refuse(self) -> None:
        """Reset the peer's streams and drop the remaining input."""
        streams = self.stream, self._following
        self.end()
        for stream in streams:
            if stream is not None:
                stream.reset()

    def data_received(self, data: bytes) -> None:
        self.input.feed(data)
        if not self._working:
            self._turns.schedule(self)

    def stream_ended(self, stream: Stream, reset: bool) -> None:
        """Forget a stream that ended. Its received bytes are still handled."""
        if self.stream is stream:
            self.stream = None
            self.input.close_stream()
        if not reset:
            stream.finish()

    def work(self, until_s: float) -> bool:
        """Handle input until about `until_s`. Returns True if no input is left that can be handled now."""
        if self._working:
            return True
        self._working = True
        try:
            done = self._work(until_s)
        finally:
            self._working = False
        if self._on_left is not None:
            if self._is_done:
                self.end()
        elif self.stream is not None and not (self._ready and self.input.empty):
            self.stream.pause()
            self._stream_paused = True
        return done

    @property
    def _is_done(self) -> bool:
        return self.input.empty and not self.input.paused

    @property
    def _ready(self) -> bool:
        return self._open and self._wake is None and not self.input.paused

    def _work(self, until_s: float) -> bool:
        received = self.input
        while self._ready:
            events = received.step()
            if events is None:
                if received.paused or received.has_frames or not self._read_on():
                    return True
                continue
            for event in events:
                self._handle(event)
            if received.allowance.left < 0 and self._open:
                for event in received.over_allowance():
                    self._handle(event)
            if monotonic() >= until_s:
                return received.empty and not self._stream_paused
        return True

    def _handle(self, event: InputEvent) -> None:
        match event:
            case CheckNeeded():
                self._batch = Batch(event.messages, self._checked)
                self._verification.ask(self._batch)
            case PauseNeeded():
                if event.over_allowance and self._on_left is not None:
                    self.end()  # do not wait for a peer that is gone
                else:
                    self.pause_for(event.for_s)
            case _:
                self._act(event)
                if isinstance(event, FrameRefused) and self.stream is not None:
                    self.stream.reset()

    def _read_on(self) -> bool:
        """Read on from the paused stream, otherwise from a newer one. Returns False if there is neither."""
        if self._stream_paused and self.stream is not None:
            self._stream_paused = False
            self.stream.resume()
            return True
        if self._following is not None:
            self._read_newer_stream()
            return True
        return False

    def _read_newer_stream(self) -> None:
        """Replace the older stream by the newer one."""
        older, stream, self._following = self.stream, self._following, None
        assert stream is not None
        self.stream = stream
        if older is not None:
            older.reset()
        self._stream_paused = False
        self.input.open_stream(stream.budget, stream.protocol == EPISUB, self._has_read)
        self._has_read = True
        stream.receive_with(_Reader(self, stream))

    def _checked(self, verdicts: Verdicts) -> None:
        self._batch = None
        self.input.checked(verdicts)
        self._turns.schedule(self)

    def _end_pause(self) -> None:
        self._wake = None
        self._turns.schedule(self)


class _Reader:
    def __init__(self, intake: Intake, stream: Stream) -> None:
        self._intake = intake
        self._stream = stream

    def data_received(self, data: bytes) -> None:
        if self._intake.stream is self._stream:
            self._intake.data_received(data)

    def stream_ended(self, reset: bool) -> None:
        self._intake.stream_ended(self._stream, reset)
