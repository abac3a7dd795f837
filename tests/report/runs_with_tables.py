"""Makes small simulated runs with result tables that are computed from their rows, without an analysis."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from result_tables import write_run, write_table

from hearsay.core.language.actions import Via
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.sim.simulate import run_on_fitting_engine
from hearsay.trace.language.schema import TraceEvent, TraceRow, wire_name
from hearsay.trace.reader import RowFilter, iter_rows

SMALL = [("network.nodes", "30"), ("workload.messages", "12"), ("workload.publishers", "any")]


def simulate_with_tables(folder: Path, seed: int, loss: float = 0.3) -> Path:
    """Simulate a run, and write its tables `messages` and `spread` from its rows; the other tables are made up."""
    scenario = load_scenario(None, "r1", [*SMALL, ("loss.rate", str(loss)), ("seed", str(seed))])
    run_on_fitting_engine(scenario, "reference", out=folder)
    write_run(folder, nodes=30, messages=12)
    head = {"topic_name": "topic", "router": "gossipsub", "nodes": 30, "messages": 12, "start_us": 0}
    name = {"run": folder.name, "topic": 0}
    write_table(folder, "headline", [{**name, **head, "complete": True}])
    published, delivered = publications_and_deliveries(folder)
    messages, spread = [], []
    for number, first in published.items():
        after = [row.time_us - first.time_us for row in delivered[number]]
        away = [us for us, row in zip(after, delivered[number], strict=True) if row.peer != first.peer]
        due = {"eligible": 30, "delivered_eligible": len(after), "ratio": len(after) / 30, "delivered": len(after)}
        took = {"p50_us": float(np.median(away)), "max_us": max(away)} if away else {}
        messages.append(
            {**name, "message": number, "publisher": first.peer, "published_us": first.time_us, **due, **took}
        )
    measured = sorted((line for line in messages if "p50_us" in line), key=lambda line: line["p50_us"])
    typical = measured[len(measured) // 2]["message"]
    for row in delivered[typical]:
        own = row.peer == published[typical].peer
        arrival = (
            {"hops": 0} if own else {"remote": row.remote, "hops": row.hops, "via": wire_name(row.via or Via.MESH)}
        )
        after_us = row.time_us - published[typical].time_us
        spread.append({**name, "message": typical, "node": row.peer, "after_us": after_us, **arrival})
    write_table(folder, "messages", messages)
    write_table(folder, "spread", spread)
    return folder


def publications_and_deliveries(run: Path) -> tuple[dict[int, TraceRow], dict[int, list[TraceRow]]]:
    """Return the row of the publication, and the rows of the deliveries in order of time, by message."""
    rows = list(iter_rows(run, RowFilter(events=[TraceEvent.PUBLISH, TraceEvent.DELIVER])))
    published = {row.message or 0: row for row in rows if row.event is TraceEvent.PUBLISH}
    delivered: dict[int, list[TraceRow]] = {number: [] for number in published}
    for row in sorted(rows, key=lambda row: (row.time_us, row.peer)):
        if row.event is TraceEvent.DELIVER:
            delivered[row.message or 0].append(row)
    return published, delivered
