"""A server that answers one request per connection and then closes the connection (RFC 9112, section 9.6).

Rules:

* HTTP-6: All addresses share the slots for connections (`listener.Slots`); one address has at most half of them. If a
  new connection finds all slots taken, a connection that has sent nothing is closed, or else one without a whole
  request, or else one whose request is being answered. If the address of the new connection already has half of the
  slots, only a connection of this address that has sent nothing is closed; if there is none, the new connection is.
* HTTP-7: A request must arrive within `patience_s` seconds, otherwise the answer is 408. After the response is
  written, the client must read it within another `patience_s` seconds, otherwise the connection is aborted.
* HTTP-8: A `Host` header must name this server (`require_host`). A request without the header is accepted: it is not
  from a browser, because browsers always send the header.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_address

from hearsay.listener import Listener, Slots

HEAD_BYTES = 8192
PATIENCE_S = 5.0
_END = b"\r\n\r\n"
_ONCE = frozenset({"host", "content-length", "transfer-encoding", "content-type", "origin"})
_MOST_DIGITS = 9
_AUTHORITY = re.compile(r"([^:]+|\[.*\])(?::(\d+))?")


class BadRequest(Exception):
    """A request that is answered with the error `status`, the line of text `why`, and the header lines `headers`."""

    def __init__(self, status: HTTPStatus, why: str, *headers: str) -> None:
        super().__init__(why)
        self.status = status
        self.headers = headers


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a client."""

    method: str
    path: str
    """The path without the query."""
    headers: Mapping[str, str]
    """The headers by lower-case name."""
    body: bytes = b""


def require_host(request: Request, names: Collection[str]) -> None:
    """Raise `BadRequest` unless the `Host` header is an IP address, `localhost` or one of `names` (HTTP-8).

    The header may also have a port. A missing header raises as well.
    """
    parsed = _AUTHORITY.fullmatch(request.headers.get("host", ""))
    host = parsed[1] if parsed is not None else ""
    if host not in names and host != "localhost" and not _is_address(host):
        given = request.headers.get("host", "")[:80]
        message = f"Host {given!r} is no IP address and no name of this server; use its IP address or localhost"
        raise BadRequest(HTTPStatus.MISDIRECTED_REQUEST, message)


def port_in(request: Request) -> str | None:
    """Return the port in the `Host` header, or 80 if the header has no port; None without a valid header."""
    parsed = _AUTHORITY.fullmatch(request.headers.get("host", ""))
    return None if parsed is None else parsed[2] or "80"


def _is_address(host: str) -> bool:
    try:
        ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


class RequestReader:
    """A reader of the request of one connection."""

    def __init__(self, body_bytes: int | None = None) -> None:
        """Create the reader. A body may have at most `body_bytes` bytes; with None, bodies are ignored."""
        self._most = body_bytes
        self._received = bytearray()
        self._head: Request | None = None
        self._length = 0

    def feed(self, data: bytes) -> Request | None:
        """Add received bytes. Return the request if it is complete, otherwise None.

        Raises `BadRequest` if the request is malformed or too large. The reader must not be used after that.
        """
        searched = max(len(self._received) - len(_END) + 1, 0)
        self._received += data
        if self._head is None:
            end = self._received.find(_END, searched)
            if end > HEAD_BYTES or (end < 0 and len(self._received) >= HEAD_BYTES + len(_END)):
                raise BadRequest(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"the head exceeds {HEAD_BYTES} bytes")
            if end < 0:
                return None
            self._head = _head_of(bytes(self._received[:end]))
            del self._received[: end + len(_END)]
            self._length = 0 if self._most is None else _length(self._head, self._most)
        if len(self._received) < self._length:
            return None
        head = self._head
        return Request(head.method, head.path, head.headers, bytes(self._received[: self._length]))


def _head_of(head: bytes) -> Request:
    first, *lines = head.decode("latin-1").split("\r\n")
    match first.split(" "):
        case [method, target, "HTTP/1.1" | "HTTP/1.0"] if method and target.startswith("/"):
            pass
        case _:
            raise BadRequest(HTTPStatus.BAD_REQUEST, "not an HTTP/1.1 request")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        name, value = name.lower(), value.strip(" \t")
        if not colon or not name or name.split() != [name]:
            raise BadRequest(HTTPStatus.BAD_REQUEST, "malformed header")
        if name in headers and name in _ONCE:
            raise BadRequest(HTTPStatus.BAD_REQUEST, "duplicate header")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return Request(method, target.partition("?")[0], headers)


def _length(head: Request, most: int) -> int:
    length = head.headers.get("content-length", "0")
    if "transfer-encoding" in head.headers or not (length.isascii() and length.isdigit()):
        raise BadRequest(HTTPStatus.LENGTH_REQUIRED, "needs a valid Content-Length, and no Transfer-Encoding")
    if len(length) > _MOST_DIGITS or int(length) > most:
        raise BadRequest(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body has more than {most} bytes")
    return int(length)


TEXT = "text/plain; charset=utf-8"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def response_head(status: HTTPStatus, content_type: str, length: int | None, *more: str) -> bytes:
    """Return the head of a response; `more` are further header lines.

    `length` is the number of bytes of the body. If it is None, the end of the connection ends the body.
    """
    lines = (
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Content-Type: {content_type}",
        *([] if length is None else [f"Content-Length: {length}"]),
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        f"Content-Security-Policy: {POLICY}",
        "Cross-Origin-Resource-Policy: same-origin",
        "Referrer-Policy: no-referrer",
        "Connection: close",
        *more,
    )
    return "\r\n".join((*lines, "", "")).encode("ascii")


def response(method: str, status: HTTPStatus, content_type: str, body: bytes, *more: str) -> bytes:
    """Return a complete response; `more` are further header lines. A response to HEAD has no body."""
    head = response_head(status, content_type, len(body), *more)
    return head if method == "HEAD" else head + body


_READ_BYTES = 4096
_HAS_SENT = 1.0
_HAS_ASKED = 2.0


class HttpServer:
    """An HTTP server with at most `connections` connections. `respond` writes a response or raises `BadRequest`.

    The body of a request may have at most `body_bytes` bytes; with None, bodies are ignored. HTTP-7 defines
    `patience_s`.
    """

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
        """Return the number of open connections."""
        return len(self._serving)

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        """Accept connections at `host`, a name or an IP address, and `port`; port 0 means any free port.

        Returns the IP address and the port of the first listening socket. Raises `OSError` with the reason if the
        server cannot listen.
        """
        self._listeners = await Listener.at(host, port, self._accepted)
        self._names = frozenset({host, socket.gethostname()})
        return self._listeners[0].name

    async def close(self) -> None:
        """Stop listening, and end all connections at once."""
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
            body = f"{refused}\n".encode()
            writer.write(response(method, refused.status, TEXT, body, *refused.headers))

    async def _request(self, accepted: socket.socket, reader: asyncio.StreamReader) -> Request:
        received = RequestReader(self._body_bytes)
        try:
            async with asyncio.timeout(self._patience_s):
                while data := await reader.read(_READ_BYTES):
                    self._worth[accepted] = _HAS_SENT
                    if (request := received.feed(data)) is not None:
                        self._worth[accepted] = _HAS_ASKED
                        return request
        except TimeoutError:
            raise BadRequest(HTTPStatus.REQUEST_TIMEOUT, "the request took too long") from None
        raise BadRequest(HTTPStatus.BAD_REQUEST, "the connection ended before the request was complete")
