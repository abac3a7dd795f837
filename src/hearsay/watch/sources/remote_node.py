"""A node whose page is served elsewhere: its rows are read on a thread of its own, and deeds are asked for there.

When the connection ends, it is tried again every so often. Redirections and proxies are not followed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse
from threading import Event, Thread
from typing import Any
from urllib.parse import urlsplit

from hearsay.watch.broadcast import Refused
from hearsay.watch.row_stream import MOST_LINE, NoRows, Piece, piece_of

SILENCE_S = 40.0
"""A page says something every 15 s."""
ANSWER_S = 2.0
AGAIN_S = 1.0
_DATA = b"data: "


class NoPage(Exception):
    """There is no node's page at an address; the message says why."""


class RemoteNode:
    def __init__(self, address: str) -> None:
        """`http://HOST:PORT/TOKEN/`. Raises `NoPage` for what cannot be one."""
        try:
            parts = urlsplit(address)
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port, parts = None, None, urlsplit("")
        path = parts.path
        if parts.scheme != "http" or not host or not path.isascii() or len(path) < 3 or not path.endswith("/"):
            example = "http://127.0.0.1:8080/TOKEN/"
            raise NoPage(f"{address}: write the address that `hearsay node --watch` prints, such as {example}")
        self.address = address
        self._host, self._port, self._path = host, port or 80, path
        self._closed = Event()
        self._connection: HTTPConnection | None = None
        self._response: HTTPResponse | None = None

    def connect(self) -> None:
        """Raises `NoPage`."""
        connection = HTTPConnection(self._host, self._port, timeout=ANSWER_S)
        try:
            connection.connect()
            stream = connection.sock  # the connection forgets it, because the answer ends it
            connection.request("GET", f"{self._path}rows")
            response = connection.getresponse()
            said = b"" if response.status == HTTPStatus.OK else response.readline(200)
            if response.status == HTTPStatus.OK:
                stream.settimeout(SILENCE_S)
        except (OSError, HTTPException) as error:
            connection.close()
            raise NoPage(f"{self.address}: cannot be reached: {_words(error)}") from None
        if response.status != HTTPStatus.OK:
            connection.close()
            why = (
                "is no page of a node" if response.status == HTTPStatus.NOT_FOUND else said.decode("ascii", "replace")
            )
            raise NoPage(f"{self.address}: {why.strip()}")
        self._connection, self._response = connection, response

    def follow(self, told: Callable[[Piece | None], None]) -> None:
        """Hand on what the node says, from a thread; nothing when it is gone. `connect` was called."""
        Thread(target=self._follow, args=(told,), daemon=True).start()

    def ask(self, request: dict[str, Any]) -> Any:
        """Have the node's page do it. `Refused` says why not."""
        connection = HTTPConnection(self._host, self._port, timeout=ANSWER_S)
        name = f"[{self._host}]" if ":" in self._host else self._host
        headers = {
            "Host": f"{name}:{self._port}",
            "Origin": f"http://{name}:{self._port}",
            "Content-Type": "application/json",
        }
        try:
            connection.request("POST", f"{self._path}do", json.dumps(request).encode(), headers)
            response = connection.getresponse()
            answered = response.read(MOST_LINE)
            if response.status != HTTPStatus.OK:
                raise Refused(answered.decode("utf-8", "replace").strip()[:200])
            return json.loads(answered)
        except (OSError, HTTPException, ValueError) as error:
            raise Refused(f"the node does not answer: {_words(error)}") from None
        finally:
            connection.close()

    def close(self) -> None:
        """From any thread; the thread ends with what it reads next."""
        self._closed.set()

    def _follow(self, told: Callable[[Piece | None], None]) -> None:
        while not self._closed.is_set():
            if self._response is not None:
                self._read(self._response, told)
                told(None)
            self._hang_up()
            if not self._closed.wait(AGAIN_S):
                try:
                    self.connect()
                except NoPage:
                    continue

    def _read(self, response: HTTPResponse, told: Callable[[Piece | None], None]) -> None:
        try:
            while not self._closed.is_set():
                line = response.readline(MOST_LINE)
                if not line.endswith(b"\n"):
                    return
                if line.startswith(_DATA):
                    told(piece_of(line[len(_DATA) :]))
        except (OSError, HTTPException, NoRows):
            return

    def _hang_up(self) -> None:
        if self._response is not None:
            self._response.close()
        if self._connection is not None:
            self._connection.close()
        self._response = self._connection = None


def _words(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
