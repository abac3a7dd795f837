"""The result of decoding a unit: its rows, and its peers, topics, messages and reasons, in Arrow files.

Rules:

* Rows carry nanoseconds and the unit's own numbers. Only columns that a source can fill are kept.
* A peer has its events by kind and its implementation, a message the time of its first copy anywhere (published or
  delivered) and the size of its data, a reason the number of times it was given.
* A part is good when `about.json` is there: it is written last.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
_ROWS_FILE, _ABOUT_FILE = "rows.arrow", "about.json"
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
        peers, messages = range(len(names.peers)), len(names.messages)
        events = pa.array(names.events_of_peer.ravel())
        _write_table(
            self._folder / "peers",
            name=names.peers.to_arrow(),
            events=pa.FixedSizeListArray.from_arrays(events, len(TraceEvent)),
            implementation=pa.array([self.implementations.get(peer) for peer in peers], pa.string()),
        )
        _write_table(self._folder / "topics", name=names.topics.to_arrow())
        _write_table(
            self._folder / "messages",
            name=names.messages.to_arrow(),
            first_copy_ns=self._first_copy[:messages],
            size=self._sizes[:messages],
        )
        times_given = pa.array([self._times_given[reason] for reason in range(len(names.reasons))], pa.int64())
        _write_table(self._folder / "reasons", name=names.reasons.to_arrow(), times_given=times_given)
        about = {"events": names.events, "rows": self._rows, "first_ns": names.first_ns}
        temporary = self._folder / f".{_ABOUT_FILE}"
        temporary.write_text(json.dumps(about), encoding="utf-8")
        temporary.rename(self._folder / _ABOUT_FILE)


def _write_table(path: Path, **columns: Any) -> None:
    table = pa.table(columns)
    with pa.OSFile(str(path.with_suffix(".arrow")), "wb") as file, ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def load_part(folder: Path) -> Part:
    """Return the part that a `PartWriter` left in this folder."""
    peers, topics, messages, reasons = (
        {name: column.combine_chunks() for name, column in zip(table.schema.names, table.columns, strict=True)}
        for table in map(_read_table, (folder / kind for kind in _NAME_KINDS))
    )
    return Part(
        folder,
        **json.loads((folder / _ABOUT_FILE).read_text(encoding="utf-8")),
        peers=peers["name"],
        topics=topics["name"],
        messages=messages["name"],
        reasons=reasons["name"],
        times_given=reasons["times_given"].to_pylist(),
        events_of_peer=peers["events"].flatten().to_numpy().reshape(-1, len(TraceEvent)),
        implementations=peers["implementation"].to_pylist(),
        first_copy_ns=messages["first_copy_ns"].to_numpy(),
        sizes=messages["size"].to_numpy(),
    )


def _read_table(path: Path) -> Any:
    with pa.memory_map(str(path.with_suffix(".arrow"))) as file:
        return ipc.open_file(file).read_all()
