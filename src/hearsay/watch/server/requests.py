"""What a request to the page's server has to be beside well formed.

A request that changes something comes from a page of this server (`Origin`) and sends JSON.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any, cast

from hearsay.http.request import BadRequest, Request

BODY_BYTES = 16_384


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
