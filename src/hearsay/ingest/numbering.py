"""A part's rows in the numbers and on the clock of the run.

`renumber` leaves beside a part what is needed, so that any process can read it with the part's folder alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hearsay.ingest.dictionaries import Renumbering
from hearsay.ingest.parts import Part, load_part
from hearsay.trace.rows import Rows
from hearsay.trace.schema import NONE, WIDTH, Column, TraceEvent

_NUMBERS_FILE = "numbers.npz"


@dataclass(frozen=True, slots=True)
class NumberedPart:
    """A part with its numbers, and the origin of the run's clock."""

    folder: Path
    origin_ns: int
    first_copies: Path


def renumber(part: Part, numbers: Renumbering) -> None:
    """Leave the run's numbers in the part's folder."""
    np.savez(
        part.folder / _NUMBERS_FILE,
        peers=numbers.peers,
        topics=numbers.topics,
        messages=numbers.messages,
        reasons=numbers.reasons,
    )


def _load(part: NumberedPart) -> Renumbering:
    with np.load(part.folder / _NUMBERS_FILE) as arrays:
        return Renumbering(arrays["peers"], arrays["topics"], arrays["messages"], arrays["reasons"])


def numbered_rows(part: NumberedPart) -> Iterator[Rows]:
    """The rows as they go into the run's trace."""
    numbers = _load(part)
    for batch in load_part(part.folder).batches():
        rows = np.full((len(batch[Column.TIME_US]), WIDTH), NONE, dtype=np.int64)
        for column, values in batch.items():
            rows[:, column] = values
        rows[:, Column.TIME_US] = (batch[Column.TIME_US] - part.origin_ns) // 1000
        rows[:, Column.PEER] = numbers.peers[batch[Column.PEER]]
        rows[:, Column.REMOTE] = numbers.peers[batch[Column.REMOTE]]
        rows[:, Column.TOPIC] = numbers.topics[batch[Column.TOPIC]]
        rows[:, Column.MESSAGE] = numbers.messages[batch[Column.MESSAGE]]
        rows[:, Column.REASON] = numbers.reasons[batch[Column.REASON]]
        yield rows


def delays_of(part: NumberedPart) -> Counter[int]:
    """How many copies (published and delivered) came how many milliseconds after the message's first anywhere.

    In nanoseconds and rounded as tracestat rounds, which rows of microseconds would not allow; the first copies
    themselves count, at 0.
    """
    numbers = _load(part)
    first: NDArray[np.int64] = np.load(part.first_copies, mmap_mode="r")
    counts: Counter[int] = Counter()
    for batch in load_part(part.folder).batches((Column.TIME_US, Column.EVENT, Column.MESSAGE)):
        events, messages = batch[Column.EVENT], batch[Column.MESSAGE]
        copies = ((events == TraceEvent.PUBLISH) | (events == TraceEvent.DELIVER)) & (messages != NONE)
        delays = batch[Column.TIME_US][copies] - first[numbers.messages[messages[copies]]]
        values, found = np.unique((delays + 499_999) // 1_000_000, return_counts=True)
        counts.update(dict(zip(values.tolist(), found.tolist(), strict=True)))
    return counts
