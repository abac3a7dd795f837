"""Files of foreign traces. Their formats are recognised by their first bytes, and they are read in units."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from hearsay.foreign_files import open_regular
from hearsay.ingest.event_decoder import DONE, MAX_MESSAGE, NEED_MORE, PROBLEMS, message_ends
from hearsay.ingest.hermes import decode_hermes
from hearsay.ingest.live_runs import LIVE, decode_live_run
from hearsay.ingest.pubsub_traces import decode_pieces, is_batched, looks_like_events, protobuf_of_lines
from hearsay.ingest.records import BadSource, empty_rows, of_file, records
from hearsay.trace.language.schema import NONE

FORMATS = ("go-json", "go-pb", "traced", "hermes")

UNIT_BYTES = 128 << 20
PIECE_BYTES = 4 << 20
LONGEST_LINE = 4 * MAX_MESSAGE
"""Maximum bytes of a line. The largest event, in base64 and with the keys of JSON, takes less than half of them."""
_HEAD_BYTES = 512
_GZIP = b"\x1f\x8b"
_PARQUET = b"PAR1"


@dataclass(frozen=True, slots=True)
class Source:
    """A file, or a run folder if the format is `LIVE`."""

    path: Path
    format: str
    compressed: bool = False
    """True if the file is compressed by gzip."""
    batched: bool = False
    """True if the file contains batches of events instead of events."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A part of a source that is read at once: the bytes from `start` to `stop` (None: to the end), cut between
    events."""

    source: Source
    start: int = 0
    stop: int | None = None
    problem: str | None = None
    """The reason why the source cannot be read; None if it can be read."""


def units_of(path: Path, wanted: str | None, unit_bytes: int) -> list[Unit]:
    """Return the units of a file, or of a run folder if `wanted` is `LIVE`. If the file cannot be read, there is one
    unit with the problem.

    `wanted` is the format; None to recognise it.
    """
    if wanted == LIVE:
        return [Unit(Source(path, LIVE))]
    try:
        return split(recognise(path, wanted), unit_bytes)
    except BadSource as error:
        return [Unit(Source(path, ""), problem=str(error))]


def records_of(unit: Unit) -> Iterator[Any]:
    """Yield the records of a unit in batches. If it cannot be read completely, the last record has the reason as
    `error`.
    """
    path, format_ = str(unit.source.path), unit.source.format or None
    try:
        if unit.problem is not None:
            raise BadSource(unit.problem)
        for batch in decode_unit(unit):
            yield of_file(batch, path, format_)
    except BadSource as error:
        yield of_file(records(empty_rows(1), np.array([NONE])), path, format_, str(error))


def decode_unit(unit: Unit) -> Iterator[Any]:
    """Yield the records of a unit in batches.

    Raises `BadSource` if a part of it cannot be read, or if it is empty.
    """
    count = 0
    with reading():
        for batch in _decoded(unit):
            count += batch.num_rows
            yield batch
    if not count:
        raise BadSource("empty: no events")


def _decoded(unit: Unit) -> Iterator[Any]:
    source = unit.source
    if source.format == LIVE:
        yield from decode_live_run(source.path)
    elif source.format == "hermes":
        yield from decode_hermes(source.path)
    else:
        with BufferedReader(open_regular(source.path)) as raw, gzip.open(raw) if source.compressed else raw as opened:
            file = cast("IO[bytes]", opened)
            file.seek(unit.start)
            if source.format == "go-json":
                yield from decode_pieces(_gathered(protobuf_of_lines(_lines(file, unit))), batched=False)
            else:
                yield from decode_pieces(_pieces(file, unit), source.batched, unit.start)


@contextmanager
def reading() -> Generator[None]:
    """Raise `BadSource` if the block fails to read a file or to unpack it."""
    try:
        yield
    except EOFError:
        raise BadSource("truncated: the gzip stream has no end") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise BadSource(f"damaged gzip ({error})") from None
    except OSError as error:
        raise BadSource(f"cannot be read ({error.strerror or error})") from None


def recognise(path: Path, wanted: str | None = None) -> Source:
    """Return a file as a source, with the recognised format or, if none is recognised, with the format `wanted`.

    Raises `BadSource` if the file is empty or cannot be read, if another format than `wanted` is recognised, or if
    none is recognised and `wanted` is None.
    """
    with reading():
        with open_regular(path) as file:
            head = file.read(_HEAD_BYTES)
        compressed = head[:2] == _GZIP
        if compressed:
            with gzip.open(open_regular(path)) as file:
                head = file.read(_HEAD_BYTES)
    if not head:
        raise BadSource("empty")
    found = _format_of(head, compressed)
    if found is None and wanted is None:
        raise BadSource("foreign: neither a pubsub trace nor a hermes Parquet file")
    if wanted is not None and found is not None and found != wanted:
        raise BadSource(f"the file seems to have the format {found}, but the format {wanted} was given")
    return Source(path, found or wanted or "", compressed, is_batched(head))


def _format_of(head: bytes, compressed: bool) -> str | None:
    if head.startswith(_PARQUET):
        return "hermes"
    if head.lstrip()[:1] == b"{" and head.lstrip()[1:].lstrip()[:1] in (b'"', b"}"):
        return "go-json"
    if looks_like_events(head):
        return "traced" if compressed else "go-pb"
    return None


def split(source: Source, target_bytes: int) -> list[Unit]:
    """Return the units of a source, each of about `target_bytes`, cut between events. A compressed file or a Parquet
    file is one unit.
    """
    if source.compressed or source.format == "hermes":
        return [Unit(source)]
    with reading():
        size = source.path.stat().st_size
        if size <= target_bytes:
            return [Unit(source)]
        if source.format == "go-json":
            cuts = _line_ends(source.path, size, target_bytes)
        else:
            cuts = _event_ends(source.path, target_bytes)
    edges = sorted({0, *cuts, size})
    return [Unit(source, start, stop) for start, stop in pairwise(edges)]


def _line_ends(path: Path, size: int, step: int) -> list[int]:
    ends: list[int] = []
    with BufferedReader(open_regular(path)) as file:
        for at in range(step, size, step):
            file.seek(at)
            _line_of(file)
            ends.append(file.tell())
    return ends


def _event_ends(path: Path, step: int) -> list[int]:
    data = np.memmap(path, dtype=np.uint8, mode="r")
    ends = np.empty(len(data) // step + 1, dtype=np.int64)
    status, at, found = message_ends(data, 0, step, ends)
    if status == NEED_MORE:
        raise BadSource(f"truncated: an event at byte {at} is cut off")
    if status != DONE:
        raise BadSource(f"{PROBLEMS[status]} at byte {at}")
    return ends[:found].tolist()


def _pieces(file: IO[bytes], unit: Unit) -> Iterator[bytes]:
    """Yield the bytes of a unit, a few megabytes at a time."""
    left = inf if unit.stop is None else unit.stop - unit.start
    while left > 0:
        piece = file.read(int(min(PIECE_BYTES, left)))
        if not piece:
            if unit.stop is not None:
                raise BadSource("truncated while it was read")
            return
        left -= len(piece)
        yield piece


def _lines(file: IO[bytes], unit: Unit) -> Iterator[bytes]:
    left = inf if unit.stop is None else unit.stop - unit.start
    while left > 0 and (line := _line_of(file)):
        yield line
        left -= len(line)


def _line_of(file: IO[bytes]) -> bytes:
    """Return the next line.

    Raises `BadSource` if it is too long, because a small gzip file may contain a huge line.
    """
    line = file.readline(LONGEST_LINE + 1)
    if len(line) > LONGEST_LINE:
        raise BadSource(f"a line is longer than {LONGEST_LINE >> 20} MiB")
    return line


def _gathered(events: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the bytes of all events in fewer and larger pieces."""
    waiting: list[bytes] = []
    size = 0
    for event in events:
        waiting.append(event)
        size += len(event)
        if size >= PIECE_BYTES // 16:
            yield b"".join(waiting)
            waiting, size = [], 0
    yield b"".join(waiting)
