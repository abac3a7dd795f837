"""What decoding a unit leaves for the rest of the import: its rows and its names, in two Arrow files.

Rules:

* Rows carry nanoseconds and the unit's own numbers. Only columns that a source can fill are kept.
* Names go with what is known of them: of a peer its events by kind and its implementation, of a message the time of
  the first copy anywhere (published or delivered) and the size of its data, of a reason how often it was given.
* A part is good when its names file is there: it is written last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hearsay.ingest.identifiers import NO_TIME, Identifiers
from hearsay.trace.folder.arrow import ipc, pa
from hearsay.trace.language.rows import Rows
from hearsay.trace.language.schema import NONE, Column, TraceEvent


class BadSource(Exception):
    """This file cannot be read whole and right; the message says why, without the file's name."""


Numbers = NDArray[np.int64]

KEPT = {
    Column.TIME_US: np.int64,
    Column.EVENT: np.int8,
    Column.KIND: np.int8,
    Column.PEER: np.int32,
    Column.REMOTE: np.int32,
    Column.TOPIC: np.int32,
    Column.MESSAGE: np.int32,
    Column.HOPS: np.int32,
    Column.BYTES: np.int64,
    Column.COUNT: np.int32,
    Column.VIA: np.int8,
    Column.REASON: np.int32,
}
_NAMES = {column: column.name.lower() for column in KEPT}
_ROWS_SCHEMA = pa.schema([(_NAMES[column], pa.from_numpy_dtype(dtype)) for column, dtype in KEPT.items()])
_BATCH_ROWS = 65_536
_ROWS_FILE, _NAMES_FILE = "rows.arrow", "names.arrow"
_NAME_KINDS = ("peers", "topics", "messages", "reasons")


@dataclass(frozen=True, slots=True)
class Part:
    """The names of a unit; its rows stay on disk."""

    folder: Path
    events: int
    rows: int
    first_ns: int
    peers: Any
    topics: Any
    messages: Any
    reasons: Any
    times_given: list[int]
    """By reason."""
    events_of_peer: Numbers
    implementations: list[str | None]
    first_copy_ns: Numbers
    sizes: Numbers

    def batches(self, columns: Sequence[Column] = tuple(KEPT)) -> Iterator[dict[Column, Numbers]]:
        """These columns of the rows, batch by batch."""
        wanted = ipc.IpcReadOptions(included_fields=[list(KEPT).index(column) for column in columns])
        with pa.memory_map(str(self.folder / _ROWS_FILE)) as file, ipc.open_stream(file, options=wanted) as stream:
            for batch in stream:
                yield {column: batch.column(_NAMES[column]).to_numpy() for column in columns}


