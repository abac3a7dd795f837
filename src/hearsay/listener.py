"""A listening socket, at which neither many connections nor a lack of file descriptors delays other work.

asyncio's own server logs a traceback for every connection for which there is no file descriptor, a hundred at a time,
and offers no way to check a peer's address before it creates a transport.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from logging import getLogger

AT_ONCE = 16
"""Maximum connections that are accepted in one iteration of the event loop."""
PAUSE_SECONDS = 1.0
"""Pause after file descriptors ran out. New connections wait in the backlog of the socket."""
WARNING_INTERVAL_SECONDS = 10.0
"""Minimum time between two warnings about such a pause."""
_BACKLOG = 128
_NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_log = getLogger(__name__)


class Listener:
    """A listening socket. `accepted` is called with each connection's socket, which it must close, and IP address."""

    def __init__(self, listening: socket.socket, accepted: Callable[[socket.socket, str], None]) -> None:
        self._socket = listening
        self._accepted = accepted
        self._loop = asyncio.get_running_loop()
        self._resuming: asyncio.TimerHandle | None = None
        self._warned_s = -WARNING_INTERVAL_SECONDS
        self.name: tuple[str, int] = listening.getsockname()[:2]
        self._resume()

    @classmethod
    async def at(cls, host: str, port: int, accepted: Callable[[socket.socket, str], None]) -> list[Listener]:
        """Listen at every address of a host name. Raises `OSError` if one of them cannot be used."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        bound: list[socket.socket] = []
        try:
            for family, kind, protocol, _, address in dict.fromkeys(found):
                bound.append(_bound(family, kind, protocol, address))
        except OSError:
            for opened in bound:
                opened.close()
            raise
        return [cls(opened, accepted) for opened in bound]

    def close(self) -> None:
        if self._resuming is not None:
            self._resuming.cancel()
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()

    def _resume(self) -> None:
        self._resuming = None
        self._loop.add_reader(self._socket.fileno(), self._accept)

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                accepted, address = self._socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _NO_ROOM:
                    self._pause(error)
                    return
                continue  # the client has already disconnected
            accepted.setblocking(False)
            self._accepted(accepted, address[0])

    def _pause(self, error: OSError) -> None:
        self._loop.remove_reader(self._socket.fileno())
        self._resuming = self._loop.call_later(PAUSE_SECONDS, self._resume)
        now_s = self._loop.time()
        if now_s - self._warned_s >= WARNING_INTERVAL_SECONDS:
            self._warned_s = now_s
            _log.warning("new connections wait at %s:%d: %s", *self.name, error.strerror)


def _bound(family: int, kind: int, protocol: int, address: tuple[object, ...]) -> socket.socket:
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        opened.setblocking(False)
        opened.bind(address)
        opened.listen(_BACKLOG)
    except OSError as error:
        opened.close()
        hint = "; port 0 takes a free one" if error.errno == errno.EADDRINUSE else ""
        words = f"cannot listen at {address[0]} port {address[1]}: {error.strerror}{hint}"
        raise OSError(error.errno, words) from None
    return opened
