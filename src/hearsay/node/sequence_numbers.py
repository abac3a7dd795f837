"""Sequence numbers of messages that authors have used, to detect replays.

A file keeps the highest number of each author across restarts.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from logging import getLogger
from pathlib import Path

from hearsay.libp2p.names.errors import EncodingError
from hearsay.libp2p.names.peer_id import PeerId, check_peer_id
from hearsay.libp2p.node_host import Tasks
from hearsay.trace.folder.durable import write_durably

WINDOW = 1024
"""A number at least this far below the highest number of its author counts as a replay."""
NUMBER_BYTES = 8

_ALL_TAKEN = (1 << WINDOW) - 1


class SequenceNumbers:
    """The numbers that authors have used, for at most `authors` authors.

    `highest` has the highest number of each author in an earlier run; all numbers up to it count as used.
    """

    def __init__(self, authors: int, highest: Iterable[tuple[PeerId, int]] = ()) -> None:
        self._limit = authors
        self._authors: OrderedDict[PeerId, _Author] = OrderedDict()
        self.changes = 0
        """Number of sequence numbers marked as used since the start."""
        for author, number in highest:
            self._store(author, _Author(number, _ALL_TAKEN))

    def is_new(self, author: PeerId, number: bytes) -> bool:
        known = self._authors.get(author)
        if known is None:
            return True
        behind = known.highest - int.from_bytes(number, "big")
        return behind < 0 or (behind < WINDOW and not known.taken >> behind & 1)

    def take(self, author: PeerId, number: bytes) -> bool:
        """Mark a number as used and return True. Return False if it was used before or is too low."""
        if not self.is_new(author, number):
            return False
        value = int.from_bytes(number, "big")
        known = self._authors.pop(author, None) or _Author(value, 0)
        ahead = value - known.highest
        if ahead > 0:
            known.taken = known.taken << ahead & _ALL_TAKEN if ahead < WINDOW else 0
            known.highest = value
        known.taken |= 1 << known.highest - value
        self._store(author, known)
        self.changes += 1
        return True

    def highest(self) -> list[tuple[PeerId, int]]:
        """Return the highest number of each author. The author whose latest new number is the oldest comes first."""
        return [(author, known.highest) for author, known in self._authors.items()]

    def _store(self, author: PeerId, known: _Author) -> None:
        self._authors[author] = known
        if len(self._authors) > self._limit:
            self._authors.popitem(last=False)


@dataclass(slots=True)
class _Author:
    """The used numbers of one author: bit i of `taken` is set if the number `highest` - i has been used."""

    highest: int
    taken: int


HEAD = b"hearsay sequence numbers 1\n"
WRITE_S = 5.0
"""Seconds between two writes of the file. A killed node loses the numbers that were used after the last write."""
MAX_AUTHOR_BYTES = 255

_log = getLogger(__name__)


class SequenceFileError(Exception):
    """The file of sequence numbers is damaged, is not a regular file, or is used by another node."""


class SequenceFile:
    """The file of sequence numbers, which only one node at a time can use.

    The constructor raises `SequenceFileError` or `OSError` if the file cannot be used. A missing file has no numbers.
    """

    def __init__(self, path: Path, authors: int) -> None:
        self.path = path
        self._lock = _locked(path)
        try:
            self.numbers = SequenceNumbers(authors, _read(path))
        except BaseException:
            self._unlock()
            raise
        self._written = self.numbers.changes
        """The value of `numbers.changes` at the last write."""
        self._writing = asyncio.Lock()
        """Held during a write, so that an older write never replaces the file of a newer write."""
        self._tasks = Tasks()

    def start(self) -> None:
        self._tasks.start(self._keep_writing())

    async def close(self) -> None:
        await self._tasks.close()
        await self._write()
        self._unlock()

    async def _keep_writing(self) -> None:
        while True:
            await asyncio.sleep(WRITE_S)
            await asyncio.shield(self._write())

    async def _write(self) -> None:
        async with self._writing:
            changes = self.numbers.changes
            if changes == self._written:
                return
            encoded = encode(self.numbers.highest())
            try:
                await asyncio.to_thread(write_durably, self.path, encoded)
            except OSError as error:
                _log.error("%s: cannot write sequence numbers: %s", self.path, error)
            else:
                self._written = changes

    def _unlock(self) -> None:
        with suppress(OSError):
            os.close(self._lock)


def encode(highest: list[tuple[PeerId, int]]) -> bytes:
    kept = [(author, number) for author, number in highest if len(author) <= MAX_AUTHOR_BYTES]
    entries = [bytes((len(author),)) + author + number.to_bytes(NUMBER_BYTES, "big") for author, number in kept]
    body = HEAD + b"".join(entries)
    return body + sha256(body).digest()


def decode(encoded: bytes) -> list[tuple[PeerId, int]]:
    """Return the authors with their highest numbers. Raises `SequenceFileError` if the bytes are invalid."""
    body, checksum = encoded[:-32], encoded[-32:]
    if not body.startswith(HEAD) or sha256(body).digest() != checksum:
        raise SequenceFileError("the file is damaged or is not a file of sequence numbers")
    highest: list[tuple[PeerId, int]] = []
    offset = len(HEAD)
    while offset < len(body):
        start, stop = offset + 1, offset + 1 + body[offset]
        offset = stop + NUMBER_BYTES
        try:
            author = check_peer_id(body[start:stop])
        except EncodingError:
            raise SequenceFileError("the file is damaged: malformed peer id") from None
        highest.append((author, int.from_bytes(body[stop:offset], "big")))
    return highest


def _read(path: Path) -> list[tuple[PeerId, int]]:
    try:
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise SequenceFileError("not a regular file")
        return decode(path.read_bytes())
    except FileNotFoundError:
        return []
    except SequenceFileError as error:
        raise SequenceFileError(f"{path}: {error}; restore it, or remove it and risk replays") from None


def _locked(path: Path) -> int:
    lock = path.with_name(f".{path.name}.lock")
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno in (errno.EAGAIN, errno.EACCES):
            raise SequenceFileError(f"{path}: another node uses this file") from None
        raise
    return descriptor
