"""Signals that end a command: Ctrl-C, `kill`, a terminal that goes away.

Rules:

* Until the commands are imported, a signal ends the process at once, with a line: nothing is open yet.
* Then a signal is raised in the running command, as `Signalled`, so that everything is closed on the way out.
* The same signal within a second of the first is ignored: `timeout` signals its child, and then the child's process
  group. The second signal would interrupt the cleanup.
* Signals that are ignored at the start stay ignored: `nohup`, and background jobs of a script.
* Exit codes are the shell's: 130 for SIGINT, 143 for SIGTERM, 129 for SIGHUP.
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
"""Seconds after a signal in which the same signal is ignored as a repetition."""


class Signalled(KeyboardInterrupt):
    """A signal asks the command to end. Its notes say which results are kept."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__(number)
        self.number = number

    @property
    def code(self) -> int:
        return 128 + self.number

    def __str__(self) -> str:
        return "; ".join([WORDS[signal.Signals(self.number)], *getattr(self, "__notes__", ())])


class Unwound(Exception):
    """A `Signalled` in an ordinary exception, because libraries print a traceback for a `KeyboardInterrupt`."""

    def __init__(self, signalled: Signalled) -> None:
        super().__init__(str(signalled))
        self.signalled = signalled


def exit_on_signals() -> None:
    """End the process at the next signal, without an exception, which a running import could lose or print."""
    for number in _ending_signals():
        signal.signal(number, exit_at_once)


def raise_on_signals() -> None:
    """Raise each signal as an exception from now on."""
    for number in _ending_signals():
        signal.signal(number, _raise)


def raise_further_signals(first: int) -> None:
    """Raise each signal from now on, but ignore the signal `first` for `REPETITION_S` seconds."""
    until = monotonic() + REPETITION_S

    def handle(number: int, _frame: FrameType | None) -> None:
        if number != first or monotonic() >= until:
            _raise(number, None)

    for each in _ending_signals():
        signal.signal(each, handle)


def ignore_signals() -> None:
    """Ignore further signals: the command is ending, and its closing must not be interrupted."""
    for number in _ending_signals():
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def first_signal(on_signal: Callable[[int], object]) -> Generator[None]:
    """Call `on_signal` with the first signal, upon which the command ends by itself. Raise the second signal."""

    def handle(number: int, _frame: FrameType | None) -> None:
        raise_further_signals(number)
        on_signal(number)

    heeded = _ending_signals()
    for number in heeded:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number in heeded:
            if signal.getsignal(number) is handle:
                signal.signal(number, _raise)


@contextmanager
def first_signal_of_loop() -> Generator[asyncio.Future[int]]:
    """Yield a future of the event loop that gets the first signal; a second one is raised.

    It does not use `loop.add_signal_handler`: when the loop removes such a handler, the signal has its default effect
    for a moment, which ends a process that is signalled twice.
    """
    import asyncio

    loop = asyncio.get_running_loop()
    signalled: asyncio.Future[int] = loop.create_future()

    def set_signal(number: int) -> None:
        if not signalled.done():
            signalled.set_result(number)

    with first_signal(lambda number: loop.call_soon_threadsafe(set_signal, number)):
        yield signalled


def _ending_signals() -> list[signal.Signals]:
    """Return the signals that end a command, without those that are ignored at present."""
    return [number for number in WORDS if signal.getsignal(number) is not signal.SIG_IGN]


def _raise(number: int, _frame: FrameType | None) -> NoReturn:
    raise_further_signals(number)
    raise Signalled(number)


def exit_at_once(number: int, _frame: FrameType | None = None) -> NoReturn:
    signalled = Signalled(number)
    with suppress(OSError):
        os.write(2, f"hearsay: {signalled}\n".encode())
    os._exit(signalled.code)
