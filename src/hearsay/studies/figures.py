"""The metrics of a run that studies keep, from its summary."""

from __future__ import annotations

from typing import TypeAlias

from hearsay.metrics import shown_in
from hearsay.sim.results.summary import Summary

Value: TypeAlias = float | int | str | bool | None

FIGURES = shown_in("study")
BY_NAME = {metric.name: metric for metric in FIGURES}
COSTS = shown_in("cost")
"""Metrics that depend on the machine: never compared, never held to a budget."""
COMPARED = tuple(metric.name for metric in shown_in("compared"))
"""Metrics of a comparison: with fewer of them, smaller differences can be detected."""

_NO_CONTROL = ("publish", "subscribe", "unsubscribe", "connect")


def headline(summary: Summary) -> dict[str, Value]:
    """Return the metrics of a run by name; None where there was nothing to count."""
    control = sum(count for kind, count in summary.sent.items() if kind not in _NO_CONTROL)
    copies = summary.deliver + summary.duplicates
    return {
        "delivery_ratio": summary.delivery_ratio,
        **{f"latency_{name}_ms": value for name, value in summary.latency_ms.items()},
        "hops_mean": None if summary.hops["mean"] is None else float(summary.hops["mean"]),
        "hops_max": summary.hops["max"],
        "copies_per_delivery": copies / summary.deliver if summary.deliver else None,
        "control_per_delivery": control / summary.deliver if summary.deliver else None,
        "bytes_per_node": summary.bytes_out["mean"],
        "uplink_share": summary.uplink_share["mean"],
        "messages": summary.messages,
        "publish": summary.publish,
        "deliver": summary.deliver,
        "duplicates": summary.duplicates,
        "sent": sum(summary.sent.values()),
        "simulated_seconds": summary.simulated_seconds,
    }
