"""Answers to GET over HTTP/1.1, for whoever asks how a node is: small, and bounded in all that others can make grow.

Rules:

* A connection has one answer and ends with it (`Connection: close`, RFC 9112, 9.6). What follows a request's head is
  not looked at.
* A request is read by `RequestReader`. It has to be there whole within `PATIENCE_S`, else 408; the answer has to be
  taken within as much, else the connection is cut. So who sends or reads slowly keeps one of `CONNECTIONS` places for
  that long and no longer; who finds none is let go at once.
* `Host` names this server (HTTP-5): by an address, `localhost`, the name that it listens at, or the machine's name.
* GET and HEAD are known, else 405; a target is a path that has an answer, whatever its query, else 404.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import cast

from hearsay.http.request import PATIENCE_S, BadRequest, Request, RequestReader, require_host
from hearsay.http.response import TEXT, response_head
from hearsay.libp2p.host.listener import Listener

CONNECTIONS = 16


@dataclass(frozen=True, slots=True)
class Answer:
    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = TEXT


class Answerer:
    """Serves `answers` by path; each is asked anew for every request."""

    def __init__(self, answers: Mapping[str, Callable[[], Answer]], patience_s: float = PATIENCE_S) -> None:
        self._answers = answers
        self._patience_s = patience_s
        self._listeners: list[Listener] = []
        self._open: set[_Conversation] = set()
        self._accepting: set[asyncio.Task[None]] = set()
        self._names: frozenset[str] = frozenset()

    @property
    def connections(self) -> int:
        return len(self._open)

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        """Accept connections; where, if any port would do. `OSError` says why that cannot be."""
        self._listeners = await Listener.at(host, port, self._accepted)
        self._names = frozenset({host, socket.gethostname()})
        return self._listeners[0].name

    async def close(self) -> None:
        for listening in self._listeners:
            listening.close()
        for conversation in list(self._open):
            conversation.cut()
        await asyncio.gather(*self._accepting, return_exceptions=True)

    def _accepted(self, accepted: socket.socket, _host: str) -> None:
        if len(self._open) >= CONNECTIONS:
            accepted.close()
            return
        conversation = _Conversation(self.answer_to, self._open.discard, self._patience_s)
        self._open.add(conversation)
        task = asyncio.get_running_loop().create_task(_attach(conversation, accepted))
        self._accepting.add(task)
        task.add_done_callback(self._accepting.discard)

    def answer_to(self, request: Request) -> bytes:
        """The response to a request."""
        try:
            if "host" in request.headers:  # browsers always send one
                require_host(request, self._names)
        except BadRequest as refused:
            return _refusal(refused, request.method)
        if request.method not in ("GET", "HEAD"):
            refused = BadRequest(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD", "Allow: GET, HEAD")
            return _refusal(refused, request.method)
        if request.path not in self._answers:
            return _refusal(BadRequest(HTTPStatus.NOT_FOUND, "there is nothing here"), request.method)
        return _response(self._answers[request.path](), request.method)


class _Conversation(asyncio.Protocol):
    """One connection: a request comes, an answer goes."""

    def __init__(
        self, answer_to: Callable[[Request], bytes], gone: Callable[[_Conversation], None], patience_s: float
    ) -> None:
        self._answer_to = answer_to
        self._gone = gone
        self._reader = RequestReader()
        self._transport: asyncio.Transport | None = None
        self._patience_s = patience_s
        self._timer = asyncio.get_running_loop().call_later(patience_s, self._out_of_patience)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        try:
            request = self._reader.take(data)
        except BadRequest as refused:
            self._say(_refusal(refused))
            return
        if request is not None:
            self._say(self._answer_to(request))

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self._gone(self)

    def cut(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _say(self, response: bytes) -> None:
        """The answer has as long to leave as the request had to come."""
        assert self._transport is not None
        self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._patience_s, self.cut)
        self._transport.write(response)
        self._transport.close()

    def _out_of_patience(self) -> None:
        if self._transport is not None:
            self._say(_refusal(BadRequest(HTTPStatus.REQUEST_TIMEOUT, "the request took too long")))


async def _attach(conversation: _Conversation, accepted: socket.socket) -> None:
    try:
        await asyncio.get_running_loop().connect_accepted_socket(lambda: conversation, accepted)
    except OSError:
        conversation.connection_lost(None)  # it was gone before it had a transport
        accepted.close()


def _refusal(refused: BadRequest, method: str = "") -> bytes:
    status = refused.status
    said = f"{status.value} {status.phrase}: {refused}\n"
    return _response(Answer(said.encode(), status), method, *refused.headers)


def _response(answer: Answer, method: str, *headers: str) -> bytes:
    head = response_head(answer.status, answer.content_type, len(answer.body), *headers)
    return head if method == "HEAD" else head + answer.body
