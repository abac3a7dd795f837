"""Signals that end a command which runs on a loop."""

from __future__ import annotations

import asyncio
import signal
from types import FrameType

from hearsay.cli.signals import WORDS, Signalled, raise_further_signals


def heed_first_signal(signalled: asyncio.Future[int]) -> None:
    """The first one ends the command in good order, a second one at once.

    Not by the loop's own handlers: to take one of those away is to leave the signal to the system for a moment, which
    ends a process to which it is said twice.
    """
    loop = asyncio.get_running_loop()

    def tell(number: int) -> None:
        if not signalled.done():
            signalled.set_result(number)

    def first(number: int, _frame: FrameType | None) -> None:
        raise_further_signals(number)
        if loop.is_closed():
            raise Signalled(number)
        loop.call_soon_threadsafe(tell, number)

    for number in WORDS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, first)
