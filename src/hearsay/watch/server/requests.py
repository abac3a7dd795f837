"""What a request to the page's server has to be beside well formed: for this server, and of its page.

A request names the host it means, as this server is called; else a page of others could make a name lead here.
Whoever wants something done comes from a page of ours (`Origin`), and sends JSON.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
from http import HTTPStatus
from typing import Any, cast

from hearsay.http.request import PATIENCE_S, BadRequest, Request, RequestReader
from hearsay.http.response import response_head

BODY_BYTES = 16_384
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_AT_ONCE = 4096


async def read_request(reader: asyncio.StreamReader) -> Request:
    requests = RequestReader(BODY_BYTES)
    try:
        async with asyncio.timeout(PATIENCE_S):
            while data := await reader.read(_AT_ONCE):
                if (request := requests.take(data)) is not None:
                    return request
    except TimeoutError:
        raise BadRequest(HTTPStatus.REQUEST_TIMEOUT, "the request took too long") from None
    raise BadRequest(HTTPStatus.BAD_REQUEST, "the request is not whole")


def require_host(request: Request, port: int, names: frozenset[str]) -> None:
    """`names` are what this server may be called besides addresses and `localhost`."""
    host, _, given = request.headers.get("host", "").rpartition(":")
    if not host or given != str(port) or not (host in names or host == "localhost" or _is_address(host)):
        raise BadRequest(HTTPStatus.MISDIRECTED_REQUEST, "this server is not called so")


def require_our_page(request: Request) -> None:
    if request.headers.get("origin") != f"http://{request.headers.get('host')}":
        raise BadRequest(HTTPStatus.FORBIDDEN, "only the page of this server may ask for that")
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise BadRequest(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send application/json")


def object_in(request: Request) -> dict[str, Any]:
    try:
        found: Any = json.loads(request.body)
    except (ValueError, RecursionError):
        raise BadRequest(HTTPStatus.BAD_REQUEST, "the body is not JSON") from None
    if not isinstance(found, dict):
        raise BadRequest(HTTPStatus.BAD_REQUEST, "the body is not a JSON object")
    return cast("dict[str, Any]", found)


def head_of(status: HTTPStatus, content_type: str, length: int | None, *more: str) -> bytes:
    """Of an answer of the page's server."""
    own = (
        f"Content-Security-Policy: {POLICY}",
        "Cross-Origin-Resource-Policy: same-origin",
        "Referrer-Policy: no-referrer",
    )
    return response_head(status, content_type, length, *own, *more)


def answer(status: HTTPStatus, content_type: str, body: bytes, *more: str) -> bytes:
    return head_of(status, content_type, len(body), *more) + body


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True