class PartWriter:
    """Takes the rows of a unit. As a context manager it leaves a part, or on an error nothing that counts."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.identifiers = Identifiers()
        self.implementations: dict[int, str] = {}
        self._folder = folder
        self._rows = 0
        self._waiting = {column: np.empty(_BATCH_ROWS, dtype=dtype) for column, dtype in KEPT.items()}
        self._filled = 0
        self._first_copy = np.full(1024, NO_TIME, dtype=np.int64)
        self._sizes = np.full(1024, NONE, dtype=np.int64)
        self._times_given: Counter[int] = Counter()
        self._file = pa.OSFile(str(folder / _ROWS_FILE), "wb")
        self._writer = ipc.new_stream(self._file, _ROWS_SCHEMA, options=ipc.IpcWriteOptions(compression="lz4"))

    def add(self, rows: Rows) -> None:
        """Keep rows; the caller may use the array again."""
        while len(rows):
            taken = min(len(rows), _BATCH_ROWS - self._filled)
            for column, waiting in self._waiting.items():
                waiting[self._filled : self._filled + taken] = rows[:taken, column]
            self._filled += taken
            rows = rows[taken:]
            if self._filled == _BATCH_ROWS:
                self._write_batch()

    def add_sizes(self, messages: Numbers, sizes: Numbers) -> None:
        """How many bytes of data messages have."""
        self._make_room()
        np.maximum.at(self._sizes, messages, sizes)

    def __enter__(self) -> PartWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._write_batch()
        self._writer.close()
        self._file.close()
        if error is None:
            self._write_names()

    def _write_batch(self) -> None:
        batch = {column: waiting[: self._filled] for column, waiting in self._waiting.items()}
        arrays = [pa.array(values) for values in batch.values()]
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=_ROWS_SCHEMA))
        self._rows += self._filled
        self._filled = 0
        events, messages, reasons = batch[Column.EVENT], batch[Column.MESSAGE], batch[Column.REASON]
        copies = ((events == TraceEvent.PUBLISH) | (events == TraceEvent.DELIVER)) & (messages != NONE)
        self._make_room()
        np.minimum.at(self._first_copy, messages[copies], batch[Column.TIME_US][copies])
        given = (reasons != NONE) & (events != TraceEvent.NODE_DOWN)
        self._times_given.update(reasons[given].tolist())

    def _make_room(self) -> None:
        wanted = len(self.identifiers.messages)
        if wanted > len(self._first_copy):
            more = 2 * wanted - len(self._first_copy)
            self._first_copy = np.concatenate((self._first_copy, np.full(more, NO_TIME)))
            self._sizes = np.concatenate((self._sizes, np.full(more, NONE)))

    def _write_names(self) -> None:
        self._make_room()
        names = self.identifiers
        tables = [each.to_arrow() for each in (names.peers, names.topics, names.messages, names.reasons)]
        peers, messages = len(tables[0]), len(tables[2])
        others = sum(map(len, tables)) - peers
        events = pa.array(names.events_of_peer.ravel())
        table = pa.table(
            {
                "kind": np.repeat(np.arange(len(tables), dtype=np.int8), [len(each) for each in tables]),
                "name": pa.chunked_array(tables),
                "events": pa.chunked_array(
                    [pa.FixedSizeListArray.from_arrays(events, len(TraceEvent)), _nulls(others, _EVENTS_TYPE)]
                ),
                "implementation": pa.array(
                    [self.implementations.get(peer) for peer in range(peers)] + [None] * others, pa.string()
                ),
                "times_given": pa.chunked_array(
                    [
                        _nulls(sum(map(len, tables[:3])), pa.int64()),
                        pa.array([self._times_given[reason] for reason in range(len(tables[3]))], pa.int64()),
                    ]
                ),
                "first_copy_ns": _of_messages(tables, self._first_copy[:messages]),
                "size": _of_messages(tables, self._sizes[:messages]),
            }
        ).replace_schema_metadata(
            {"events": str(names.events), "rows": str(self._rows), "first": str(names.first_ns)}
        )
        temporary = self._folder / f".{_NAMES_FILE}"
        with pa.OSFile(str(temporary), "wb") as file, ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        temporary.rename(self._folder / _NAMES_FILE)


_EVENTS_TYPE = pa.list_(pa.int64(), len(TraceEvent))


def _nulls(size: int, kind: Any) -> Any:
    return pa.nulls(size, kind)


def _of_messages(tables: list[Any], values: Numbers) -> Any:
    before, after = len(tables[0]) + len(tables[1]), len(tables[3])
    return pa.chunked_array([_nulls(before, pa.int64()), pa.array(values), _nulls(after, pa.int64())])


def load_part(folder: Path) -> Part:
    """The part that a `PartWriter` left in this folder."""
    with pa.memory_map(str(folder / _NAMES_FILE)) as file:
        table = ipc.open_file(file).read_all()
    kinds = table.column("kind").to_numpy()
    edges = np.searchsorted(kinds, range(len(_NAME_KINDS) + 1)).tolist()
    slices = [table.slice(start, stop - start) for start, stop in pairwise(edges)]
    names = [each.column("name").combine_chunks() for each in slices]
    about = {key.decode(): int(value) for key, value in table.schema.metadata.items()}
    events = slices[0].column("events").combine_chunks().flatten().to_numpy().reshape(-1, len(TraceEvent))
    return Part(
        folder,
        about["events"],
        about["rows"],
        about["first"],
        *names,
        times_given=slices[3].column("times_given").to_pylist(),
        events_of_peer=events,
        implementations=slices[0].column("implementation").to_pylist(),
        first_copy_ns=slices[2].column("first_copy_ns").to_numpy(),
        sizes=slices[2].column("size").to_numpy(),
    )
