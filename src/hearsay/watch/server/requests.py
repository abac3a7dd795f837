"""HTTP/1.1 as far as one page on this machine needs it: requests that are read, each with its bound, and answers.

Rules:

* A connection has one request and ends with its answer. A head has at most `HEAD_BYTES`, a body `BODY_BYTES`; both
  have to be there within `PATIENCE_S`.
* A request names the host it means, as this server is called; else a page of others could make a name lead here.
  Whoever wants something done comes from a page of ours (`Origin`), and sends JSON.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, cast

HEAD_BYTES = 8192
BODY_BYTES = 16_384
PATIENCE_S = 5.0
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
TEXT = "text/plain; charset=utf-8"


class BadRequest(Exception):
    """Answered by a status and one line."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    def require_host(self, port: int, names: frozenset[str]) -> None:
        """`names` are what this server may be called besides addresses and `localhost`."""
        host, _, given = self.headers.get("host", "").rpartition(":")
        if not host or given != str(port) or not (host in names or host == "localhost" or _is_address(host)):
            raise BadRequest(HTTPStatus.MISDIRECTED_REQUEST, "this server is not called so")

    def require_our_page(self) -> None:
        if self.headers.get("origin") != f"http://{self.headers.get('host')}":
            raise BadRequest(HTTPStatus.FORBIDDEN, "only the page of this server may ask for that")
        if self.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise BadRequest(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send application/json")

    def object(self) -> dict[str, Any]:
        try:
            found: Any = json.loads(self.body)
        except (ValueError, RecursionError):
            raise BadRequest(HTTPStatus.BAD_REQUEST, "the body is not JSON") from None
        if not isinstance(found, dict):
            raise BadRequest(HTTPStatus.BAD_REQUEST, "the body is not a JSON object")
        return cast("dict[str, Any]", found)


async def read_request(reader: asyncio.StreamReader) -> Request:
    try:
        async with asyncio.timeout(PATIENCE_S):
            head = await reader.readuntil(b"\r\n\r\n")
            request = _request_of(head)
            length = request.headers.get("content-length", "0")
            if "transfer-encoding" in request.headers or not (length.isascii() and length.isdigit()):
                raise BadRequest(HTTPStatus.LENGTH_REQUIRED, "say how long the body is")
            if len(length) > 9 or int(length) > BODY_BYTES:
                raise BadRequest(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {BODY_BYTES} bytes")
            body = await reader.readexactly(int(length))
    except TimeoutError:
        raise BadRequest(HTTPStatus.REQUEST_TIMEOUT, "the request took too long") from None
    except asyncio.LimitOverrunError:
        raise BadRequest(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"a head has {HEAD_BYTES} bytes") from None
    except asyncio.IncompleteReadError:
        raise BadRequest(HTTPStatus.BAD_REQUEST, "the request is not whole") from None
    return Request(request.method, request.path, request.headers, body)


def head_of(status: HTTPStatus, content_type: str, length: int | None, *more: str) -> bytes:
    """Of an answer; without a length it goes on until the connection ends."""
    lines = (
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Content-Type: {content_type}",
        *([] if length is None else [f"Content-Length: {length}"]),
        f"Content-Security-Policy: {POLICY}",
        "Cache-Control: no-store",
        "Cross-Origin-Resource-Policy: same-origin",
        "Referrer-Policy: no-referrer",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
        *more,
    )
    return "\r\n".join((*lines, "", "")).encode("ascii")


def answer(status: HTTPStatus, content_type: str, body: bytes, *more: str) -> bytes:
    return head_of(status, content_type, len(body), *more) + body


def _request_of(head: bytes) -> Request:
    first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    match first.split(" "):
        case [method, target, "HTTP/1.1" | "HTTP/1.0"] if target.startswith("/"):
            pass
        case _:
            raise BadRequest(HTTPStatus.BAD_REQUEST, "not a request of HTTP/1.1")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name.strip() != name or name.lower() in headers:
            raise BadRequest(HTTPStatus.BAD_REQUEST, "a header that cannot be, or comes twice")
        headers[name.lower()] = value.strip()
    return Request(method, target.partition("?")[0], headers, b"")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True
