"""Folders that this program may write into, and their locks. Every command that writes uses this module.

Rules:

* A folder is ours if it has our marker, a small file with format, version and kind of content. Any other folder
  that is not empty is refused before anything in it changes.
* Only files that we wrote are replaced and removed, by their names and places. Other files in the folder stay.
* Links are not followed: the folder itself must not be a link, and links inside it are left alone.
* One process at a time writes. It holds a lock (flock) on a file that names the process; the lock ends at the latest
  when the process ends.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import socket
import sys
import weakref
from collections.abc import Collection, Iterable
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from stat import S_ISDIR, S_ISLNK

from hearsay.trace.folder.durable import sync_directory
from hearsay.trace.folder.manifest import (
    MARKER,
    Holds,
    marked,
    status_of,
)
from hearsay.trace.folder.manifest import MARKER_FORMAT as FORMAT
from hearsay.trace.folder.manifest import MARKER_VERSION as VERSION
from hearsay.trace.language.errors import RunFolderError

LOCKS = ".hearsay-*.lock"

_LOCK_NAME = re.compile(r"\.hearsay-[a-z]+\.lock")
_LOCK_HEAD = b"hearsay lock: "
_NO_LOCKS_HERE = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


_NOUNS = {
    Holds.RUN: "a run folder",
    Holds.SERIES: "the folder of a node's trace",
    Holds.TABLES: "the folder of an analysis",
    Holds.METRICS: "a folder of metric tables",
    Holds.WORK: "a work folder",
    Holds.STUDY: "the folder of a study",
    Holds.DEMO: "the folder of a demo",
}


class OwnFolder:
    """A folder that only this process may write into, until it is released or garbage collected."""

    def __init__(self, path: Path, what: Holds) -> None:
        """Lock the folder: create a lock file in it, which names this process, and keep it open and locked."""
        self.path = path
        self.found: Holds | None = None
        """The content of the folder before it was locked; None if it was empty or did not exist."""
        lock = path / f".hearsay-{what}.lock"
        self._release = weakref.finalize(self, _unlock, lock, _locked(lock, path), os.getpid())

    def release(self) -> None:
        self._release()

    def __enter__(self) -> OwnFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def claim(
    path: Path,
    what: Holds,
    *,
    also: Collection[Holds] = (),
    inner: Iterable[str] = (),
) -> OwnFolder:
    """Lock a folder, to write `what` into it. It must be new, empty, or have the content `what` or one in `also`.

    `inner` names the folders inside it that will be written into; none of them may be a link.
    """
    require_ours(path, what, also=also, inner=inner)
    try:
        path.mkdir(parents=True, exist_ok=True)
        own = OwnFolder(path, what)
        try:
            own.found = require_ours(path, what, also=also, inner=inner)
            if own.found in (None, what):
                mark(path, what)
        except BaseException:
            own.release()
            raise
    except OSError as error:
        raise cannot_write(path, error) from None
    return own


def require_ours(
    path: Path,
    what: Holds,
    *,
    also: Collection[Holds] = (),
    inner: Iterable[str] = (),
) -> Holds | None:
    """Return the folder's content; None if it is empty or missing. Raises if `what` may not be written into it."""
    try:
        status = status_of(path)
        if status is None:
            return None
        refuse_link(path)
        if not S_ISDIR(status.st_mode):
            raise RunFolderError(f"{path}: is not a folder; choose another path")
        if _is_fresh(path):
            return None
        found = held_by(path)
        if found is None:
            raise RunFolderError(f"{path} is not empty and not {_NOUNS[what]}; choose another folder")
        if found is not what and found not in also:
            raise RunFolderError(f"{path} is {_NOUNS[found]}, not {_NOUNS[what]}; choose another folder")
        refuse_links(path, inner)
    except OSError as error:
        raise cannot_write(path, error) from None
    return found


def held_by(path: Path) -> Holds | None:
    """Return the content of a folder of ours; None for any other folder."""
    if not is_real_folder(path):
        return None
    return marked(path)


