"""Serve a page of `hearsay watch` while a command runs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from hearsay.cli.ending import CommandFailed, WrongInput

if TYPE_CHECKING:
    from hearsay.watch.server import WatchServer

LOOPBACK = "127.0.0.1"


def endpoint(flag: str, given: str) -> tuple[str, int]:
    """Return host and port of `[HOST:]PORT`."""
    host, _, port = given.rpartition(":")
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65_535):
        raise WrongInput(f"{flag} {given}: write [HOST:]PORT, such as 8080 or 0.0.0.0:8080; ports are 0…65535")
    return host.removeprefix("[").removesuffix("]") or LOOPBACK, int(port)


@asynccontextmanager
async def served(server: WatchServer, flag: str, address: str) -> AsyncGenerator[None]:
    """Serve at the address that the flag gives."""
    host, port = endpoint(flag, address)
    try:
        await server.listen(host, port)
    except OSError as error:
        raise CommandFailed(f"{flag} {address}: cannot serve the page: {error.strerror or error}") from None
    try:
        yield
    finally:
        await server.close()
