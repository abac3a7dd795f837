"""Answers to GET and HEAD, each made when it is asked for, by path and whatever the query."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from hearsay.http.request import PATIENCE_S, BadRequest, Request
from hearsay.http.response import TEXT, response
from hearsay.http.server import HttpServer

CONNECTIONS = 16


@dataclass(frozen=True, slots=True)
class Answer:
    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = TEXT


def answering(answers: Mapping[str, Callable[[], Answer]], patience_s: float = PATIENCE_S) -> HttpServer:
    """Return a server of these answers."""

    async def respond(request: Request, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if request.method not in ("GET", "HEAD"):
            raise BadRequest(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD", "Allow: GET, HEAD")
        if request.path not in answers:
            raise BadRequest(HTTPStatus.NOT_FOUND, "there is nothing here")
        answer = answers[request.path]()
        writer.write(response(request.method, answer.status, answer.content_type, answer.body))

    return HttpServer(respond, CONNECTIONS, patience_s=patience_s)
