"""A Spark session that is kept for tests alone."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from commands import hearsay
from kills import environment, gone

BORROW = """
from hearsay.pipeline.spark.kept_session import borrow
lent = [borrow(print) for _ in range({count})]
print(sum(one is not None for one in lent))
"""


class Kept:
    """A kept session of these tests alone."""

    def __init__(self, folder: Path) -> None:
        folder.chmod(0o700)
        self.environment = {**environment(), "XDG_RUNTIME_DIR": str(folder)}
        self.socket = folder / f"hearsay-spark-of-{os.getuid()}" / "kept"

    def run(self, *arguments: object, **more: str) -> subprocess.CompletedProcess[str]:
        return hearsay(*arguments, afresh=True, env={**self.environment, **more})

    def keep(self, *arguments: object) -> int:
        """Its process."""
        done = self.run("spark", "keep", *arguments)
        assert done.returncode == 0, done.stderr
        return self.status()["pid"]

    def told(self, line: bytes) -> bytes:
        """What the keeper says to this."""
        with socket.socket(socket.AF_UNIX) as there:
            there.connect(str(self.socket))
            try:
                there.sendall(line)
                return there.recv(1000)
            except ConnectionError:
                return b""

    def status(self) -> dict[str, int]:
        return json.loads(self.told(b'{"wants": "status"}\n'))

    def borrow(self, count: int = 1, **more: str) -> list[str]:
        return self.said_by(BORROW.format(count=count), **more)

    def said_by(self, program: str, **more: str) -> list[str]:
        """What a program of Python prints in the surroundings of the session."""
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, env={**self.environment, **more},
            timeout=100,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()


@contextmanager
def kept_session(folder: Path) -> Iterator[Kept]:
    """One that commands in its environment borrow, and that ends with the block."""
    folder.mkdir()
    kept = Kept(folder)
    pid = kept.keep()
    try:
        yield kept
    finally:
        ended = kept.run("spark", "stop").stdout
    assert ended.startswith(f"ended: process {pid}, ")
    gone(pid)
