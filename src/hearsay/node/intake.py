"""The streams that a peer opens to the node. A `PeerInput` handles their bytes, and peers take turns (`Turns`).

Reading from a stream is paused while input of its peer cannot be handled. A newer stream of the peer replaces an
older stream when all complete frames of the older stream are handled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

from hearsay.core.language.rpc import EPISUB
from hearsay.libp2p.mux.stream import Stream
from hearsay.libp2p.rates import Turns
from hearsay.node.conduct import Offence
from hearsay.node.receive import PeerInput
from hearsay.node.receive_events import CheckNeeded, DriverEvent, InputEvent, Misconduct, PauseNeeded
from hearsay.node.verification import Batch, Verdicts, Verification

LEAVE_S = 5.0
"""Maximum seconds to handle the remaining input of a peer that is gone; after that, the input is dropped."""


class Intake:
    """The inbound streams of one peer. `act` is called with each event of their input that the driver handles."""

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
        """A newer stream, which is read when the frames of the stream `stream` are handled."""
        self._open = self._working = self._stream_paused = self._has_read = False
        self._wake: asyncio.TimerHandle | None = None
        """The timer that ends a pause in reading from the peer; None without a pause."""
        self._on_left: Callable[[], None] | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def receive_from(self, stream: Stream) -> None:
        """Read from a stream that the peer has opened, after all complete frames of an older stream are handled."""
        if self._following is not None:
            self._following.reset()
        self._following = stream
        if not self.input.has_frames and not self._stream_paused:
            self._read_newer_stream()
        self._turns.schedule(self)

    def set_open(self, is_open: bool) -> None:
        """Record that the peer is connected for the router, or that it is not. While it is not, its input waits."""
        self._open = is_open
        self._turns.schedule(self)

    def schedule(self) -> None:
        """Handle the input, or pause the stream, in the turn of the peer, because `PeerInput.paused` has changed."""
        self._turns.schedule(self)

    def pause_for(self, for_s: float) -> None:
        """Pause reading from the peer for `for_s` seconds from now."""
        if self._wake is not None:
            self._wake.cancel()
        self._wake = asyncio.get_running_loop().call_later(for_s, self._end_pause)
        self._turns.schedule(self)

    def leave(self, left: Callable[[], None]) -> None:
        """Handle the remaining input of a peer that is gone, for at most `LEAVE_S` seconds. Then call `left`."""
        self._on_left = left
        if self._is_done and not self._working:
            self.end()
            return
        self._deadline = asyncio.get_running_loop().call_later(LEAVE_S, self.end)
        self._turns.schedule(self)

    def end(self) -> None:
        """Drop the remaining input. If the peer is gone, call the callback of `leave`."""
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

    def _data_received(self, stream: Stream, data: bytes) -> None:
        if self.stream is not stream:
            return
        self.input.feed(data)
        if not self._working:
            self._turns.schedule(self)

    def _stream_ended(self, stream: Stream, reset: bool) -> None:
        """Forget a stream that ended. Its received bytes are still handled."""
        if self.stream is stream:
            self.stream = None
            self.input.close_stream()
        if not reset:
            stream.finish()

    def work(self, until_s: float) -> bool:
        """Handle input until about the time `until_s`. Returns True if no input is left that can be handled now."""
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
                if isinstance(event, Misconduct) and event.offence is Offence.MALFORMED and self.stream is not None:
                    self.stream.reset()

    def _read_on(self) -> bool:
        """Resume the paused stream, or begin to read a newer one. Returns False if there is neither."""
        if self._stream_paused and self.stream is not None:
            self._stream_paused = False
            self.stream.resume()
            return True
        if self._following is not None:
            self._read_newer_stream()
            return True
        return False

    def _read_newer_stream(self) -> None:
        """Reset the older stream and read the newer one."""
        older, stream, self._following = self.stream, self._following, None
        assert stream is not None
        self.stream = stream
        if older is not None:
            older.reset()
        self._stream_paused = False
        self.input.open_stream(stream.budget, stream.protocol == EPISUB, self._has_read)
        self._has_read = True
        stream.receive_with(
            lambda data: self._data_received(stream, data), lambda reset: self._stream_ended(stream, reset)
        )

    def _checked(self, verdicts: Verdicts) -> None:
        self._batch = None
        self.input.checked(verdicts)
        self._turns.schedule(self)

    def _end_pause(self) -> None:
        self._wake = None
        self._turns.schedule(self)
