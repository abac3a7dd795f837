"""A run over all of its topics together, as a line like those of the table `headline`.

Rules:

* What is a sum or a share is summed over topics; percentiles are of all deliveries together. What bytes name no topic
  count too.
* What no table tells for all topics together is None, and so not measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from hearsay.pipeline.output.tables import HEADLINE, LATENCY, MESSAGES, TRAFFIC, MetricTable
from hearsay.report.thinning import Floats
from hearsay.trace.folder.arrow import pa
from hearsay.trace.folder.arrow_compute import compute

ALL_TOPICS = "all topics"
_PAYLOAD = "publish"
_PERCENTILES = {"latency_p50_ms": 0.5, "latency_p90_ms": 0.9, "latency_p99_ms": 0.99}
_OF_THE_RUN = ("run", "router", "nodes", "state_bytes_mean", "state_bytes_max", "start_us", "seconds", "complete")


class Tables(Protocol):
    """What a run offers to read."""

    headlines: list[Any]

    def read(self, table: MetricTable, *columns: str) -> Any: ...
    def without_scripts(self, table: Any) -> Any: ...
    def why_not(self, figure: str) -> str | None: ...


def all_topics(run: Tables) -> dict[str, Any]:
    rows = run.headlines
    row: dict[str, Any] = dict.fromkeys(HEADLINE.names)
    row |= {name: rows[0][name] for name in _OF_THE_RUN}
    row |= {name: sum(each[name] or 0 for each in rows) for name in ("messages", "eligible", "delivered")}
    row["topic_name"] = ALL_TOPICS
    row["delivery_ratio"] = row["delivered"] / row["eligible"] if row["eligible"] else None
    return row | _latencies(run, rows) | _copies(run) | _bytes(run, rows)


def _latencies(run: Tables, rows: Sequence[Any]) -> dict[str, float | None]:
    known = [row["latency_max_ms"] for row in rows if row["latency_max_ms"] is not None]
    found: dict[str, float | None] = {"latency_max_ms": max(known, default=None)}
    table = run.read(LATENCY, "latency_us", "deliveries")
    table = table.filter(compute.is_valid(table.column("latency_us")))
    if not len(table):
        return found
    latencies, deliveries = (_floats(table, name) for name in ("latency_us", "deliveries"))
    order = np.argsort(latencies, kind="stable")
    upto = np.cumsum(deliveries[order])
    for name, share in _PERCENTILES.items():
        found[name] = float(latencies[order][np.searchsorted(upto, share * upto[-1])]) / 1000
    return found


def _copies(run: Tables) -> dict[str, float | None]:
    table = run.read(MESSAGES, "away", "copies", "hops_sum", "hops_max")
    away, copies = (compute.sum(table.column(name)).as_py() or 0 for name in ("away", "copies"))
    told = table.filter(compute.is_valid(table.column("hops_sum")))
    hops, told_away = (compute.sum(told.column(name)).as_py() or 0 for name in ("hops_sum", "away"))
    return {
        "copies_per_delivery": copies / away if away else None,
        "hops_mean": hops / told_away if told_away else None,
        "hops_max": compute.max(table.column("hops_max")).as_py(),
    }


def _bytes(run: Tables, rows: Sequence[Any]) -> dict[str, float | None]:
    table = run.read(TRAFFIC, "node", "kind", "bytes_out")
    table = table.filter(compute.is_valid(table.column("bytes_out")))
    sent = compute.sum(table.column("bytes_out")).as_py()
    if not sent:
        return {}
    payload = table.filter(compute.equal(table.column("kind"), _PAYLOAD))
    share = 1 - (compute.sum(payload.column("bytes_out")).as_py() or 0) / sent
    loads = _floats(run.without_scripts(table).group_by("node").aggregate([("bytes_out", "sum")]), "bytes_out_sum")
    every = max(rows[0]["nodes"] or 0, len(loads))
    found: dict[str, float | None] = {"control_bytes_share": share}
    if every and loads.sum():
        mean = float(loads.sum()) / every
        room = next(
            (row["bytes_out_mean"] / row["uplink_share_mean"] for row in rows if row["uplink_share_mean"]), None
        )
        found |= {"bytes_out_mean": mean, "uplink_share_mean": None if room is None else mean / room}
        if run.why_not("evenness") is None:
            most = float(loads.max())
            found |= {"bytes_out_max_over_mean": most / mean, "bytes_out_gini": _gini(loads, every)}
            found["uplink_share_max"] = None if room is None else most / room
    return found


def _gini(loads: Floats, nodes: int) -> float:
    """As the analysis has it for a topic: nodes that sent nothing count."""
    ascending = np.sort(np.concatenate((np.zeros(nodes - len(loads)), loads)))
    ranks = np.arange(1, nodes + 1)
    return float(2 * (ranks * ascending).sum() / (nodes * ascending.sum()) - (nodes + 1) / nodes)


def _floats(table: Any, name: str) -> Floats:
    values: Floats = table.column(name).cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return values.astype(np.float64)
