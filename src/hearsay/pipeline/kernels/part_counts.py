"""What became of parts of RPCs that were not simply used, second by second: partial sums of one file.

Counted are drops, rejects, and of all that is sent what bargains are about: requests and the copies that answer them,
IDONTWANT, and PRUNE. All else is in the table `traffic`.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from hearsay.core.language.actions import Via
from hearsay.core.language.rpc import PartKind
from hearsay.pipeline.kernels.columns import ColumnArrays
from hearsay.pipeline.kernels.partial_sums import Sums, grouped
from hearsay.pipeline.kernels.sums import Ints
from hearsay.trace.language.schema import NONE, Column, TraceEvent

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
