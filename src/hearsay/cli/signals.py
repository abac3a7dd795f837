"""Signals that end a command: SIGINT (Ctrl-C), SIGTERM (`kill`) and SIGHUP (the terminal is closed).

Rules:

* While the program imports its modules, a signal prints a line and ends the process immediately, since nothing is
  open.
* Afterwards a signal is raised as the exception `Signalled`, so that the command closes what it has opened.
* In a block of `first_signal` or `first_signal_of_loop`, the first signal is not raised. It is passed to a function
  or a future, so that the command ends its work in order. A second signal is raised.
* For a second after a signal, the same signal is ignored, so that it does not interrupt the closing. For example, the
  program `timeout` sends its signal twice: to its child, and to the process group of the child.
* A signal that is ignored at the start stays ignored, as for `nohup` and for background jobs of a script.
* Exit codes are those of shells: 130 for SIGINT, 143 for SIGTERM, 129 for SIGHUP.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import asyncio


WORDS = {
    number: word
    for name, word in (("SIGINT", "interrupted"), ("SIGTERM", "terminated"), ("SIGHUP", "hung up"))
    if (number := getattr(signal, name, None)) is not None
}

REPETITION_S = 1.0
"""Seconds after a signal during which the same signal is ignored."""


class Signalled(KeyboardInterrupt):
    """The exception that a signal raises. Notes of the exception name the results that are not lost."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__(number)
        self.number = number

    @property
    def code(self) -> int:
        """Return the exit code."""
        return 128 + self.number

    def __str__(self) -> str:
        return "; ".join([WORDS[signal.Signals(self.number)], *getattr(self, "__notes__", ())])


class Unwound(Exception):
    """An ordinary exception that stands for a `Signalled`: libraries print a traceback for a `KeyboardInterrupt`."""

    def __init__(self, signalled: Signalled) -> None:
        super().__init__(str(signalled))
        self.signalled = signalled


def handle_signals(handler: Callable[[int, FrameType | None], object] | signal.Handlers) -> list[signal.Signals]:
    """Set the handler of each signal that ends a command, unless the process ignores the signal. Return the signals
    whose handler was set.
    """
    handled = [number for number in WORDS if signal.getsignal(number) is not signal.SIG_IGN]
    for number in handled:
        signal.signal(number, handler)
    return handled


@contextmanager
def first_signal(on_signal: Callable[[int], object]) -> Generator[None]:
    """Call `on_signal` with the number of the first signal in the block. Raise `Signalled` at a second signal."""

    def handle(number: int, _frame: FrameType | None) -> None:
        _raise_further_signals(number)
        on_signal(number)

    handled = handle_signals(handle)
    try:
        yield
    finally:
        for number in handled:
            if signal.getsignal(number) is handle:
                signal.signal(number, raise_signalled)


@contextmanager
def first_signal_of_loop() -> Generator[asyncio.Future[int]]:
    """Yield a future whose result will be the number of the first signal in the block. Raise `Signalled` at a second
    signal.

    `loop.add_signal_handler` is not used: when a loop removes such a handler, a signal has its default effect for a
    moment, so a second signal could end the process.
    """
    import asyncio

    loop = asyncio.get_running_loop()
    signalled: asyncio.Future[int] = loop.create_future()

    def set_signal(number: int) -> None:
        if not signalled.done():
            signalled.set_result(number)

    with first_signal(lambda number: loop.call_soon_threadsafe(set_signal, number)):
        yield signalled


def raise_signalled(number: int, _frame: FrameType | None = None) -> NoReturn:
    """Raise `Signalled`, also at each further signal, but ignore this signal for `REPETITION_S` seconds."""
    _raise_further_signals(number)
    raise Signalled(number)


def _raise_further_signals(first: int) -> None:
    until = monotonic() + REPETITION_S

    def handle(number: int, _frame: FrameType | None) -> None:
        if number != first or monotonic() >= until:
            raise_signalled(number)

    handle_signals(handle)


def exit_at_once(number: int, _frame: FrameType | None = None) -> NoReturn:
    """End the process with the exit code of a signal. There is no exception, which an import could catch or print."""
    signalled = Signalled(number)
    with suppress(OSError):
        os.write(2, f"hearsay: {signalled}\n".encode())
    os._exit(signalled.code)
