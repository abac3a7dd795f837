"""What comes before an answer: its status, and the headers that all answers have."""

from __future__ import annotations

from http import HTTPStatus

TEXT = "text/plain; charset=utf-8"


def response_head(status: HTTPStatus, content_type: str, length: int | None, *more: str) -> bytes:
    """Without a length the answer goes on until the connection ends."""
    lines = (
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Content-Type: {content_type}",
        *([] if length is None else [f"Content-Length: {length}"]),
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
        *more,
    )
    return "\r\n".join((*lines, "", "")).encode("ascii")
