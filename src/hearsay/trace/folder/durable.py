"""Files that exist whole or not at all, even after a power cut.

A file is written under a temporary name, synced and renamed, and its directory is synced. So a file that has its
final name has all of its bytes. Nothing is written through a link: the temporary name is random and must not exist,
and a link with the final name is refused.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

TEMPORARY_NAMES = f".*.{'[0-9a-f]' * 8}.tmp"
"""A pattern (glob) that matches all temporary names."""


def sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class DurableFile:
    """A file that is being written, and the checksum of its bytes. pyarrow can write into it.

    Raises `OSError` if `final` is a link.
    """

    def __init__(self, final: Path) -> None:
        if final.is_symlink():
            raise OSError(errno.ELOOP, "is a link, and links are not written through", str(final))
        self.final = final
        self.temporary = final.with_name(f".{final.name}.{token_hex(4)}.tmp")
        self._file: BinaryIO = self.temporary.open("xb")
        self._checksum = sha256()
        self._size = 0

    @property
    def closed(self) -> bool:
        return self._file.closed

    def write(self, data: bytes) -> int:
        view = memoryview(data).cast("B")
        self._file.write(view)
        self._checksum.update(view)
        self._size += len(view)
        return len(view)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        self._file.flush()

    def commit(self) -> str:
        """Give the file its final name, and return its SHA-256 in hexadecimal."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self.temporary.rename(self.final)
        sync_directory(self.final.parent)
        return self._checksum.hexdigest()

    def discard(self) -> None:
        """Remove the temporary file. This never raises, because callers call it after another error."""
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            self.temporary.unlink(missing_ok=True)


def write_durably(final: Path, content: bytes | Callable[[DurableFile], object]) -> tuple[int, str]:
    """Write the file `final`, and return its size in bytes and its SHA-256 in hexadecimal.

    `content` is its bytes, or a function that writes them.
    """
    file = DurableFile(final)
    try:
        if isinstance(content, bytes):
            file.write(content)
        else:
            content(file)
        return file.tell(), file.commit()
    except BaseException:
        file.discard()
        raise
