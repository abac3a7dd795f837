"""`hearsay node --watch`: the page of a node, served on the node's own loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from hearsay.cli.watching import endpoint, served
from hearsay.node.node import Node
from hearsay.watch.broadcast import Broadcast
from hearsay.watch.server import WatchServer
from hearsay.watch.sources.node import NodeSource

FLAG = "--watch"
SAID = b"published from the page"


class WatchedNode:
    def __init__(self, address: str, stop: Callable[[], None] | None) -> None:
        """Create the page at an address. `stop` ends the node in good order; None if the page must not do that."""
        endpoint(FLAG, address)
        self._address = address
        self._node: Node | None = None
        self._publishing: set[asyncio.Task[object]] = set()
        self.source = NodeSource(self._publish, stop)
        self.url = ""

    @asynccontextmanager
    async def shown(self, node: Node) -> AsyncGenerator[None]:
        """Show the node while it runs, with the source as its watcher."""
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
        task: asyncio.Task[object] = asyncio.ensure_future(self._node.publish(topic, SAID))
        self._publishing.add(task)
        task.add_done_callback(self._publishing.discard)
