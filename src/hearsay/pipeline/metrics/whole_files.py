"""One scan of the trace files, each by one task, for all figures that are sums or lie within a message.

Spark hands out the files, numpy does the work (`kernels.message_file`); what the files say is added up afterwards
(`summed_parts`). That is why it matters that no message straddles two files. The manifest names those that
do: tasks of their own bring their rows together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow

from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.kernels.columns import ColumnArrays, row_groups, rows_of_messages, whole_messages
from hearsay.pipeline.kernels.eligibility import Eligibility
from hearsay.pipeline.kernels.latency_pairs import packed
from hearsay.pipeline.kernels.message_file import NEEDED, MessagePass, pass_over
from hearsay.pipeline.kernels.partial_sums import (
    Sums,
    joined,
    merged,
    message_traffic,
    part_counts,
    recorded_sizes,
    traffic_of,
)
from hearsay.pipeline.kernels.stored_members import read_members
from hearsay.trace.language.order import BY_MESSAGE, order_of
from hearsay.trace.language.schema import Column

pa: Any = pyarrow

PARTS_DDL = "what string, run string, k0 bigint, k1 bigint, k2 bigint, amounts array<bigint>"
RPC_COLUMNS = (
    Column.TIME_US, Column.EVENT, Column.KIND, Column.PEER, Column.REMOTE, Column.TOPIC, Column.BYTES, Column.COUNT,
    Column.DELAY_US, Column.REASON,
)  # fmt: skip
PARTS_SCHEMA = pa.schema(
    [("what", pa.string()), ("run", pa.string()), ("k0", pa.int64()), ("k1", pa.int64()), ("k2", pa.int64()),
     ("amounts", pa.list_(pa.int64()))]
)  # fmt: skip
MESSAGE, EXACT, LATENCY, TRAFFIC, REPEATED, SIZES, COUNT = (
    "message", "exact", "latency", "traffic", "repeated", "sizes", "count",
)  # fmt: skip
"""What a part is about."""
AMOUNTS = 6
"""The most that a part has, of those that add up."""
_SPANNING_AT_ONCE = 8
_CHUNK = 200_000


@dataclass(frozen=True, slots=True)
class FileTask:
    """The partial sums of one file, but for messages that span files."""

    run: str
    path: str
    trace_class: str
    start_us: int
    end_us: int
    window_us: int
    memberships: str
    """Where the run's memberships lie as Parquet."""
    spanning: tuple[int, ...]

    def compute(self) -> Iterator[Any]:
        of_rpcs = self.trace_class == "rpc"
        members = {} if of_rpcs else eligibility_of(self.memberships, self.end_us)
        passes: list[MessagePass] = []
        traffic: list[Sums] = []
        counts: list[Sums] = []
        sizes: list[Sums] = []
        for rows in row_groups(self.path, RPC_COLUMNS) if of_rpcs else whole_messages(self.path, NEEDED):
            traffic.append(traffic_of(rows, self.end_us) if of_rpcs else message_traffic(rows, self.end_us))
            counts.append(part_counts(rows, self.start_us, self.end_us))
            sizes.append(recorded_sizes(rows))
            if not of_rpcs:
                passes.append(pass_over(rows, members, self.end_us, self.window_us, self.spanning))
        yield from row_sums(self.run, traffic, counts, sizes)
        if passes:
            yield from message_sums(self.run, passes)


@dataclass(frozen=True, slots=True)
class SpanningTask:
    """What is said of messages that span files. One task holds their rows."""

    run: str
    paths: tuple[str, ...]
    messages: tuple[int, ...]
    end_us: int
    window_us: int
    memberships: str

    def compute(self) -> Iterator[Any]:
        wanted = np.array(self.messages, dtype=np.int64)
        rows = in_order([rows for path in self.paths for rows in rows_of_messages(path, wanted, NEEDED)])
        members = eligibility_of(self.memberships, self.end_us)
        yield from message_sums(self.run, [pass_over(rows, members, self.end_us, self.window_us)])


def file_tasks(run: RunFacts, memberships: str) -> Iterator[FileTask | SpanningTask]:
    """The longest first, which are those of messages that span files."""
    spanning = run.manifest.trace.spanning_messages
    paths = tuple(str(run.path / file.name) for file in run.files("message"))
    for first in range(0, len(spanning), _SPANNING_AT_ONCE):
        some = spanning[first : first + _SPANNING_AT_ONCE]
        yield SpanningTask(run.name, paths, some, run.end_us, run.window_us, memberships)
    for trace_class in ("message", "rpc"):
        for file in run.files(trace_class):
            path = str(run.path / file.name)
            yield FileTask(
                run.name, path, trace_class, run.start_us, run.end_us, run.window_us, memberships, spanning
            )


def in_order(pieces: Sequence[ColumnArrays]) -> ColumnArrays:
    """Rows of several files as one file would hold them, sorted by message."""
    rows = {column: np.concatenate([piece[column] for piece in pieces]) for column in NEEDED}
    order = order_of([rows[column] for column in BY_MESSAGE if column in rows])
    return {column: values[order] for column, values in rows.items()}


def row_sums(run: str, traffic: list[Sums], counts: list[Sums], sizes: list[Sums]) -> Iterator[Any]:
    """What adds up over rows, as Arrow batches; of at least one group of rows."""
    yield from batches_of(TRAFFIC, run, merged(traffic))
    yield from batches_of(COUNT, run, merged(counts))
    yield from batches_of(SIZES, run, merged(sizes))


def message_sums(run: str, passes: list[MessagePass]) -> Iterator[Any]:
    """What is said of messages, as Arrow batches; of at least one group of rows."""
    yield from batches_of(MESSAGE, run, joined([part.figures for part in passes]))
    yield from batches_of(LATENCY, run, merged([part.latency for part in passes]))
    yield from batches_of(REPEATED, run, merged([part.repeated for part in passes]))
    exact = merged([part.exact_latency for part in passes])
    for topic, pairs in packed(exact.keys[:, 0], exact.keys[:, 1], exact.values[:, 0]):
        yield from batches_of(EXACT, run, Sums(np.array([[topic]]), pairs.reshape(1, -1)))


def eligibility_of(folder: str, end_us: int) -> dict[int, Eligibility]:
    """By topic, from where the memberships lie."""
    members = read_members(folder)
    eligible: dict[int, Eligibility] = {}
    for topic in np.unique(members.topic).tolist():
        there = members.of_topic(topic)
        eligible[topic] = Eligibility(there.node, there.since_us, there.until_us, end_us)
    return eligible


def batches_of(what: str, run: str, sums: Sums) -> Iterator[Any]:
    """Partial sums as Arrow batches."""
    for start in range(0, len(sums.keys), _CHUNK):
        keys = sums.keys[start : start + _CHUNK]
        values = np.ascontiguousarray(sums.values[start : start + _CHUNK])
        size, width = values.shape
        amounts = pa.ListArray.from_arrays(
            pa.array(np.arange(0, size * width + 1, width, dtype=np.int32)), values.reshape(-1)
        )
        columns = [
            keys[:, position] if position < keys.shape[1] else np.zeros(size, dtype=np.int64) for position in range(3)
        ]
        yield pa.RecordBatch.from_arrays(
            [pa.array([what] * size), pa.array([run] * size), *map(pa.array, columns), amounts], schema=PARTS_SCHEMA
        )
