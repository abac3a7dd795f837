"""The metrics of a run: one table for summaries, analyses, reports, studies, comparisons and budgets.

A new metric needs a line in `METRICS`, its formula in the page of its `section`, and its computation:

* With the view `study`: `studies/packs.py`, from the summary of a run (`sim/results/summary.py`).
* With a `column`: a query in `pipeline/questions/`, joined by `headline.py` there; over all topics, `report/runs.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from hearsay.text.numbers import Form

Better: TypeAlias = Literal["more", "less", ""]
View: TypeAlias = Literal["study", "compared", "cost", "report", "terminal"]
"""Where a metric is shown: `study` in tables of studies, `compared` by `hearsay compare` and in charts of sweeps,
`cost` among the costs of the machine, `report` in the table of a report, `terminal` by `hearsay analyze`."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure about a whole run. The order of the table is the order of all views."""

    name: str
    """Key in study tables, budgets and `--figure`."""
    title: str
    """Name in sentences and on axes."""
    form: Form
    better: Better
    meaning: str
    """Definition, without the full stop."""
    views: frozenset[View] = frozenset()
    column: str = ""
    """Column of the table `headline`; empty if an analysis does not compute the metric."""
    path: str = ""
    """Key in an object of `hearsay analyze --json`; a dot separates outer and inner key."""
    kind: Literal["double", "int", "bigint"] = "double"
    """Spark type of the column; counts are not `double`."""
    short: str = ""
    """Heading of a narrow column. If it is empty, `heading` is the title."""
    optional: bool = False
    """True if only some scenarios have it; views omit it if no run has it."""
    section: str = "reference/metrics.md#headline"
    """Page and anchor of the formula, relative to `docs/`."""

    @property
    def heading(self) -> str:
        return self.short or self.title

    @property
    def is_count(self) -> bool:
        return self.kind != "double"


def _views(*names: View) -> frozenset[View]:
    return frozenset(names)


_EVERYWHERE: frozenset[View] = _views("study", "compared", "report", "terminal")
_STUDIES = "guide/studies.md#figures"

