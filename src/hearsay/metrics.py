"""The metrics of a run, from `metrics.toml`, for summaries, analyses, reports, studies and budgets.

A new metric needs an entry in `metrics.toml`, its formula in the page of its `section`, and its computation:

* A metric in the view `study` is computed in `studies/packs.py`, from the summary of a run
  (`sim/summary.py`).
* A metric with a `column` is computed for each topic by a query in `pipeline/questions/`, whose result `headline.py`
  there joins to the other metrics. Over all topics, `report/runs.py` computes it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal, TypeAlias

from hearsay.number_text import Form

Better: TypeAlias = Literal["more", "less", ""]
View: TypeAlias = Literal["study", "compared", "cost", "report", "terminal"]
"""The name of a view, which is a place that shows metrics:

* `study`: the tables of studies.
* `compared`: the output of `hearsay compare`, and the charts of sweeps.
* `cost`: the costs of a study on the machine, such as processor time.
* `report`: the table of a report.
* `terminal`: the output of `hearsay analyze`.
"""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric: a number about a run, or about one topic of a run. All views show metrics in the order of
    `METRICS`.
    """

    name: str
    """The name in tables of studies, in budgets and in the option `--figure`."""
    title: str
    """The name in sentences and on axes of charts."""
    form: Form
    meaning: str
    """The definition, without a full stop at the end."""
    better: Better = ""
    """The direction in which the metric improves; empty if neither direction is better."""
    views: frozenset[View] = frozenset()
    column: str = ""
    """The column of the table `headline`; empty if an analysis does not compute the metric."""
    path: str = ""
    """The key in an object of `hearsay analyze --json`. "hops.mean" is the key `mean` of the object `hops`."""
    kind: Literal["double", "int", "bigint"] = "double"
    """The Spark type of the column. A metric that is a count has an integer type."""
    short: str = ""
    """The heading of a narrow column. If it is empty, `heading` is the title."""
    optional: bool = False
    """True if only some scenarios have the metric. A view leaves out the metric if none of its runs has it."""
    section: str = "reference/metrics.md#headline"
    """The page and anchor of the formula, relative to `docs/`."""

    @property
    def heading(self) -> str:
        return self.short or self.title

    @property
    def is_count(self) -> bool:
        return self.kind != "double"


METRICS = tuple(
    Metric(name, views=frozenset(entry.pop("views", ())), **entry)
    for name, entry in tomllib.loads((files("hearsay") / "metrics.toml").read_text(encoding="utf-8")).items()
)
BY_NAME = {metric.name: metric for metric in METRICS}
LATENCY_PERCENTS = {"p50": 50, "p90": 90, "p99": 99, "max": 100}
"""Percentiles of the latency, by their keys in `latency_ms`. The metric of a key is `latency_KEY_ms`."""


def shown_in(view: View) -> tuple[Metric, ...]:
    """Return the metrics that a view shows, in the order of `METRICS`."""
    return tuple(metric for metric in METRICS if view in metric.views)


def without_unknown(metrics: Iterable[Metric], known: Iterable[str]) -> list[Metric]:
    """Return the metrics without the optional metrics whose names are not in `known`."""
    names = set(known)
    return [metric for metric in metrics if not metric.optional or metric.name in names]


def nested(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metrics in a row of the table `headline` as an object of `hearsay analyze --json`."""
    found: dict[str, Any] = {}
    for metric in METRICS:
        if metric.column:
            outer, _, inner = metric.path.rpartition(".")
            (found.setdefault(outer, {}) if outer else found)[inner] = row[metric.column]
    return found


def value_at(line: Mapping[str, Any], metric: Metric) -> float | None:
    """Return the value of a metric in an object of `hearsay analyze --json`; None if the metric was not measured."""
    outer, _, inner = metric.path.rpartition(".")
    return (line[outer] if outer else line)[inner]
