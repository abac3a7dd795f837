"""Folders for temporary files of a Spark session or of a study.

Rules:

* The process that creates a folder holds a lock on a file in it. The system releases the lock when the process ends,
  even if it is killed.
* A process that creates a folder first removes the work folders (`hearsay-spark-*`) of this user that no process has
  locked.
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
    """A work folder, and the open file that holds the lock on it."""

    path: Path
    lock: BinaryIO

    def remove(self) -> None:
        """Remove the folder and its lock. Files that another process writes meanwhile stay until the next creation
        of a work folder."""
        _remove(self.path)
        self.lock.close()


def made_work_folder() -> WorkFolder:
    """Return a new folder, which no other user may read. First remove the folders of processes that have ended."""
    _remove_left_folders()
    path = Path(tempfile.mkdtemp(prefix=_PREFIX))
    unheld = path / f"{_HELD}.new"
    lock = unheld.open("xb")
    fcntl.flock(lock, fcntl.LOCK_EX)
    unheld.rename(path / _HELD)  # under this name it is locked from the beginning
    return WorkFolder(path, lock)


@contextmanager
def work_folder() -> Generator[Path]:
    """Create a folder for the time of a `with` block, and remove it afterwards."""
    folder = made_work_folder()
    try:
        yield folder.path
    finally:
        folder.remove()


def _remove_left_folders() -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            found = path.lstat()
            if S_ISDIR(found.st_mode) and found.st_uid == os.getuid():
                _remove_unless_held(path)


def _remove_unless_held(path: Path) -> None:
    lock = os.open(path / _HELD, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove(path)
    finally:
        os.close(lock)


def _remove(path: Path) -> None:
    """Remove a folder, and the file with the lock last: a folder without this file would never be removed."""
    for entry in path.iterdir():
        if entry.name != _HELD:
            shutil.rmtree(entry, ignore_errors=True) if S_ISDIR(entry.lstat().st_mode) else entry.unlink()
    if [entry.name for entry in path.iterdir()] == [_HELD]:
        shutil.rmtree(path, ignore_errors=True)
