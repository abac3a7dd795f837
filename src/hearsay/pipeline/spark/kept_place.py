"""Where a kept Spark session is found, and how one speaks to whoever keeps it.

Rules:

* The place is a socket in a folder of this user alone; a folder that others may enter is not looked into.
* Both ends of a connection look who the other is: only this user is spoken to.
* What is said is a line of JSON, of bounded length, within a bounded time.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR
from tempfile import gettempdir
from time import monotonic
from typing import Any, cast

MOST_BYTES = 1 << 16
ANSWER_S = 5.0
"""How long a line may take, from its first byte to its last."""
_NO_TIME_S = 0.001


class NotPrivate(Exception):
    """The folder is not one of this user alone; the message says which."""


def socket_of_the_keeper() -> Path:
    """Its path; raises `NotPrivate` if somebody else may have put it there, `FileNotFoundError` if nobody has."""
    folder = _folder()
    try:
        found = folder.lstat()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise NotPrivate(f"{folder}: {error.strerror}") from None
    if not S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise NotPrivate(f"{folder} is not a folder of this user alone (mode 700)")
    return folder / "kept"


def made_folder() -> None:
    """Where a keeper puts its socket."""
    with suppress(OSError):
        _folder().mkdir(mode=0o700)


def _folder() -> Path:
    named = os.environ.get("XDG_RUNTIME_DIR", "")
    place = named if named and os.access(named, os.W_OK | os.X_OK) else gettempdir()
    return Path(place) / f"hearsay-spark-of-{os.getuid()}"


def is_of_this_user(there: socket.socket) -> bool:
    """Who is at the other end, as the system tells; where it does not, the folder alone keeps others out."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    _, user, _ = struct.unpack("3i", there.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return user == os.getuid()


def sent(there: socket.socket, told: dict[str, Any]) -> None:
    there.sendall(json.dumps(told).encode() + b"\n")


def received(there: socket.socket) -> dict[str, Any] | None:
    """One line of JSON; None if it is nothing of the kind. `OSError` says that it has not come in time."""
    line = b""
    end = monotonic() + ANSWER_S
    while not line.endswith(b"\n"):
        there.settimeout(max(_NO_TIME_S, end - monotonic()))
        if len(line) > MOST_BYTES or not (more := there.recv(MOST_BYTES)):
            return None
        line += more
    try:
        told = json.loads(line)
    except ValueError:
        return None
    return cast("dict[str, Any]", told) if isinstance(told, dict) else None
