"""Folders for temporary files of a JVM and its workers, or of a study; they go when their processes have ended.

Rules:

* It is held by a lock on a file in it. Whoever makes it has the lock, and hands it to the processes that write there;
  when the last of them has ended, however it ended, the lock is free.
* Whoever makes one removes those of this user that nobody holds.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR
from typing import BinaryIO

_PREFIX = "hearsay-spark-"
_HELD = "held"


@dataclass(frozen=True, slots=True)
class WorkFolder:
    """A folder that is held."""

    path: Path
    lock: BinaryIO
    """For processes that hold it too."""

    def remove(self) -> bool:
        """Whether nothing is left: somebody may still write there."""
        shutil.rmtree(self.path, ignore_errors=True)
        return not self.path.exists()

    def let_go(self) -> None:
        self.lock.close()


def made_work_folder() -> WorkFolder:
    """A new one, which nobody else may read."""
    path = Path(tempfile.mkdtemp(prefix=_PREFIX))
    unheld = path / f"{_HELD}.new"
    lock = unheld.open("xb")
    fcntl.flock(lock, fcntl.LOCK_EX)
    unheld.rename(path / _HELD)  # under this name it is locked from the beginning
    return WorkFolder(path, lock)


@contextmanager
def work_folder() -> Generator[Path]:
    """A new one until this ends; those of processes that were killed are removed first."""
    remove_left_folders()
    folder = made_work_folder()
    try:
        yield folder.path
    finally:
        folder.remove()
        folder.let_go()


def remove_left_folders() -> None:
    """Those of processes that were killed."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            found = path.lstat()
            if S_ISDIR(found.st_mode) and found.st_uid == os.getuid():
                _remove_unless_held(path)


def _remove_unless_held(path: Path) -> None:
    lock = os.open(path / _HELD, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)
