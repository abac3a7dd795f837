"""The lines of standard input for asyncio, whatever it is: a terminal, a pipe, a file, /dev/null.

A thread reads, piece by piece and only when asked, as not all of these can be waited for in an event loop. It may
hang in a read when the program ends; nothing waits for it. A line that is too long is not kept: its length is told
in its place, and the next one follows.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from select import select
from threading import Semaphore, Thread

_PIECE_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class LongLine:
    """A line that was left out."""

    number: int
    bytes: int


class InputLines:
    """Iterate over it for (number, line without its end), or `LongLine`."""

    def __init__(self, limit: int, descriptor: int) -> None:
        self._limit = limit
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._wanted = Semaphore(0)
        self._answer: asyncio.Future[bytes | OSError] | None = None
        Thread(target=self._read_pieces, daemon=True, name="standard input").start()

    async def lines(self) -> AsyncIterator[tuple[int, bytes] | LongLine]:
        """`OSError` when the input cannot be read."""
        number, begun, skipped = 1, bytearray(), 0
        while piece := await self._piece():
            *whole, rest = piece.split(b"\n")
            for end in whole:
                yield self._line(number, begun, end, skipped)
                number, skipped = number + 1, 0
                begun.clear()
            begun += rest
            if len(begun) > self._limit + 1:  # one more for a carriage return
                skipped += len(begun)
                begun.clear()
        if begun or skipped:
            yield self._line(number, begun, b"", skipped)

    def _line(self, number: int, begun: bytearray, end: bytes, skipped: int) -> tuple[int, bytes] | LongLine:
        line = bytes(begun + end).removesuffix(b"\r")
        if skipped or len(line) > self._limit:
            return LongLine(number, skipped + len(line))
        return number, line

    async def _piece(self) -> bytes:
        self._answer = self._loop.create_future()
        self._wanted.release()
        answer = await self._answer
        if isinstance(answer, OSError):
            raise answer
        return answer

    def _read_pieces(self) -> None:
        with suppress(RuntimeError):  # the loop is gone
            while True:
                self._wanted.acquire()
                piece: bytes | OSError
                try:
                    select([self._descriptor], [], [])  # a job in the background is stopped by a read, not by this
                    piece = os.read(self._descriptor, _PIECE_BYTES)
                except BlockingIOError:  # somebody else set the terminal or pipe to not block
                    os.set_blocking(self._descriptor, True)
                    self._wanted.release()
                    continue
                except OSError as error:
                    piece = error
                self._loop.call_soon_threadsafe(self._answered, piece)

    def _answered(self, piece: bytes | OSError) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(piece)
