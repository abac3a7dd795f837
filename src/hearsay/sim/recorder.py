"""What a run leaves behind: trace rows, their digest, counters and delivery times.

Rows go into one flat buffer of integers, and from there in batches to the digest, the writer and whoever listens, so
that the engine pays one small copy per row. `docs/trace.md` says what each row means; receives and duplicates follow
from the sends and are counted, not written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hearsay.core.identifiers import Micros
from hearsay.core.rpc import PartKind
from hearsay.trace.digest import TraceDigest
from hearsay.trace.rows import RowBuffer, Rows, no_rows, pack_row
from hearsay.trace.schema import Column, TraceEvent, TraceRow
from hearsay.trace.writer import TraceWriter

BATCH_ROWS = 8_192


@dataclass(frozen=True, slots=True)
class MessageInfo:
    """One message of a run."""

    topic: int
    publisher: int
    published_us: Micros
    data_bytes: int
    inject: int


@dataclass(frozen=True, slots=True)
class Membership:
    """A time during which a node was up and in a topic."""

    node: int
    topic: int
    since_us: Micros
    until_us: Micros


class Recorder:
    def __init__(self, writer: TraceWriter | None = None, listener: Callable[[TraceRow], None] | None = None) -> None:
        self._writer = writer
        self._listener = listener
        self._rows = RowBuffer()
        self.values = self._rows.values
        """For hot code, which appends the bytes of rows itself; see `row`."""
        self._digest = TraceDigest()
        self.sent = [0] * len(PartKind)
        self.publishes = 0
        self.duplicates = 0
        self.events = 0
        self.messages: dict[Any, MessageInfo] = {}
        self.delivered = 0
        self._deliveries: list[Rows] = []
        self.memberships: list[Membership] = []
        self._member_since: dict[tuple[int, int], Micros] = {}

    def row(self, *codes: int) -> None:
        """Record a row by its 13 integers."""
        self.values.frombytes(pack_row(*codes))

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
        if len(self._rows) >= BATCH_ROWS:
            self.flush()

    def flush(self) -> None:
        if not len(self._rows):
            return
        rows = self._rows.to_numpy()
        self._rows.clear()
        self._digest.add(rows)
        delivered = rows[rows[:, Column.EVENT] == TraceEvent.DELIVER]
        if len(delivered):
            self._deliveries.append(delivered)
        if self._writer is not None:
            self._writer.add(rows)
        if self._listener is not None:
            for codes in rows.tolist():
                self._listener(TraceRow.from_codes(tuple(codes)))
