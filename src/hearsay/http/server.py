"""A server that answers one request for each connection and then closes it (RFC 9112, section 9.6).

Rules:

* HTTP-6: Addresses share the slots for connections (`hearsay.slots`), and one address has at most half of them. When
  a newcomer finds no free slot, a connection that has sent nothing goes first, then one without a whole request.
* HTTP-7: A request arrives within the patience, else 408. The client takes the answer within the same time, else the
  connection is aborted.
* HTTP-8: A `Host` names this server (HTTP-5). A request without `Host` is no browser's.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus

from hearsay.http.messages import PATIENCE_S, BadRequest, Request, RequestReader, refusal, require_host
from hearsay.listener import Listener
from hearsay.slots import Slots

_AT_ONCE = 4096
_HAS_SENT = 1.0
_HAS_ASKED = 2.0


class HttpServer:
    """`respond` writes the answer to a request or raises `BadRequest`."""

    def __init__(
        self,
        respond: Callable[[Request, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
        connections: int,
        *,
        body_bytes: int | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._respond = respond
        self._body_bytes = body_bytes
        self._patience_s = patience_s
        self._worth: dict[socket.socket, float] = {}
        self._slots: Slots[socket.socket] = Slots(
            connections, connections // 2, 0.0, lambda: self._worth, idle_part=connections
        )
        self._serving: dict[socket.socket, asyncio.Task[None]] = {}
        self._listeners: list[Listener] = []
        self._names: frozenset[str] = frozenset()

    @property
    def connections(self) -> int:
        return len(self._serving)

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        """Accept connections and return the actual address. `OSError` gives the reason of a failure."""
        self._listeners = await Listener.at(host, port, self._accepted)
        self._names = frozenset({host, socket.gethostname()})
        return self._listeners[0].name

    async def close(self) -> None:
        for listening in self._listeners:
            listening.close()
        serving = list(self._serving.values())
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    def _accepted(self, accepted: socket.socket, address: str) -> None:
        loop = asyncio.get_running_loop()
        loser = self._slots.enter(accepted, address, loop.time())
        if loser is accepted:
            accepted.close()
            return
        if loser is not None:
            self._serving[loser].cancel()
        task = self._serving[accepted] = loop.create_task(self._serve(accepted))
        task.add_done_callback(lambda _: self._gone(accepted))

    def _gone(self, accepted: socket.socket) -> None:
        del self._serving[accepted]
        self._worth.pop(accepted, None)
        self._slots.leave(accepted)
        accepted.close()

    async def _serve(self, accepted: socket.socket) -> None:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection(sock=accepted)
            try:
                await self._answer(accepted, reader, writer)
                writer.close()
                async with asyncio.timeout(self._patience_s):
                    await writer.wait_closed()
            finally:
                writer.transport.abort()

    async def _answer(
        self, accepted: socket.socket, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        method = ""
        try:
            request = await self._request(accepted, reader)
            method = request.method
            if "host" in request.headers:
                require_host(request, self._names)
            await self._respond(request, reader, writer)
        except BadRequest as refused:
            writer.write(refusal(method, refused))

    async def _request(self, accepted: socket.socket, reader: asyncio.StreamReader) -> Request:
        received = RequestReader(self._body_bytes)
        try:
            async with asyncio.timeout(self._patience_s):
                while data := await reader.read(_AT_ONCE):
                    self._worth[accepted] = _HAS_SENT
                    if (request := received.take(data)) is not None:
                        self._worth[accepted] = _HAS_ASKED
                        return request
        except TimeoutError:
            raise BadRequest(HTTPStatus.REQUEST_TIMEOUT, "the request took too long") from None
        raise BadRequest(HTTPStatus.BAD_REQUEST, "the request is not whole")
