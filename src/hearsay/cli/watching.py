"""Serve a page that shows a network while a command runs: for `hearsay watch`, or for a node with `--watch`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from hearsay.cli.ending import CommandFailed, WrongInput

if TYPE_CHECKING:
    from hearsay.node.node import Node
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
    """Serve the page at `address`, the value of the option `flag`, until the block ends."""
    host, port = endpoint(flag, address)
    try:
        await server.listen(host, port)
    except OSError as error:
        raise CommandFailed(f"{flag} {address}: cannot serve the page: {error.strerror or error}") from None
    try:
        yield
    finally:
        await server.close()


FLAG = "--watch"
PAGE_MESSAGE = b"published from the page"


class WatchedNode:
    def __init__(self, address: str, stop: Callable[[], None] | None) -> None:
        """Create the page at an address. `stop` closes the node cleanly; None if the page must not stop the node."""
        from hearsay.watch.sources.node import NodeSource

        endpoint(FLAG, address)
        self._address = address
        self._node: Node | None = None
        self._publishing: set[asyncio.Task[object]] = set()
        self.source = NodeSource(self._publish, stop)
        self.url = ""

    @asynccontextmanager
    async def shown(self, node: Node) -> AsyncGenerator[None]:
        """Serve the page until the block ends. The watcher of the node must be `source.add_row`."""
        from hearsay.watch.broadcast import Broadcast
        from hearsay.watch.server import WatchServer

        rows = node.rows
        assert rows is not None
        self._node = node
        broadcast = Broadcast(self.source.picture, self.source.about(), asyncio.get_running_loop())
        server = WatchServer(broadcast, rows=self.source.row_stream)
        async with served(server, FLAG, self._address):
            self.url = server.url
            showing = asyncio.ensure_future(self.source.run(broadcast, rows.names))
            try:
                yield
            finally:
                showing.cancel()
                await asyncio.gather(showing, *self._publishing, return_exceptions=True)

    def _publish(self, topic: str) -> None:
        assert self._node is not None
        task: asyncio.Task[object] = asyncio.ensure_future(self._node.publish(topic, PAGE_MESSAGE))
        self._publishing.add(task)
        task.add_done_callback(self._publishing.discard)
