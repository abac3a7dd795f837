"""An HTTP client that sends requests as a scraper does, and parses responses with Python's own library."""

from __future__ import annotations

import asyncio
from http.client import HTTPMessage, HTTPResponse
from io import BytesIO
from urllib.parse import urlsplit

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Received:
    """Received bytes as a socket, with the part of its interface that `http.client` uses."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, *_: object) -> BytesIO:
        return BytesIO(self._data)


def read(response: bytes, method: str = "GET") -> tuple[int, bytes, HTTPMessage]:
    """Return status, body and headers of a complete response."""
    parsed = HTTPResponse(_Received(response), method=method)  # pyright: ignore[reportArgumentType]
    parsed.begin()
    return parsed.status, parsed.read(), parsed.headers


async def connect(place: tuple[str, int], source: str = "127.0.0.1") -> Connection:
    """Connect from any address of 127.0.0.0/8."""
    return await asyncio.open_connection(*place, local_addr=(source, 0))


async def ask(place: tuple[str, int], *pieces: bytes, source: str = "127.0.0.1") -> bytes:
    """Send pieces one by one; return all bytes that the server sends until it closes the connection."""
    reader, writer = await connect(place, source)
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
    response = await reader.read()
    writer.close()
    return response


async def get(url: str, path: str | None = None, source: str = "127.0.0.1") -> tuple[int, str, HTTPMessage]:
    """Return status, text and headers of a page, or of another `path` of its server."""
    parts = urlsplit(url)
    head = f"GET {path or parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAccept: */*\r\n\r\n"
    status, body, headers = read(
        await ask((str(parts.hostname), int(parts.port or 80)), head.encode(), source=source)
    )
    return status, body.decode(), headers
