"""Who gets a kept Spark session: commands in the same surroundings, of this user, and not too many.

Rules:

* A command is served as long as its connection is open. When it ends, however it ends, its jobs are cancelled, those
  too that are on their way.
* `MOST_AT_ONCE` commands are served at once and `MOST_COMMANDS` in all, since each leaves a little in the JVM;
  no more than `MOST_CONNECTIONS` are listened to.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import BoundedSemaphore, Lock, Thread
from time import monotonic
from typing import Any, cast

from hearsay.pipeline.spark.kept_place import ANSWER_S, is_of_this_user, received, sent

MOST_COMMANDS = 200
MOST_AT_ONCE = 8
MOST_CONNECTIONS = 32


@dataclass(frozen=True, slots=True)
class Gateway:
    """Where the JVM listens, and what it asks for."""

    port: int
    secret: str


class Lender:
    """The commands that are served, and until when others may come."""

    def __init__(self, gateway: Gateway, own: dict[str, str], minutes: float, cancel: Callable[[str], None]) -> None:
        """For commands whose surroundings are our `own`; `cancel` ends the jobs of a group, also those to come."""
        self._gateway = gateway
        self._own = own
        self._cancel = cancel
        self._minutes = minutes
        self._lock = Lock()
        self._served = 0
        self._lent: set[socket.socket] = set()
        self._connections = BoundedSemaphore(MOST_CONNECTIONS)
        self._last = monotonic()
        self._asked_to_end = False

    @property
    def is_over(self) -> bool:
        with self._lock:
            is_spent = self._served >= MOST_COMMANDS or monotonic() - self._last > self._minutes * 60
            return self._asked_to_end or (is_spent and not self._lent)

    @property
    def is_used(self) -> bool:
        with self._lock:
            return bool(self._lent)

    def meet(self, there: socket.socket) -> None:
        """Serve a connection on a thread of its own, or close it if there are too many."""
        if not self._connections.acquire(blocking=False):
            there.close()
            return
        Thread(target=self._serve, args=(there,), daemon=True).start()

    def part(self) -> None:
        """Have commands see that it is over."""
        with self._lock:
            lent = list(self._lent)
        for there in lent:
            with suppress(OSError):
                there.shutdown(socket.SHUT_RDWR)

    def _serve(self, there: socket.socket) -> None:
        """One connection, to its end."""
        try:
            with there, suppress(OSError):
                there.settimeout(ANSWER_S)
                self._answer(there, received(there) if is_of_this_user(there) else None)
        finally:
            self._connections.release()

    def _answer(self, there: socket.socket, told: dict[str, Any] | None) -> None:
        match told and told.get("wants"):
            case "session":
                self._lend(there, told and told.get("surroundings"))
            case "status":
                sent(there, self._status())
            case "end":
                sent(there, self._status())
                self._asked_to_end = True
                there.settimeout(None)
                there.recv(1)  # whoever asked sees the end of this process as that of the connection
            case _:
                pass

    def _lend(self, there: socket.socket, theirs: object) -> None:
        with self._lock:
            problem = self._problem(theirs)
            if problem is None:
                self._served += 1
                self._lent.add(there)
            group = f"command-{self._served}"
        if problem is not None:
            sent(there, {"refused": problem})
            return
        try:
            sent(there, {"port": self._gateway.port, "secret": self._gateway.secret, "group": group})
            there.settimeout(None)
            there.recv(1)  # it says nothing more, and ends some time
        finally:
            self._cancel(group)
            with self._lock:
                self._lent.discard(there)
                self._last = monotonic()

    def _problem(self, theirs: object) -> str | None:
        told = cast("dict[str, object]", theirs) if isinstance(theirs, dict) else {}
        different = [name for name, digest in self._own.items() if told.get(name) != digest]
        if different:
            return f"it differs in {' and '.join(different)}"
        if len(self._lent) >= MOST_AT_ONCE:
            return f"{MOST_AT_ONCE} commands use it"
        if self._served >= MOST_COMMANDS:
            return f"it has served {MOST_COMMANDS} commands, and ends"
        return None

    def _status(self) -> dict[str, Any]:
        with self._lock:
            left = self._minutes - (0 if self._lent else (monotonic() - self._last) / 60)
            return {"pid": os.getpid(), "served": self._served, "now": len(self._lent), "minutes_left": left}
