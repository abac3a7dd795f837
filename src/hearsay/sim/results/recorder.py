"""The records of a run: trace rows, their digest, counters and delivery times.

Rows go into one flat buffer of integers, and from there in batches to the digest, the writer and listeners. Nearly
all rows are SEND_RPC, and nearly all of those are copies of one part, which differ only in destination and time of
flight. So the buffer has one row for each part sent, its *head*, and two integers for each copy; a flush writes the
copies. `docs/reference/trace.md` defines each row. Receives and duplicates follow from the sends; they are counted,
not written.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hearsay.core.language.identifiers import Micros
from hearsay.core.language.rpc import PartKind
from hearsay.trace.language.event_rows import Codes, Part, send_rpc_row
from hearsay.trace.language.rows import RowBuffer, Rows, TraceDigest, no_rows, pack_row
from hearsay.trace.language.schema import Column, TraceEvent, TraceRow
from hearsay.trace.write.writer import TraceWriter

BATCH_ROWS = 8_192


Parts: TypeAlias = tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class MessageInfo:
    """One message of a run."""

    topic: int
    publisher: int
    published_us: Micros
    data_bytes: int
    inject: int
    """Number of nodes to which the script sends the message; 0 if a node publishes it."""


@dataclass(frozen=True, slots=True)
class Membership:
    """A period in which a node was up and had joined a topic."""

    node: int
    topic: int
    since_us: Micros
    until_us: Micros


class Recorder:
    """Collects the rows and counts of a run."""

    def __init__(
        self,
        writer: TraceWriter | None = None,
        listener: Callable[[TraceRow], None] | None = None,
        watcher: Callable[[Rows], None] | None = None,
    ) -> None:
        """Create a recorder; a listener gets each row, a watcher batches of rows."""
        self._writer = writer
        self._watcher = watcher
        self._listener = listener
        self._rows = RowBuffer()
        self._values = self._rows.values
        self.destinations: list[int] = []
        """Destinations of the copies, in the order of their heads; see `sending`."""
        self.delays: list[int] = []
        """Times of flight of the copies, in microseconds."""
        self._digest = TraceDigest()
        self._sent = np.zeros(len(PartKind), dtype=np.int64)
        self._bytes_out = np.zeros(0, dtype=np.int64)
        self.publishes = 0
        self.duplicates = 0
        self.events = 0
        self.messages: dict[Any, MessageInfo] = {}
        self.refused: set[Any] = set()
        """Messages that an application rejected or ignored."""
        self.delivered = 0
        self._deliveries: list[Rows] = []
        self.memberships: list[Membership] = []
        self._member_since: dict[tuple[int, int], Micros] = {}

    def row(self, codes: Codes) -> None:
        """Record a row that a function of `event_rows` returned."""
        self._values.frombytes(pack_row(*codes))

    def sending(self, now: Micros, source: int, part: Part) -> None:
        """Record the head of a part. The caller appends to `destinations` and `delays` for each copy."""
        self._values.frombytes(pack_row(*send_rpc_row(now, source, len(self.destinations), part, -1)))

    def sent_once(self, now: Micros, source: int, part: Part, destination: int, delay_us: Micros) -> None:
        """Record a part that is sent once."""
        self.sending(now, source, part)
        self.destinations.append(destination)
        self.delays.append(delay_us)

    @property
    def sent(self) -> list[int]:
        """The number of sent parts of each kind so far."""
        self.flush()
        return self._sent.tolist()

    def bytes_out(self, nodes: int) -> NDArray[np.int64]:
        """Return the bytes that each node sent so far; the script, number `nodes`, is left out."""
        self.flush()
        counted = self._bytes_out[:nodes]
        return np.pad(counted, (0, nodes - len(counted)))

    @property
    def trace_hash(self) -> str:
        return self._digest.hex()

    @property
    def deliveries(self) -> Rows:
        """All DELIVER rows so far."""
        self.flush()
        return np.concatenate(self._deliveries) if self._deliveries else no_rows()

    def joined(self, node: int, topic: int, now: Micros) -> None:
        self._member_since[node, topic] = now

    def left(self, node: int, topic: int, now: Micros) -> None:
        since = self._member_since.pop((node, topic), None)
        if since is not None:
            self.memberships.append(Membership(node, topic, since, now))

    def close_memberships(self, now: Micros) -> None:
        for node, topic in list(self._member_since):
            self.left(node, topic, now)

    def flush_if_full(self) -> None:
        if len(self._rows) + len(self.destinations) >= BATCH_ROWS:
            self.flush()

    def flush(self) -> None:
        if not len(self._rows):
            return
        rows = self._take_rows()
        self._digest.add(rows)
        delivered = rows[rows[:, Column.EVENT] == TraceEvent.DELIVER]
        if len(delivered):
            self._deliveries.append(delivered)
        if self._writer is not None:
            self._writer.add(rows)
        if self._watcher is not None:
            self._watcher(rows)
        if self._listener is not None:
            for codes in rows.tolist():
                self._listener(TraceRow.from_codes(codes))

    def _take_rows(self) -> Rows:
        """Return the rows since the last flush, with a row for each copy in place of the heads."""
        heads = self._rows.to_numpy()
        self._rows.clear()
        is_head = heads[:, Column.EVENT] == TraceEvent.SEND_RPC
        copies = np.ones(len(heads), dtype=np.int64)
        copies[is_head] = np.diff(heads[is_head, Column.REMOTE], append=len(self.destinations))
        rows = np.repeat(heads, copies, axis=0)
        is_copy = np.flatnonzero(rows[:, Column.EVENT] == TraceEvent.SEND_RPC)
        rows[is_copy, Column.REMOTE] = array("q", self.destinations)
        rows[is_copy, Column.DELAY_US] = array("q", self.delays)
        self._sent += np.bincount(rows[is_copy, Column.KIND], minlength=len(self._sent))
        self._count_bytes(rows[is_copy, Column.PEER], rows[is_copy, Column.BYTES])
        self.destinations.clear()
        self.delays.clear()
        return rows

    def _count_bytes(self, senders: NDArray[np.int64], sizes: NDArray[np.int64]) -> None:
        """Count sent bytes. A CONNECT has no size; sums of a batch are small enough for exact floats."""
        batch = np.bincount(senders, np.maximum(sizes, 0), minlength=len(self._bytes_out)).astype(np.int64)
        batch[: len(self._bytes_out)] += self._bytes_out
        self._bytes_out = batch
