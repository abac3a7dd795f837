"""Leftovers of a test module: processes that still run, and ports on which this process still listens.

Every process that a test starts inherits a mark in its environment, and keeps it when its parent has ended. The JVM
and the daemons of Spark that a whole session of tests shares have another mark; the server from which commands are
forked is known by its pid.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kills import JVM, all_processes, command_line, descendants, ends_within, find, read
from prepared_commands import servers

MARK = "HEARSAY_STARTED_BY"
PATIENCE_S = 10
"""Maximum seconds that a process may take to end."""
INTERNET = (socket.AF_INET, socket.AF_INET6)
_kept_ports: set[int] = set()


def own_mark() -> str:
    return f"tests of {os.getpid()}"


@contextmanager
def for_the_whole_session() -> Iterator[None]:
    """Exempt processes and ports that are started within the context: they end with the session."""
    mark, before = os.environ[MARK], ports()
    os.environ[MARK] = f"session of {os.getpid()}"
    try:
        yield
    finally:
        os.environ[MARK] = mark
        _kept_ports.update(ports() - before)


def processes() -> list[str]:
    """Return a line for each process that a test started and that does not end."""
    return [description(pid) for pid in sorted(marked()) if not ends_within(pid, PATIENCE_S)]


def marked() -> set[int]:
    mark = f"{MARK}={own_mark()}".encode()
    found = {pid for pid in all_processes() if mark in read(pid, "environ").split(b"\0")}
    return found - {os.getpid(), *servers(), *jvm_of_this_process()}


def jvm_of_this_process() -> list[int]:
    """Return the pids of PySpark's JVM and its workers, which do not end before this process."""
    jvm = find(os.getpid(), JVM)
    return [] if jvm is None else [jvm, *descendants(jvm)]


def description(pid: int) -> str:
    test = next(
        (value for value in read(pid, "environ").split(b"\0") if value.startswith(b"PYTEST_CURRENT_TEST")), b""
    )
    return f"process {pid}: {command_line(pid)[:120]} ({test.decode(errors='replace').partition('=')[2]})"


def ports() -> set[int]:
    """Return the TCP ports on which this process listens, without those that are exempt for the session."""
    found = set()
    for file in Path("/proc/self/fd").iterdir():
        try:
            held = os.readlink(file).startswith("socket:")
            found |= listening_port(int(file.name)) if held else set()
        except OSError:  # closed since, such as the descriptor that lists this folder
            continue
    return found - _kept_ports


def listening_port(descriptor: int) -> set[int]:
    """Return the port of a socket that listens by TCP, as a set; empty for other sockets."""
    with socket.socket(fileno=os.dup(descriptor)) as held:
        if held.family not in INTERNET or not held.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            return set()
        return {held.getsockname()[1]}
