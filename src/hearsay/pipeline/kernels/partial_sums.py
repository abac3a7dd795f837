"""Partial sums of a file by keys: parts of RPCs, traffic by topic and kind, and their merge."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from hearsay.core.language.actions import Via
from hearsay.core.language.rpc import PartKind
from hearsay.pipeline.kernels.columns import ColumnArrays
from hearsay.pipeline.kernels.sums import Ints, add_up, starts_of
from hearsay.trace.language.schema import NONE, Column, TraceEvent


@dataclass(frozen=True, slots=True)
class Sums:
    """Partial sums: `keys` (n, k) and `values` (n, v), both int64."""

    keys: Ints
    values: Ints


def joined(parts: list[Sums]) -> Sums:
    """All lines of all parts; at least one part."""
    return Sums(np.concatenate([part.keys for part in parts]), np.concatenate([part.values for part in parts]))


def merged(parts: list[Sums]) -> Sums:
    """One line per key, with the sums over the parts."""
    if len(parts) == 1:
        return parts[0]
    whole = joined(parts)
    return grouped(list(whole.keys.T), list(whole.values.T))


def grouped(keys: list[Ints], values: list[Ints]) -> Sums:
    """Sums of values by equal keys; keys are packed into one word where they fit."""
    size = len(keys[0])
    if not size:
        return Sums(np.empty((0, len(keys)), dtype=np.int64), np.empty((0, len(values)), dtype=np.int64))
    lows = [int(key.min()) for key in keys]
    spans = [int(key.max()) - low + 1 for key, low in zip(keys, lows, strict=True)]
    total = 1
    for span in spans:
        total *= span
    if total >= 1 << 62:
        matrix, inverse = np.unique(np.stack([key.astype(np.int64) for key in keys], 1), axis=0, return_inverse=True)
        return Sums(matrix, _summed(inverse.reshape(-1), values, len(matrix)))
    packed = np.zeros(size, dtype=np.int64)
    for key, low, span in zip(keys, lows, spans, strict=True):
        packed = packed * span + (key.astype(np.int64) - low)
    if total <= max(4 * size, 1 << 16):
        present = np.bincount(packed, minlength=total)
        places = np.flatnonzero(present)
        sums = _summed(packed, values, total)[places]
    else:
        places, inverse = np.unique(packed, return_inverse=True)
        sums = _summed(inverse.reshape(-1), values, len(places))
    unpacked: list[Ints] = []
    for low, span in zip(reversed(lows), reversed(spans), strict=True):
        unpacked.append(places % span + low)
        places = places // span
    return Sums(np.stack(unpacked[::-1], 1), sums)


def _summed(groups: Ints, values: list[Ints], count: int) -> Ints:
    """Exact integer sums; bincount adds in doubles, which are exact below 2^53."""
    return np.stack([np.bincount(groups, weights=value, minlength=count).astype(np.int64) for value in values], 1)


SECOND_US = 1_000_000
_KINDS = (int(PartKind.IWANT), int(PartKind.IDONTWANT), int(PartKind.PRUNE))


class Fate(IntEnum):
    """What is counted of a part."""

    SENT = 0
    ARRIVED = 1
    DROPPED = 2
    REFUSED = 3


def part_counts(rows: ColumnArrays, start_us: int, end_us: int) -> Sums:
    """(second, fate and kind, via and reason) -> rows, the sum of their counts, bytes. Seconds count from `start_us`;
    an arrival counts when it is, if that is before `end_us`."""
    events, kinds = rows[Column.EVENT], rows[Column.KIND]
    vias = rows.get(Column.VIA, np.full(len(events), NONE, dtype=np.int8))
    told = np.isin(kinds, _KINDS) | (vias == Via.IWANT)
    sent = np.flatnonzero((events == TraceEvent.SEND_RPC) & told)
    delays = rows[Column.DELAY_US][sent]
    arrives = rows[Column.TIME_US][sent] + delays
    flown = (delays != NONE) & (arrives < end_us)
    received = np.flatnonzero((events == TraceEvent.RECV_RPC) & told)
    of_fates = (
        (Fate.SENT, sent, rows[Column.TIME_US][sent]),
        (Fate.ARRIVED, sent[flown], arrives[flown]),
        (Fate.ARRIVED, received, rows[Column.TIME_US][received]),
        *(
            (fate, chosen, rows[Column.TIME_US][chosen])
            for fate, event in ((Fate.DROPPED, TraceEvent.DROP_RPC), (Fate.REFUSED, TraceEvent.REJECT))
            for chosen in [np.flatnonzero(events == event)]
        ),
    )
    chosen = np.concatenate([places for _, places, _ in of_fates])
    fates = np.concatenate([np.full(len(places), int(fate)) for fate, places, _ in of_fates])
    times = np.concatenate([times for _, _, times in of_fates])
    return grouped(
        [
            (times - start_us) // SECOND_US,
            _packed(fates, kinds[chosen]),
            _packed(vias[chosen], rows[Column.REASON][chosen]),
        ],
        [np.ones(len(chosen), np.int64), _or_0(rows[Column.COUNT][chosen]), _or_0(rows[Column.BYTES][chosen])],
    )


def unpacked(pair: int) -> tuple[int, int]:
    """The two codes of a key, -1 for none."""
    return (pair >> 8) - 1, (pair & 255) - 1


def _packed(first: Ints, second: Ints) -> Ints:
    return (first.astype(np.int64) + 1) << 8 | (second.astype(np.int64) + 1)


def _or_0(values: Ints) -> Ints:
    return np.maximum(values, 0).astype(np.int64)


def recorded_sizes(rows: ColumnArrays) -> Sums:
    """(0) -> parts sent, and parts received, of which the trace tells the bytes."""
    told = rows[Column.BYTES] >= 0
    events = (TraceEvent.SEND_RPC, TraceEvent.RECV_RPC)
    sides = [int(np.count_nonzero(told & (rows[Column.EVENT] == event))) for event in events]
    return Sums(np.zeros((1, 1), dtype=np.int64), np.array([sides], dtype=np.int64))


def message_traffic(rows: ColumnArrays, end_us: int) -> Sums:
    """As `traffic_of`, of rows sorted by message: a message has one topic, so its rows are one slice."""
    slices, about = _slices(rows[Column.MESSAGE], rows[Column.TOPIC])
    order = np.argsort(about, kind="stable")
    kinds = np.full(len(order), int(PartKind.PUBLISH))
    return _added_up(rows, slices[order], about[order], kinds, np.empty(0, dtype=np.int32), end_us)


def traffic_of(rows: ColumnArrays, end_us: int) -> Sums:
    """(topic, node, kind) -> parts, ids and bytes out and in, of sends, receives and drops in any order."""
    keys = rows[Column.TOPIC].astype(np.int64) << 8 | (rows[Column.KIND] + 1)
    order = np.argsort(keys, kind="stable")
    ordered = {column: values[order] for column, values in rows.items()}
    slices, about = _slices(keys[order], keys[order])
    return _added_up(ordered, slices, about >> 8, (about & 255) - 1, ordered[Column.COUNT], end_us)


def _slices(runs: Ints, about: Ints) -> tuple[Ints, Ints]:
    """(from, up to) of rows of equal `runs` and `about`, and what each is about."""
    starts = starts_of(runs, about)
    return np.stack([starts, np.append(starts[1:], len(runs))[: len(starts)]], 1), about[starts]


def _added_up(rows: ColumnArrays, slices: Ints, topics: Ints, kinds: Ints, ids: Ints, end_us: int) -> Sums:
    keys, values = add_up(
        slices,
        topics.astype(np.int64),
        kinds.astype(np.int64),
        rows[Column.TIME_US],
        rows[Column.EVENT],
        rows[Column.PEER],
        rows[Column.REMOTE],
        rows[Column.BYTES],
        ids,
        rows[Column.DELAY_US],
        rows[Column.REASON],
        end_us,
    )
    return Sums(keys, values)
