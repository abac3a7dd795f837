"""What a request to the page's server has to be beside well formed.

A request that changes something comes from a page of this server (`Origin`) and sends JSON.
"""

from __future__ import annotations

import asyncio
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
