"""Answers as bytes: status, headers that all answers have, and a body."""

from __future__ import annotations

from http import HTTPStatus

from hearsay.http.request import BadRequest

TEXT = "text/plain; charset=utf-8"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def response_head(status: HTTPStatus, content_type: str, length: int | None, *more: str) -> bytes:
    """Return the head of an answer. Without a length the answer goes on until the connection ends."""
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
    """Return a whole answer, which has no body for HEAD."""
    head = response_head(status, content_type, len(body), *more)
    return head if method == "HEAD" else head + body


def refusal(method: str, refused: BadRequest) -> bytes:
    return response(method, refused.status, TEXT, f"{refused}\n".encode(), *refused.headers)
