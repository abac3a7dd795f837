"""What the scan says, added up (here, or by Spark: `spark_sums`): read by the tasks that make tables of it.

    SCRATCH/sums/what=traffic/part=0/*.parquet      what adds up: (k0, k1, k2, a0, …)

`part` is the number of the run in its analysis. What is said of each message, and exact latencies, do not add up:
they stay in the files that tasks wrote (`part_files`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute
import pyarrow.parquet

from hearsay.core.language.rpc import PartKind
from hearsay.pipeline.kernels.latency_pairs import percentiles_x100
from hearsay.pipeline.kernels.message_file import FIGURES
from hearsay.pipeline.kernels.partial_sums import grouped
from hearsay.pipeline.kernels.sorted_values import UNKNOWN
from hearsay.pipeline.kernels.sums import Ints
from hearsay.pipeline.metrics.knowledge import BYTES_IN, BYTES_OUT, DELIVERY, Knowledge
from hearsay.pipeline.metrics.part_files import read_parts
from hearsay.pipeline.metrics.whole_files import (
    AMOUNTS,
    COUNT,
    EXACT,
    LATENCY,
    MESSAGE,
    REPEATED,
    SIZES,
    TRAFFIC,
)
from hearsay.pipeline.output import tables
from hearsay.pipeline.output.stored_tables import arrow_schema
from hearsay.pipeline.output.table_files import write_file
from hearsay.trace.language.schema import NONE, wire_name

pa: Any = pyarrow
compute: Any = pyarrow.compute
parquet: Any = pyarrow.parquet

SUMS = "sums"
ADDED_UP = (LATENCY, TRAFFIC, REPEATED, SIZES, COUNT)
_PERCENTS = {"latency_p50_ms": 50, "latency_p90_ms": 90, "latency_p99_ms": 99, "latency_max_ms": 100}
_KEYS = ("k0", "k1", "k2")
_SUM_NAMES = (*_KEYS, *(f"a{place}" for place in range(AMOUNTS)))
_NOTHING = pa.schema([(name, pa.int64()) for name in _SUM_NAMES])
_ABOUT_DUE = ("eligible", "delivered_eligible", "ratio", "t50_us", "t90_us", "t99_us", "t100_us")


@dataclass(frozen=True, slots=True)
class SummedParts:
    """The parts of one run."""

    scratch: str
    number: int
    parts: tuple[str, ...]
    """Files of partial sums."""

    def lines(self) -> int:
        return sum(parquet.read_metadata(file).num_rows for file in self.parts)

    def add_up(self) -> None:
        """Add up all that does, as Spark would."""
        for what in ADDED_UP:
            lines = read_parts(what, self.parts)
            if lines.num_rows:
                summed = _sums_of(lines)
                folder = _folder_of(self.scratch, what, self.number)
                write_file(str(folder / "part-00000.parquet"), summed.schema, [summed])

    def files(self, what: str) -> list[str]:
        """Those of the sums of one thing."""
        return sorted(map(str, _folder_of(self.scratch, what, self.number).glob("*.parquet")))

    def sizes(self) -> tuple[int, int]:
        """Of how many parts sent and received the trace tells the bytes."""
        found = _read(self.files(SIZES))
        return _sum(found, "a0"), _sum(found, "a1")

    def repeated(self) -> int | None:
        """Deliveries of a message at a node beyond the first; None without a row of messages."""
        found = _read(self.files(REPEATED))
        return _sum(found, "a0") if found.num_rows else None

    def counts(self) -> list[dict[str, int]]:
        """See `bargains.counts_of`."""
        return _read(self.files(COUNT)).to_pylist()

    def messages(self, knowledge: Knowledge) -> Any:
        """The table `messages`, but for the column `run`."""
        return messages_of(self.parts, knowledge)

    def traffic(self, knowledge: Knowledge) -> Any:
        """The table `traffic`, but for the column `run`."""
        return traffic_of(self.files(TRAFFIC), knowledge)

    def latencies(self) -> Any:
        """The table `latency`, but for the column `run`."""
        found = _read(self.files(LATENCY))
        latency = found.column("k1")
        columns = {
            "topic": _or_null(found.column("k0"), NONE),
            "latency_ms": pa.chunked_array([np.floor_divide(latency.to_numpy(), 1000)], type=pa.int64()),
            "latency_us": latency,
            "hops": _or_null(found.column("k2"), NONE),
            "deliveries": found.column("a0"),
        }
        return _as_stored(columns, tables.LATENCY)

    def speeds(self) -> dict[int | None, dict[str, float]]:
        """By topic, percentiles of the latencies of all deliveries in milliseconds, to the microsecond."""
        found = read_parts(EXACT, self.parts)
        topics = found.column("k0").to_numpy()
        speeds: dict[int | None, dict[str, float]] = {}
        for topic in np.unique(topics).tolist():
            pairs = _flat(found.filter(pa.array(topics == topic)).column("amounts"))
            values = percentiles_x100(pairs, list(_PERCENTS.values()))
            speeds[None if topic == NONE else topic] = dict(zip(_PERCENTS, map(_milliseconds, values), strict=True))
        return speeds


def _sums_of(lines: Any) -> Any:
    keys = np.stack([lines.column(name).to_numpy() for name in _KEYS], 1)
    sums = grouped(list(keys.T), list(_flat(lines.column("amounts")).reshape(len(keys), -1).T))
    width = sums.values.shape[1]
    columns = [*sums.keys.T, *sums.values.T, *[pa.nulls(len(sums.keys), pa.int64())] * (AMOUNTS - width)]
    return pa.table(columns, names=_SUM_NAMES)


def _folder_of(scratch: str, what: str, number: int) -> Path:
    return Path(scratch) / SUMS / f"what={what}" / f"part={number}"


def messages_of(files: Sequence[str], knowledge: Knowledge) -> Any:
    """Lines of the table `messages` from files of partial sums. Who should have got a message is null where the trace
    cannot know it."""
    found = read_parts(MESSAGE, files)
    figures = _flat(found.column("amounts")).reshape(-1, len(FIGURES))
    columns = {name: _or_null(pa.array(figures[:, place]), UNKNOWN) for place, name in enumerate(FIGURES)}
    for percent in (50, 90, 99):
        hundredths = columns.pop(f"p{percent}_x100").cast(pa.float64(), safe=False)
        columns[f"p{percent}_us"] = compute.divide(hundredths, 100.0)
    for name in ("publisher", "bytes"):
        columns[name] = _or_null(columns[name], NONE)
    columns["topic"], columns["message"] = _or_null(found.column("k0"), NONE), found.column("k1")
    columns["ratio"] = _quotients(columns["delivered_eligible"], columns["eligible"])
    columns["copies_per_delivery"] = _quotients(columns["copies"], columns["away"])
    return _as_stored(columns, tables.MESSAGES, () if knowledge.knows(DELIVERY) else _ABOUT_DUE)


def traffic_of(files: Sequence[str], knowledge: Knowledge) -> Any:
    """Lines of the table `traffic` from files of sums. Bytes are null where the trace does not tell them."""
    found = _read(files)
    names = pa.array([wire_name(kind) for kind in PartKind])
    amounts = [name for name, kind in tables.TRAFFIC.columns if kind == "bigint"]
    columns = {
        "topic": _or_null(found.column("k0"), NONE),
        "node": found.column("k1"),
        "kind": names.take(found.column("k2")),
        **{name: found.column(f"a{place}") for place, name in enumerate(amounts)},
    }
    sides = {"bytes_out": BYTES_OUT, "bytes_in": BYTES_IN}
    return _as_stored(
        columns, tables.TRAFFIC, [name for name, figure in sides.items() if not knowledge.knows(figure)]
    )


def _read(files: Sequence[str]) -> Any:
    if not files:
        return _NOTHING.empty_table()
    return pa.concat_tables([parquet.read_table(file, partitioning=None) for file in files])


def _as_stored(columns: dict[str, Any], table: tables.MetricTable, unknown: Iterable[str] = ()) -> Any:
    """With the columns of the table but `run`, in their order and with their types; null where it is not known."""
    fields = [field for field in arrow_schema(table) if field.name != "run"]
    size = len(next(iter(columns.values())))
    arrays = [
        pa.nulls(size, field.type) if field.name in unknown else columns[field.name].cast(field.type)
        for field in fields
    ]
    return pa.table(arrays, schema=pa.schema(fields))


def _or_null(values: Any, nothing: int) -> Any:
    return compute.if_else(compute.equal(values, nothing), None, values)


def _quotients(parts: Any, wholes: Any) -> Any:
    """part / whole as doubles, null when there is nothing to divide by."""
    divisible = compute.if_else(compute.greater(wholes, 0), wholes, None)
    return compute.divide(parts.cast(pa.float64(), safe=False), divisible.cast(pa.float64(), safe=False))


def _flat(lists: Any) -> Ints:
    pieces = [np.empty(0, dtype=np.int64), *(chunk.flatten().to_numpy() for chunk in lists.chunks)]
    return np.concatenate(pieces)


def _sum(table: Any, name: str) -> int:
    return compute.sum(table.column(name)).as_py() or 0


def _milliseconds(hundredths_of_us: int) -> float:
    """Rounded half away from zero, as SQL rounds."""
    rounded = (abs(hundredths_of_us) + 50) // 100
    return (rounded if hundredths_of_us >= 0 else -rounded) / 1000
