"""Which deliveries a latency is over: all away from the publisher, also those that were not due.

A node that comes later, or leaves too soon to be eligible, gets messages as well. Its deliveries have a latency, but
are none of those due, so a share of those due and a percentile of all must not be told in one breath.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hearsay.pipeline.output.tables import MESSAGES
from hearsay.report.run import Run, View
from hearsay.text.numbers import count
from hearsay.trace.folder.arrow_compute import compute

_NOTABLE_SHARE = 0.01
"""From here on deliveries that were not due can move the 99th percentile."""


@dataclass(frozen=True, slots=True)
class DeliveryCounts:
    away: int
    """Deliveries away from the publisher, which latencies are over."""
    not_due: int
    """Deliveries at nodes that were not eligible."""
    all_due_within_us: int | None
    """When the last delivery due was made; None where one is missing."""

    @property
    def notably_more_than_due(self) -> bool:
        return self.not_due > 0 and self.not_due >= _NOTABLE_SHARE * self.away

    @property
    def words(self) -> str:
        return f"over all {count(self.away)} deliveries, with those to nodes that came later or left soon"


def delivery_counts(run: Run, view: View) -> DeliveryCounts:
    columns = ("topic", "away", "delivered", "eligible", "delivered_eligible", "t100_us")
    rows = view.rows(run.read(MESSAGES, *columns))
    known = rows.filter(compute.is_valid(rows.column("delivered_eligible")))
    not_due = _total(known, "delivered") - _total(known, "delivered_eligible")
    due = known.filter(compute.greater(known.column("eligible"), 0)).column("t100_us")
    within = compute.max(due).as_py() if len(due) and not due.null_count else None
    return DeliveryCounts(_total(rows, "away"), not_due, within)


def _total(rows: Any, name: str) -> int:
    return int(compute.sum(rows.column(name)).as_py() or 0)
