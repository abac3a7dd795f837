"""The HTTP server of `hearsay watch`.

It answers requests whose path begins with a secret token, and sends frames (changes of the picture) to browsers.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Protocol, cast

from hearsay.http_server import BadRequest, HttpServer, Request, port_in, response, response_head
from hearsay.watch.broadcast import Broadcast, Refused, Viewer

BODY_BYTES = 16_384
"""Maximum bytes of the body of a request."""


def require_our_page(request: Request) -> None:
    """Raise `BadRequest` unless the page of this server sent the request, with content of the type JSON."""
    if request.headers.get("origin") != f"http://{request.headers.get('host')}":
        raise BadRequest(HTTPStatus.FORBIDDEN, "only this server's own page may send this request")
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise BadRequest(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send application/json")


def object_in(request: Request) -> dict[str, Any]:
    """Return the JSON object in the body of a request. Raise `BadRequest` if the body is not a JSON object."""
    try:
        found: Any = json.loads(request.body)
    except (ValueError, RecursionError):
        raise BadRequest(HTTPStatus.BAD_REQUEST, "the body is not JSON") from None
    if not isinstance(found, dict):
        raise BadRequest(HTTPStatus.BAD_REQUEST, "the body is not a JSON object")
    return cast("dict[str, Any]", found)


CONNECTIONS = 64
KEEP_ALIVE_S = 15.0
"""Longest time in seconds without an event. After it, the viewer gets a comment."""
_ASSETS = ("watch.html", "watch.css", "watch.js", "state.js", "network.js", "curves.js", "words.js")
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
_SEND_BUFFER = 262_144


class Stream(Protocol):
    """A source of events for viewers."""

    def join(self) -> Viewer: ...

    def leave(self, viewer: Viewer) -> None: ...


class WatchServer:
    """The server of one page: it sends the page and its streams of events to browsers, and answers requests."""

    def __init__(
        self, broadcast: Broadcast, scenario: Callable[[], str] | None = None, rows: Stream | None = None
    ) -> None:
        """Create the server. `scenario` returns the text of the run's scenario file, and `rows` is the stream of a
        node's trace rows. Without them, the server has no such page or stream.
        """
        self.broadcast = broadcast
        self._streams: dict[str, Stream] = {"frames": broadcast} | ({} if rows is None else {"rows": rows})
        self._scenario = scenario
        self._token = secrets.token_urlsafe(24)
        self._server = HttpServer(self._respond, CONNECTIONS, body_bytes=BODY_BYTES)
        self._port = 0
        self.url = ""
        """The address of the page, with the token; empty before `listen`."""

    async def listen(self, host: str, port: int) -> None:
        """Listen at an address, and set `url`. Raise `OSError` if the server cannot listen there."""
        name, self._port = await self._server.listen(host, port)
        shown = "127.0.0.1" if name == "0.0.0.0" else "[::1]" if name == "::" else name
        shown = f"[{shown}]" if ":" in shown and not shown.startswith("[") else shown
        self.url = f"http://{shown}:{self._port}/{self._token}/"

    async def close(self) -> None:
        self.broadcast.close()
        await self._server.close()

    async def _respond(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name = self._below_token(request)
        try:
            if name in self._streams and request.method == "GET":
                writer.transport.set_write_buffer_limits(_SEND_BUFFER)
                await _send_events(self._streams[name], reader, writer)
            else:
                writer.write(await self._response(request, name))
        except Refused as error:
            raise BadRequest(HTTPStatus.CONFLICT, str(error)) from None

    def _below_token(self, request: Request) -> str:
        """Return the path after the token. Raise `BadRequest` if the token or the port is wrong."""
        if port_in(request) != str(self._port):
            raise BadRequest(HTTPStatus.MISDIRECTED_REQUEST, "the Host header does not have the port of this server")
        _, token, *rest = request.path.split("/", 2)
        if not hmac.compare_digest(token.encode(), self._token.encode()) or not rest:
            raise BadRequest(HTTPStatus.FORBIDDEN, "the address must contain the page's token")
        return rest[0]

    async def _response(self, request: Request, name: str) -> bytes:
        if name == "do":
            if request.method != "POST":
                raise BadRequest(HTTPStatus.METHOD_NOT_ALLOWED, "only POST is allowed")
            require_our_page(request)
            done = await self.broadcast.ask(object_in(request))
            return response(request.method, HTTPStatus.OK, "application/json", json.dumps(done).encode())
        if request.method != "GET":
            raise BadRequest(HTTPStatus.METHOD_NOT_ALLOWED, "only GET is allowed")
        if (file := name or "watch.html") in _ASSETS:
            body = files("hearsay.watch").joinpath("assets", file).read_bytes()
            content_type = f"{_TYPES[file.rpartition('.')[2]]}; charset=utf-8"
            return response(request.method, HTTPStatus.OK, content_type, body)
        if name == "scenario" and self._scenario is not None:
            attached = 'Content-Disposition: attachment; filename="scenario.toml"'
            return response(request.method, HTTPStatus.OK, "application/toml", self._scenario().encode(), attached)
        raise BadRequest(HTTPStatus.NOT_FOUND, "no such page")


async def _send_events(stream: Stream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send events to a new viewer until the browser or the stream closes."""
    viewer = stream.join()
    gone = asyncio.ensure_future(_close_with(reader, viewer))
    try:
        writer.write(response_head(HTTPStatus.OK, "text/event-stream; charset=utf-8", None))
        while not gone.done():
            try:
                async with asyncio.timeout(KEEP_ALIVE_S):
                    frame = await viewer.next()
            except TimeoutError:
                frame = b":\n\n"
            if frame is None:
                return
            writer.write(frame)
            await writer.drain()
    finally:
        gone.cancel()
        stream.leave(viewer)


async def _close_with(reader: asyncio.StreamReader, viewer: Viewer) -> None:
    """Close the viewer as soon as its connection is closed, to free its slot."""
    with suppress(OSError):
        await reader.read(1)
    viewer.close()
