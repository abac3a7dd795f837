"""A page that is served while a command runs, until a signal comes."""

from __future__ import annotations

import asyncio
import signal
import webbrowser
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import click

from hearsay.cli.failures import CommandFailed, WrongInput
from hearsay.cli.signals import WORDS, raise_on_signals

if TYPE_CHECKING:
    from hearsay.watch.server.server import WatchServer

LOOPBACK = "127.0.0.1"


def endpoint(flag: str, given: str) -> tuple[str, int]:
    """Host and port of `[HOST:]PORT`."""
    host, _, port = given.rpartition(":")
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65_535):
        raise WrongInput(f"{flag} {given}: write [HOST:]PORT, such as 8080 or 0.0.0.0:8080; ports are 0…65535")
    return host.removeprefix("[").removesuffix("]") or LOOPBACK, int(port)


@asynccontextmanager
async def served(server: WatchServer, options: Mapping[str, Any]) -> AsyncGenerator[asyncio.Future[int]]:
    """The future gets the first signal; a second one ends the command at once."""
    signalled: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    _heed_first_signal(signalled)
    host, port = endpoint("--at", options["address"])
    try:
        await server.listen(host, port)
    except OSError as error:
        raise CommandFailed(f"--at {options['address']}: cannot serve the page: {error.strerror or error}") from None
    try:
        click.echo(f"watch: {server.url}")
        if options["opens"]:
            await asyncio.to_thread(webbrowser.open, server.url)
        yield signalled
    finally:
        await server.close()


def _heed_first_signal(signalled: asyncio.Future[int]) -> None:
    loop = asyncio.get_running_loop()
    heeded = [number for number in WORDS if signal.getsignal(number) is not signal.SIG_IGN]

    def first(number: int) -> None:
        for each in heeded:
            loop.remove_signal_handler(each)
        raise_on_signals()
        if not signalled.done():
            signalled.set_result(number)

    for number in heeded:
        loop.add_signal_handler(number, first, int(number))
