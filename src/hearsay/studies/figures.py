"""The headline figures of a run, and which way is better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from hearsay.sim.results.summary import Summary
from hearsay.text.numbers import Form

Value: TypeAlias = float | int | str | bool | None
Better: TypeAlias = Literal["more", "less", ""]


@dataclass(frozen=True, slots=True)
class HeadlineFigure:
    """`title` is for tables and axes; `meaning` for those who ask."""

    name: str
    title: str
    form: Form
    better: Better
    meaning: str
    whole: bool = False
    conditional: bool = False
    """Only some scenarios have it; where none of the runs does, a comparison does not ask for it."""


FIGURES = (
    HeadlineFigure("delivery_ratio", "delivered", "percent", "more", "deliveries to eligible nodes over those due"),
    HeadlineFigure("latency_p50_ms", "p50 latency", "ms", "less", "half of the deliveries took at most this long"),
    HeadlineFigure("latency_p90_ms", "p90 latency", "ms", "less", "90 of 100 deliveries took at most this long"),
    HeadlineFigure("latency_p99_ms", "p99 latency", "ms", "less", "99 of 100 deliveries took at most this long"),
    HeadlineFigure("latency_max_ms", "slowest delivery", "ms", "less", "the slowest delivery"),
    HeadlineFigure("hops_mean", "hops", "number", "less", "links that a first copy crossed, on average"),
    HeadlineFigure("hops_max", "most hops", "count", "less", "links that a first copy crossed, at most", whole=True),
    HeadlineFigure(
        "copies_per_delivery", "copies per delivery", "number", "less", "first copies and duplicates over deliveries"
    ),
    HeadlineFigure(
        "control_per_delivery",
        "control per delivery",
        "number",
        "less",
        "control parts sent (all but messages, subscriptions and hellos) over deliveries",
    ),
    HeadlineFigure("bytes_per_node", "sent per node", "bytes", "less", "bytes that a node sent, on average"),
    HeadlineFigure(
        "uplink_share",
        "share of the uplink",
        "percent",
        "less",
        "bytes that a node sent over what its uplink could have taken in the simulated time, on average",
        conditional=True,
    ),
    HeadlineFigure("messages", "messages", "count", "", "messages published", whole=True),
    HeadlineFigure("publish", "publications", "count", "", "nodes that messages were handed to", whole=True),
    HeadlineFigure("deliver", "deliveries", "count", "", "deliveries to applications", whole=True),
    HeadlineFigure("duplicates", "duplicates", "count", "less", "copies of messages that were there", whole=True),
    HeadlineFigure("sent", "parts sent", "count", "less", "parts of RPCs sent, of all kinds", whole=True),
    HeadlineFigure("simulated_seconds", "simulated", "s", "", "simulated time"),
)
BY_NAME = {figure.name: figure for figure in FIGURES}
COSTS = (
    HeadlineFigure("cpu_s", "time of a run", "s", "less", "processor time that a run took where it was made"),
    HeadlineFigure(
        "peak_bytes",
        "memory of a run",
        "bytes",
        "less",
        "the most that the process had taken which made the run, and others before it",
    ),
)
"""What depends on the machine, and so is never compared or held to a budget."""
COMPARED = (
    "delivery_ratio",
    "latency_p50_ms",
    "latency_p99_ms",
    "hops_mean",
    "copies_per_delivery",
    "control_per_delivery",
    "bytes_per_node",
    "uplink_share",
)
"""What a comparison asks: the fewer figures, the smaller the differences that can be seen."""

_NO_CONTROL = ("publish", "subscribe", "unsubscribe", "connect")


def headline(summary: Summary) -> dict[str, Value]:
    """The figures of a run by name; None where there was nothing to count."""
    copies = summary.deliver + summary.duplicates
    control = sum(count for kind, count in summary.sent.items() if kind not in _NO_CONTROL)
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
