"""Where a kept Spark session is found, and what it must be the same in as the command that wants it.

Rules:

* The place is a socket in a folder of this user alone; a folder that others may enter is not looked into.
* Both ends of a connection look who the other is: only this user is spoken to.
* A session serves commands of the same code, the same Python and the same surroundings: all that Spark, its workers
  and this package read from the environment, the mask of new files, the cores.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from stat import S_ISDIR
from tempfile import gettempdir
from typing import Any, cast

from hearsay.pipeline.spark.place import cores
from hearsay.version import __version__

KEEP = "HEARSAY_SPARK_KEEP"
MOST_BYTES = 1 << 16
_READ_BY_SPARK = (
    "SPARK_", "PYSPARK_", "PYTHON", "HEARSAY_", "JAVA_", "JDK_", "HADOOP_", "XDG_CACHE_HOME", "HOME", "LD_", "NUMBA_",
    "ARROW_", "OMP_", "MALLOC_", "OPENBLAS_",
)  # fmt: skip
_NOT_COMPARED = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "HEARSAY_DEBUG", KEEP)
_PACKAGE = Path(__file__).parents[2]


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


def surroundings() -> str:
    """A digest of all in which a session and a command must be the same."""
    mask = os.umask(0o077)
    os.umask(mask)
    named = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_READ_BY_SPARK) and name not in _NOT_COMPARED
    }
    code = [
        (str(file.relative_to(_PACKAGE)), found.st_mtime_ns, found.st_size)
        for file in sorted(_PACKAGE.rglob("*.py"))
        if (found := file.stat())
    ]
    python = [os.path.realpath(sys.prefix), sys.version, sys.getfilesystemencoding()]
    compared = [__version__, python, str(_PACKAGE), sorted(named.items()), code, mask, cores()]
    return blake2b(json.dumps(compared).encode(), digest_size=16).hexdigest()


def sent(there: socket.socket, told: dict[str, Any]) -> None:
    there.sendall(json.dumps(told).encode() + b"\n")


def received(there: socket.socket) -> dict[str, Any] | None:
    """One line of JSON; None if it is nothing of the kind."""
    line = b""
    while not line.endswith(b"\n"):
        if len(line) > MOST_BYTES or not (more := there.recv(MOST_BYTES)):
            return None
        line += more
    try:
        told = json.loads(line)
    except ValueError:
        return None
    return cast("dict[str, Any]", told) if isinstance(told, dict) else None