def mark(path: Path, what: Holds) -> None:
    """Write the marker if there is none."""
    marker = path / MARKER
    if marked(path) is not None:
        return
    with suppress(FileNotFoundError):
        if marker.lstat().st_size == 0:
            marker.unlink()  # a process was killed before it wrote the marker
    text = json.dumps({"format": FORMAT, "version": VERSION, "holds": str(what)}) + "\n"
    descriptor = os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
    try:
        os.write(descriptor, text.encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    sync_directory(path)


def is_real_folder(path: Path) -> bool:
    status = status_of(path)
    return status is not None and S_ISDIR(status.st_mode)


def refuse_link(path: Path) -> None:
    """Raise if a folder that will be written into is a link."""
    if path.is_symlink():
        raise RunFolderError(f"{path}: is a link, and links are not written through; name the folder itself")


def refuse_links(path: Path, names: Iterable[str]) -> None:
    """Raise if one of these names in a folder exists and is not a folder."""
    for name in names:
        status = status_of(path / name)
        if status is not None and not S_ISDIR(status.st_mode):
            what = "is a link" if S_ISLNK(status.st_mode) else "is not a folder"
            raise RunFolderError(f"{path / name}: {what}, so nothing is written there; move it away")


def remove_written(folder: Path, patterns: Iterable[str]) -> None:
    """Remove the files that match these patterns, and folders that become empty. `*` does not match a slash.

    Other files stay, and so do links and their targets.
    """
    for pattern in patterns:
        _remove(folder, pattern.split("/"))


def cannot_write(path: Path, error: OSError) -> RunFolderError:
    return RunFolderError(f"{path}: cannot be written ({error.strerror or error}); choose another folder")


def _remove(folder: Path, parts: list[str]) -> None:
    if not is_real_folder(folder):
        return
    with os.scandir(folder) as entries:
        chosen = [entry for entry in entries if fnmatchcase(entry.name, parts[0])]
    for entry in sorted(chosen, key=lambda entry: entry.name):
        if len(parts) > 1 and entry.is_dir(follow_symlinks=False):
            _remove(Path(entry.path), parts[1:])
            with suppress(OSError):  # the folder has other files
                os.rmdir(entry.path)
        elif len(parts) == 1 and entry.is_file(follow_symlinks=False):
            os.unlink(entry.path)


def _is_fresh(path: Path) -> bool:
    """Return whether a folder has nothing but locks, and perhaps an empty marker that a process has just created."""
    entries = {entry.name for entry in path.iterdir() if not _LOCK_NAME.fullmatch(entry.name)}
    return not entries or (entries == {MARKER} and (path / MARKER).lstat().st_size == 0)


def _locked(file: Path, folder: Path) -> int:
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            said = _taken(descriptor, folder)
            if os.path.samestat(os.fstat(descriptor), file.lstat()):
                if said and not said.startswith(_LOCK_HEAD):
                    raise RunFolderError(f"{file}: is not a lock file of hearsay; choose another folder")
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, _LOCK_HEAD + _this_process().encode() + b"\n", 0)
                return descriptor
        except FileNotFoundError:
            pass  # the owner of the lock has just removed the file
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _taken(descriptor: int, folder: Path) -> bytes:
    """Lock the file and return its text. If another process holds the lock, the error names that process."""
    said = os.pread(descriptor, 400, 0)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        who = "".join(filter(str.isprintable, said.removeprefix(_LOCK_HEAD).decode("utf-8", "replace")))
        raise RunFolderError(
            f"{folder}: {who or 'another process'} is writing there; try again when it is done"
        ) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS_HERE:
            raise
    return said


def _unlock(file: Path, descriptor: int, owner: int) -> None:
    if os.getpid() == owner:  # a forked process has the file open, too, but must not remove it
        with suppress(OSError):
            if os.path.samestat(os.fstat(descriptor), file.lstat()):
                file.unlink()
    os.close(descriptor)


def _this_process() -> str:
    program = Path(sys.argv[0])
    if "hearsay" in (program.name, program.parent.name):
        name = " ".join(["hearsay", *sys.argv[1:2]])
    else:
        name = program.name or "python"
    return f"{name} (process {os.getpid()} on {socket.gethostname()})"
