"""The file that keeps a node's identity: libp2p's protobuf of its private key, readable by its owner only.

Rules:

* A new key appears whole or not at all: written next to its place with mode 0600, synced, then linked into place.
  A file that is in the place already, a link that leads nowhere too, is never written over; if another node was
  quicker, its key is taken.
* A key that its owner let others read is refused, as ssh does: any program that reads it can be this node. Files of
  another owner, such as mounted secrets, are not checked.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from hearsay.libp2p.names.errors import EncodingError
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.trace.folder.durable import sync_directory

MAX_FILE_BYTES = 4096


class KeyFileError(Exception):
    """The file is there and holds no key that can be used."""


def identity_in(path: Path) -> PrivateKey:
    """The key in this file, made if there is none; `KeyFileError` or `OSError` says why not."""
    if not os.path.lexists(path):
        _make(path)
    return _read(path)


def _read(path: Path) -> PrivateKey:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        raise KeyFileError("a link that leads nowhere") from None
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise KeyFileError("not a regular file")
        encoded = os.read(descriptor, MAX_FILE_BYTES + 1)
    finally:
        os.close(descriptor)
    if not encoded:
        raise KeyFileError("empty; remove it, and a new identity is made")
    if len(encoded) > MAX_FILE_BYTES:
        raise KeyFileError(f"not the key of a node: more than {MAX_FILE_BYTES} bytes")
    try:
        identity = PrivateKey.decode(encoded)
    except EncodingError as error:
        raise KeyFileError(f"damaged, or not the key of a node ({error})") from None
    if about.st_uid == os.getuid() and about.st_mode & 0o077:
        raise KeyFileError(
            f"others may read or write it (mode {stat.S_IMODE(about.st_mode):03o}); chmod 600 makes it yours alone"
        )
    return identity


def _make(path: Path) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with suppress(FileNotFoundError):
        temporary.unlink()
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(PrivateKey.generate().encode())
            file.flush()
            os.fsync(descriptor)
        try:
            os.link(temporary, path, follow_symlinks=False)
        except FileExistsError:
            pass
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP) or os.path.lexists(path):
                raise
            temporary.rename(path)  # a file system without links
    finally:
        temporary.unlink(missing_ok=True)
    sync_directory(path.parent)
