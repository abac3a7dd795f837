"""The numbers of a run, and the rows of a part in these numbers and on the clock of the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hearsay.core.language.actions import Reason
from hearsay.ingest.identifiers import NO_TIME
from hearsay.ingest.parts import KEPT, Part, load_part
from hearsay.trace.folder.arrow import pa
from hearsay.trace.folder.arrow_compute import compute
from hearsay.trace.language.rows import Rows
from hearsay.trace.language.schema import NONE, WIDTH, Column, TraceEvent, wire_name

Numbers = NDArray[np.int64]

_REASONS = {
    b"validation failed": Reason.REJECTED,
    b"validation ignored": Reason.IGNORED,
    b"validation throttled": Reason.THROTTLED,
    b"validation queue full": Reason.THROTTLED,
    b"self originated message": Reason.SELF_ORIGIN,
    **{wire_name(reason).encode(): reason for reason in Reason},
}
"""The reasons of go-libp2p-pubsub that are ours, too, and ours. Others (blacklists) are in `source.json` alone."""


@dataclass(frozen=True, slots=True)
class Dictionaries:
    """Names by number, as Arrow arrays of bytes."""

    peers: Any
    topics: Any
    messages: Any


class Renumbering(NamedTuple):
    """The run's number for each of a part's own. The last place is for none: -1 is -1."""

    peers: Numbers
    topics: Numbers
    messages: Numbers
    reasons: Numbers


def dictionaries_of(parts: Sequence[Part]) -> Dictionaries:
    """The names of these parts, numbered."""
    return Dictionaries(
        _in_order([part.peers for part in parts]),
        _in_order([part.topics for part in parts]),
        _in_order([part.messages for part in parts]),
    )


def renumbering(part: Part, dictionaries: Dictionaries) -> Renumbering:
    """How to turn the part's numbers into the run's."""
    return Renumbering(
        _places(part.peers, dictionaries.peers),
        _places(part.topics, dictionaries.topics),
        _places(part.messages, dictionaries.messages),
        np.array([*(int(_REASONS.get(reason, NONE)) for reason in part.reasons.to_pylist()), NONE], dtype=np.int64),
    )


def _in_order(arrays: Sequence[Any]) -> Any:
    if not arrays:
        return pa.array([], pa.large_binary())
    distinct = compute.unique(pa.chunked_array(arrays, pa.large_binary()))
    return distinct.take(compute.sort_indices(distinct))


def _places(names: Any, dictionary: Any) -> Numbers:
    places = compute.index_in(names, value_set=dictionary).to_numpy(zero_copy_only=False).astype(np.int64)
    return np.append(places, NONE)


_NUMBERS_FILE = "numbers.npz"
_OF_COPIES = (Column.TIME_US, Column.EVENT, Column.PEER, Column.MESSAGE)


@dataclass(frozen=True, slots=True)
class NumberedPart:
    """A part with its numbers, and the origin of the run's clock."""

    folder: Path
    origin_ns: int
    first_copies: Path
    ahead_ns: Path | None = None
    """By how much the clock of each peer of the run is ahead and shall be put back; None: clocks are left alone."""


def renumber(part: Part, numbers: Renumbering) -> None:
    """Leave the run's numbers in the part's folder."""
    np.savez(part.folder / _NUMBERS_FILE, **numbers._asdict())


def _load(part: NumberedPart) -> Renumbering:
    with np.load(part.folder / _NUMBERS_FILE) as arrays:
        return Renumbering(**arrays)


def _batches(
    part: NumberedPart, numbers: Renumbering, columns: Sequence[Column] = tuple(KEPT)
) -> Iterator[dict[Column, NDArray[np.int64]]]:
    """Rows of the part with times by corrected clocks."""
    if part.ahead_ns is None:
        yield from load_part(part.folder).batches(columns)
        return
    ahead: NDArray[np.int64] = np.load(part.ahead_ns, mmap_mode="r")
    for batch in load_part(part.folder).batches(columns):
        batch[Column.TIME_US] = batch[Column.TIME_US] - ahead[numbers.peers[batch[Column.PEER]]]
        yield batch


def numbered_rows(part: NumberedPart) -> Iterator[Rows]:
    """The rows as they go into the run's trace."""
    numbers = _load(part)
    for batch in _batches(part, numbers):
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


def first_times(part: NumberedPart) -> tuple[int, NDArray[np.int64]]:
    """The time of the part's first row, and of the first copy of each message of the run, by corrected clocks."""
    numbers = _load(part)
    first_copies = np.full(len(np.load(part.first_copies, mmap_mode="r")), NO_TIME)
    first_ns = NO_TIME
    for batch in _batches(part, numbers, _OF_COPIES):
        times, events, messages = (batch[column] for column in (Column.TIME_US, Column.EVENT, Column.MESSAGE))
        copies = _copies(events, messages)
        np.minimum.at(first_copies, numbers.messages[messages[copies]], times[copies])
        first_ns = min(first_ns, int(times.min(initial=NO_TIME)))
    return first_ns, first_copies


def delays_of(part: NumberedPart) -> Counter[int]:
    """How many copies (published and delivered) came how many milliseconds after the message's first anywhere.

    In nanoseconds and rounded as tracestat rounds, which rows of microseconds would not allow; the first copies
    themselves count, at 0.
    """
    numbers = _load(part)
    first: NDArray[np.int64] = np.load(part.first_copies, mmap_mode="r")
    counts: Counter[int] = Counter()
    for batch in _batches(part, numbers, _OF_COPIES):
        messages = batch[Column.MESSAGE]
        copies = _copies(batch[Column.EVENT], messages)
        delays = batch[Column.TIME_US][copies] - first[numbers.messages[messages[copies]]]
        values, found = np.unique((delays + 499_999) // 1_000_000, return_counts=True)
        counts.update(dict(zip(values.tolist(), found.tolist(), strict=True)))
    return counts


def _copies(events: NDArray[np.int64], messages: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which rows are copies, published or delivered, of a message."""
    return ((events == TraceEvent.PUBLISH) | (events == TraceEvent.DELIVER)) & (messages != NONE)
