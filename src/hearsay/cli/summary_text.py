"""The summary of a run for people: simsub's counters and a small latency histogram."""

from __future__ import annotations

from collections.abc import Iterator

from hearsay.sim.results.summary import Summary
from hearsay.text.numbers import figure, milliseconds, percent, plain, seconds, size

BAR_WIDTH = 40


def summary_text(summary: Summary) -> str:
    return plain("\n".join(_lines(summary)))


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
        yield "delivery ratio: nobody was eligible"
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
