"""The recorder of a run on the reference engine: trace rows and their hash, counters, deliveries and memberships.

Rows are collected in one buffer of integers. A *flush* passes the rows of the buffer, as a batch, to the hash, the
consumers and the listener. `docs/reference/trace.md` defines the rows.

Most rows are SEND_RPC rows. A node often sends the same part to several peers, and the rows of these *copies* differ
only in destination and time of flight. So the buffer has one row for each part, its *head*, and two integers for each
copy. A flush makes a row for each copy. Received RPCs and duplicates can be derived from the sends, so they have no
rows. Duplicates are only counted.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hearsay.core.language.identifiers import Micros
from hearsay.core.language.rpc import PartKind
from hearsay.trace.language.event_rows import Codes, Part, send_rpc_row
from hearsay.trace.language.rows import RowBuffer, Rows, TraceDigest, no_rows, pack_row
from hearsay.trace.language.schema import Column, TraceEvent, TraceRow

BATCH_ROWS = 8_192


Parts: TypeAlias = tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class MessageInfo:
    """Facts about one message of a run."""

    topic: int
    publisher: int
    published_us: Micros
    data_bytes: int
    inject: int
    """Number of nodes to which the script sends the message; 0 if a node publishes it."""


class Recorder:
    """The rows and counts of a run so far."""

    def __init__(
        self,
        consumers: Sequence[Callable[[Rows], None]] = (),
        listener: Callable[[TraceRow], None] | None = None,
    ) -> None:
        """Create a recorder. `listener` gets each row; `consumers` get batches of rows."""
        self._consumers = consumers
        self._listener = listener
        self._rows = RowBuffer()
        self._values = self._rows.values
        self.destinations: list[int] = []
        """The destination of each copy since the last flush, in the order of the heads (see `record_part`)."""
        self.delays: list[int] = []
        """The time of flight of each copy since the last flush, in microseconds, in the order of `destinations`."""
        self._digest = TraceDigest()
        self._sent = np.zeros(len(PartKind), dtype=np.int64)
        self._bytes_out = np.zeros(0, dtype=np.int64)
        self.publishes = 0
        self.duplicates = 0
        self.events = 0
        self.messages: dict[Any, MessageInfo] = {}
        self.refused: set[Any] = set()
        """Messages that some application rejected or ignored."""
        self.delivered = 0
        self._deliveries: list[Rows] = []
        self.memberships: list[tuple[int, int, Micros, Micros]] = []
        """The node, topic, beginning and end of each period in which a node was up and had joined a topic. Periods
        that have not ended are missing."""
        self._member_since: dict[tuple[int, int], Micros] = {}

    def row(self, codes: Codes) -> None:
        """Record a row that a function of `event_rows` or `schema` returned."""
        self._values.frombytes(pack_row(*codes))

    def record_part(self, now: Micros, source: int, part: Part) -> None:
        """Record the head of a part that is sent. The caller must then append each copy to `destinations` and
        `delays`."""
        self._values.frombytes(pack_row(*send_rpc_row(now, source, len(self.destinations), part, -1)))

    def record_send(self, now: Micros, source: int, part: Part, destination: int, delay_us: Micros) -> None:
        """Record that a part is sent to only one destination."""
        self.record_part(now, source, part)
        self.destinations.append(destination)
        self.delays.append(delay_us)

    @property
    def sent(self) -> list[int]:
        """The number of parts of each kind that were sent so far. The index is the number of the kind."""
        self.flush()
        return self._sent.tolist()

    def bytes_out(self, nodes: int) -> NDArray[np.int64]:
        """Return the bytes that each of the `nodes` nodes has sent so far. The script is left out."""
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
            self.memberships.append((node, topic, since, now))

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
        for each in self._consumers:
            each(rows)
        if self._listener is not None:
            for codes in rows.tolist():
                self._listener(TraceRow.from_codes(codes))

    def _take_rows(self) -> Rows:
        """Return the rows since the last flush, in which each head is replaced by the rows of its copies."""
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
        """Add the sizes of sent parts to the bytes of their senders. A CONNECT has no size (-1) and counts as 0. The
        sums of a batch are exact as floats, because they are small."""
        batch = np.bincount(senders, np.maximum(sizes, 0), minlength=len(self._bytes_out)).astype(np.int64)
        batch[: len(self._bytes_out)] += self._bytes_out
        self._bytes_out = batch
