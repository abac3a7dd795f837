"""The summary of a run: the JSON of `hearsay simulate --json`, a text for terminals, a table for notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hearsay.text.numbers import figure, milliseconds, percent, plain, seconds, size
from hearsay.text.tables import html_table

BAR_WIDTH = 40


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of a run; `to_json` is the stable form."""

    router: str
    engine: str
    seed: int
    nodes: int
    messages: int
    fanout: int
    publish: int
    deliver: int
    delivery_ratio: float | None
    duplicates: int
    refused: int
    """Messages that applications rejected or ignored, at any node."""
    sent: dict[str, int]
    latency_ms: dict[str, float | None]
    hops: dict[str, float | int | None]
    bytes_out: dict[str, float | int]
    uplink_share: dict[str, float | None]
    simulated_seconds: float
    events: int
    trace_hash: str
    complete: bool
    histogram: tuple[tuple[int, int], ...]
    """Deliveries by latency bin (upper edge in ms), for the text only; not part of the JSON."""

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__ if name != "histogram"}

    def __str__(self) -> str:
        """Return simsub's counters and a small latency histogram."""
        return plain("\n".join(_lines(self)))

    def _repr_html_(self) -> str:
        caption = f"{self.router} on {self.nodes:,} nodes, {self.messages:,} messages, seed {self.seed}"
        return html_table(("", ""), list(_headline(self)), caption if self.complete else f"{caption} (interrupted)")


def _headline(summary: Summary) -> Iterator[tuple[str, str]]:
    """Yield the most important figures that exist."""
    if summary.delivery_ratio is not None:
        yield "delivered", percent(summary.delivery_ratio)
    for name, value in summary.latency_ms.items():
        if value is not None:
            yield f"latency {name}", milliseconds(value)
    if summary.hops["mean"] is not None:
        yield "hops", f"{figure(summary.hops['mean'])}, at most {summary.hops['max']}"
    yield "deliveries", f"{summary.deliver:,}"
    yield "duplicates", f"{summary.duplicates:,}"
    if summary.refused:
        yield "messages refused", f"{summary.refused:,}"
    yield "sent per node", size(summary.bytes_out["mean"])
    yield "trace hash", summary.trace_hash


def _lines(summary: Summary) -> Iterator[str]:
    yield "=== simulation summary ==="
    if not summary.complete:
        yield "(interrupted: figures up to there)"
    yield f"router: {summary.router}  engine: {summary.engine}  seed: {summary.seed}"
    yield f"nodes: {summary.nodes:,}"
    yield f"messages: {summary.messages:,}"
    if summary.messages:
        yield f"fanout: {summary.fanout}"
    yield f"publish: {summary.publish:,}"
    yield f"deliver: {summary.deliver:,}"
    yield f"duplicates: {summary.duplicates:,}"
    if summary.refused:
        yield f"refused by applications: {summary.refused:,} of the messages"
    for kind, count in summary.sent.items():
        yield f"sent {kind}: {count:,}"
    if not summary.messages:
        yield "no messages: nothing to deliver, no latency"
    else:
        yield from _delivery(summary)
    yield from _bytes(summary)
    yield f"simulated: {seconds(summary.simulated_seconds)}, {summary.events:,} events"
    yield f"trace hash: {summary.trace_hash}"


def _bytes(summary: Summary) -> Iterator[str]:
    sent, share = summary.bytes_out, summary.uplink_share["mean"]
    uplink = "" if share is None else f"  {percent(share)} of its uplink"
    yield f"sent per node: mean {size(sent['mean'])}  max {size(sent['max'])}{uplink}"


def _delivery(summary: Summary) -> Iterator[str]:
    if summary.delivery_ratio is None:
        yield "delivery ratio: no node was eligible"
    else:
        yield f"delivery ratio: {percent(summary.delivery_ratio)}"
    latency = summary.latency_ms
    if latency["max"] is None:
        yield "latency: no deliveries away from the publisher"
        return
    known = {name: value for name, value in latency.items() if value is not None}
    yield "latency: " + "  ".join(f"{name} {milliseconds(value)}" for name, value in known.items())
    if summary.hops["mean"] is not None:
        yield f"hops: mean {figure(summary.hops['mean'])}  max {summary.hops['max']}"
    highest = max(count for _, count in summary.histogram)
    for edge, count in summary.histogram:
        bar = "█" * round(BAR_WIDTH * count / highest)
        yield f"  < {edge:>6} ms {bar:<{BAR_WIDTH}} {count:,}"