METRICS = (
    Metric("delivery_ratio", "delivered", "percent", "more", "deliveries to eligible nodes over those due",
           _EVERYWHERE, "delivery_ratio", "delivery_ratio"),
    Metric("latency_p50_ms", "p50 latency", "ms", "less", "half of the deliveries took at most this long",
           _views("study", "compared", "report", "terminal"), "latency_p50_ms", "latency_ms.p50", short="p50"),
    Metric("latency_p90_ms", "p90 latency", "ms", "less", "90 % of the deliveries took at most this long",
           _views("study"), "latency_p90_ms", "latency_ms.p90", short="p90"),
    Metric("latency_p99_ms", "p99 latency", "ms", "less", "99 % of the deliveries took at most this long",
           _EVERYWHERE, "latency_p99_ms", "latency_ms.p99", short="p99"),
    Metric("latency_max_ms", "slowest delivery", "ms", "less", "the slowest delivery",
           _views("study", "report", "terminal"), "latency_max_ms", "latency_ms.max", short="slowest"),
    Metric("hops_mean", "hops", "number", "less", "mean number of links that a first copy crossed",
           _views("study", "compared", "report", "terminal"), "hops_mean", "hops.mean"),
    Metric("hops_max", "most hops", "count", "less", "largest number of links that a first copy crossed",
           _views("study"), "hops_max", "hops.max", "int"),
    Metric("copies_per_delivery", "copies per delivery", "number", "less",
           "first copies and duplicates over deliveries",
           _EVERYWHERE, "copies_per_delivery", "copies_per_delivery", short="copies"),
    Metric("control_per_delivery", "control per delivery", "number", "less",
           "control parts sent (all but messages, subscriptions and hellos) over deliveries",
           _views("study", "compared"), short="control parts", section=_STUDIES),
    Metric("control_bytes_share", "control", "percent", "less", "control bytes over all bytes sent",
           _views("report", "terminal"), "control_bytes_share", "control_bytes_share"),
    Metric("bytes_per_node", "sent per node", "bytes", "less", "mean number of bytes that a node sent",
           _views("study", "compared", "report", "terminal"), "bytes_out_mean", "bytes_out.mean"),
    Metric("load_max_over_mean", "load max/mean", "number", "less",
           "bytes that the busiest node sent over the mean of all nodes",
           _views("report", "terminal"), "bytes_out_max_over_mean", "bytes_out.max_over_mean"),
    Metric("load_gini", "load Gini", "number", "less", "Gini coefficient of the bytes that nodes sent",
           _views("report"), "bytes_out_gini", "bytes_out.gini", short="Gini"),
    Metric("uplink_share", "share of the uplink", "percent", "less",
           "mean number of bytes that a node sent over the capacity of its uplink in the simulated time",
           _views("study", "compared", "report", "terminal"), "uplink_share_mean", "uplink_share.mean",
           short="of uplink", optional=True),
    Metric("uplink_share_max", "largest share of an uplink", "percent", "less",
           "bytes that the busiest node sent over the capacity of its uplink in the simulated time",
           _views(), "uplink_share_max", "uplink_share.max", optional=True),
    Metric("state_per_node", "state per node", "bytes", "less", "mean number of bytes that a node keeps in memory",
           _views("report", "terminal"), "state_bytes_mean", "state_bytes.mean", short="state"),
    Metric("state_max", "largest state", "bytes", "less", "largest number of bytes that a node kept in memory",
           _views(), "state_bytes_max", "state_bytes.max", "bigint"),
    Metric("messages", "messages", "count", "", "messages published", _views("study"), kind="bigint",
           section=_STUDIES),
    Metric("publish", "publications", "count", "", "nodes that got a message to publish", _views("study"),
           kind="bigint", section=_STUDIES),
    Metric("deliver", "deliveries", "count", "", "deliveries to applications", _views("study"), kind="bigint",
           section=_STUDIES),
    Metric("duplicates", "duplicates", "count", "less", "copies after the first at a node", _views("study"),
           kind="bigint", section=_STUDIES),
    Metric("sent", "parts sent", "count", "less", "parts of RPCs sent, of all kinds", _views("study"),
           kind="bigint", section=_STUDIES),
    Metric("simulated_seconds", "simulated", "s", "", "simulated time", _views("study"), section=_STUDIES),
    Metric("cpu_s", "time of a run", "s", "less", "processor time of the run on its machine", _views("cost"),
           section=_STUDIES),
    Metric("peak_bytes", "memory of a run", "bytes", "less",
           "largest memory of the process by the end of the run, earlier runs included", _views("cost"),
           section=_STUDIES),
)  # fmt: skip
BY_NAME = {metric.name: metric for metric in METRICS}
LATENCY_PERCENTS = {"p50": 50, "p90": 90, "p99": 99, "max": 100}
"""Percentiles of the latency, by their keys in `latency_ms`. The metric of a key is `latency_KEY_ms`."""


def shown_in(view: View) -> tuple[Metric, ...]:
    """Return the metrics of a view, in order."""
    return tuple(metric for metric in METRICS if view in metric.views)


def without_unknown(metrics: Iterable[Metric], known: Iterable[str]) -> list[Metric]:
    """Return the metrics without the optional ones whose names are not in `known`."""
    names = set(known)
    return [metric for metric in metrics if not metric.optional or metric.name in names]


def nested(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metrics of a row of `headline` in the form of `hearsay analyze --json`."""
    found: dict[str, Any] = {}
    for metric in METRICS:
        if metric.column:
            outer, _, inner = metric.path.partition(".")
            if inner:
                found.setdefault(outer, {})[inner] = row[metric.column]
            else:
                found[outer] = row[metric.column]
    return found


def value_at(line: Mapping[str, Any], metric: Metric) -> float | None:
    """Return a metric of an object of `hearsay analyze --json`; None if it was not measured."""
    outer, _, inner = metric.path.partition(".")
    value = line[outer]
    return value[inner] if inner else value
