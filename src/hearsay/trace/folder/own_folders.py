"""Folders that this program may write into, and their locks. Every command that writes uses this module.

Rules:

* A folder belongs to this program ("is ours") if it has a marker: a small file with a format, a version and the kind
  of content. A folder that is neither empty nor ours is refused before anything in it changes.
* Only files that this program writes are replaced or removed. They are recognised by their names and places. Other
  files in the folder stay.
* Links are not followed: the folder itself must not be a link, and links inside it are not changed.
* Only one process at a time writes a kind of content into a folder. It locks (flock) a file in the folder, and writes
  its own name into this file. The lock ends at the latest when the process ends. On a file system without locks,
  nothing enforces this rule. Each kind of content has its own lock: an analysis may write into the folder of a run
  that is being written.
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
from collections.abc import Collection, Generator, Iterable
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from stat import S_ISDIR, S_ISLNK

from hearsay.trace.folder.durable import sync_directory
from hearsay.trace.folder.manifest import MARKER, Holds, RunFolderError, lstat_of, marked
from hearsay.trace.folder.manifest import MARKER_FORMAT as FORMAT
from hearsay.trace.folder.manifest import MARKER_VERSION as VERSION

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
    """A folder into which only this process may write one kind of content, until this object is released or garbage
    collected."""

    def __init__(self, path: Path, what: Holds) -> None:
        """Lock the folder `path` for the content `what`: create a lock file in it that names this process, and hold a
        lock on the file.

        Raises `RunFolderError` if this lock is taken, or if the file of this name is not a lock file.
        """
        self.path = path
        self.found: Holds | None = None
        """The content that the folder had before `claim`; None if it was empty or did not exist."""
        lock = path / f".hearsay-{what}.lock"
        self._release = weakref.finalize(self, _unlock, lock, _locked(lock, path), os.getpid())

    def release(self) -> None:
        self._release()

    def __enter__(self) -> OwnFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    @contextmanager
    def released_on_error(self) -> Generator[None]:
        """Release the folder if the block raises an exception. An `OSError` becomes a `RunFolderError`."""
        try:
            yield
        except OSError as error:
            self.release()
            raise cannot_write(self.path, error) from None
        except BaseException:
            self.release()
            raise


def claim(path: Path, what: Holds, *, also: Collection[Holds] = (), inner: Iterable[str] = ()) -> OwnFolder:
    """Create the folder if necessary, lock it for writing `what`, and mark it with `what` if it was empty.

    A folder that is not empty must have the content `what`, or a content in `also`. `inner` are the names of folders
    inside it into which the caller will write. Neither the folder nor these may be links. Raises `RunFolderError`.
    """
    require_ours(path, what, also=also, inner=inner)
    try:
        path.mkdir(parents=True, exist_ok=True)
        own = OwnFolder(path, what)
    except OSError as error:
        raise cannot_write(path, error) from None
    with own.released_on_error():
        own.found = require_ours(path, what, also=also, inner=inner)
        if own.found in (None, what):
            mark(path, what)
    return own


def require_ours(
    path: Path,
    what: Holds,
    *,
    also: Collection[Holds] = (),
    inner: Iterable[str] = (),
) -> Holds | None:
    """Return the content of a folder; None if it is empty or missing. Do not lock the folder.

    Raises `RunFolderError` if `claim` would refuse the folder with these arguments.
    """
    try:
        status = lstat_of(path)
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
    """Return the content of a folder of this program; None for any other folder, and for a link."""
    return marked(path) if is_real_folder(path) else None


def mark(path: Path, what: Holds) -> None:
    """Write the marker of the content `what` into a folder. Do nothing if the folder has a valid marker."""
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
    status = lstat_of(path)
    return status is not None and S_ISDIR(status.st_mode)


def refuse_link(path: Path) -> None:
    """Raise `RunFolderError` if the path is a link."""
    if path.is_symlink():
        raise RunFolderError(f"{path}: is a link, and links are not written through; name the folder itself")


def refuse_links(path: Path, names: Iterable[str]) -> None:
    """Raise `RunFolderError` if one of these names in the folder `path` exists and is not a folder."""
    for name in names:
        status = lstat_of(path / name)
        if status is not None and not S_ISDIR(status.st_mode):
            what = "is a link" if S_ISLNK(status.st_mode) else "is not a folder"
            raise RunFolderError(f"{path / name}: {what}, so nothing is written there; move it away")


def remove_written(folder: Path, patterns: Iterable[str]) -> None:
    """Remove the files in `folder` that match these patterns, and the matching inner folders that become empty.

    Patterns are relative to `folder`; `*` does not match a slash. Other files stay, and so do links and their
    targets.
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
    """Return True if a folder has at most lock files and an empty marker, which a process may have just created."""
    entries = {entry.name for entry in path.iterdir() if not _LOCK_NAME.fullmatch(entry.name)}
    return not entries or (entries == {MARKER} and (path / MARKER).lstat().st_size == 0)


def _locked(file: Path, folder: Path) -> int:
    """Create and lock a lock file, write the name of this process into it, and return its descriptor."""
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            said = _lock_and_read(descriptor, folder)
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


def _lock_and_read(descriptor: int, folder: Path) -> bytes:
    """Lock the file and return its text. If another process has the lock, raise `RunFolderError` with its name."""
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
    if os.getpid() == owner:  # a forked child also has the file open, but must not remove it
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
