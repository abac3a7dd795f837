"""Signals that end a command which runs on a loop."""

from __future__ import annotations

import asyncio
import signal

from hearsay.cli.signals import WORDS, raise_further_signals


def heed_first_signal(signalled: asyncio.Future[int]) -> None:
    """The first one ends the command in good order, a second one at once."""
    loop = asyncio.get_running_loop()
    heeded = [number for number in WORDS if signal.getsignal(number) is not signal.SIG_IGN]

    def first(number: int) -> None:
        for each in heeded:
            loop.remove_signal_handler(each)
        raise_further_signals(number)
        if not signalled.done():
            signalled.set_result(number)

    for number in heeded:
        loop.add_signal_handler(number, first, int(number))
