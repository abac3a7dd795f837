"""Writes the result tables of an analysis, for a small network whose metrics a test can compute."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hearsay.pipeline.output.tables import METRICS_FOLDER, TABLES
from hearsay.trace.folder.own_folders import Holds, mark

HOSTILE = """<script>alert(1)</script>"'&\u202e</title><!--"""
TYPES = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
}

Rows = Sequence[Mapping[str, Any]]


def write_table(run: Path, table: str, rows: Rows | pa.Table, parts: int = 1) -> None:
    """Write a table in `parts` files, replacing an existing table. Columns that a row leaves out are null."""
    columns = TABLES[table].columns
    schema = pa.schema([(name, TYPES[column.kind]) for name, column in columns.items()])
    if not isinstance(rows, pa.Table):
        assert all(set(row) <= set(columns) for row in rows), table
        rows = pa.Table.from_pylist([{name: row.get(name) for name in columns} for row in rows], schema=schema)
    folder = run / METRICS_FOLDER / table
    folder.mkdir(parents=True, exist_ok=True)
    mark(run, Holds.TABLES)
    for old in folder.glob("*.parquet"):
        old.unlink()
    size = -(-len(rows) // parts)
    for part in range(parts):
        pq.write_table(rows.slice(part * size, size).cast(schema), folder / f"part-{part:05}-snappy.parquet")
    manifest = run / METRICS_FOLDER / "manifest-1.json"
    written = json.loads(manifest.read_text()) if manifest.exists() else {"tables": {}}
    written["tables"][table] = sorted(file.name for file in folder.glob("*.parquet"))
    manifest.write_text(json.dumps(written))


def write_run(
    run: Path, *, topics: Sequence[str] = ("blocks",), nodes: int = 20, messages: int = 10, slow: int = 1
) -> Path:
    """Write the tables of a run whose nodes form a ring and forward every message in both directions. One delivery of
    message 0 is missing. A hop takes 10 ms, times `slow`.
    """
    tables: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
    name = run.name
    for topic, topic_name in enumerate(topics):
        for table, rows in _topic_rows(topic, topic_name, nodes, messages, slow).items():
            tables[table] += rows
    tables["traffic"].append(_traffic(None, 0, "iwant", 1, 40))
    tables["control"].append({"kind": "iwant", "parts": 1, "ids": 1, "bytes": 40, "bytes_share": 1.0})
    for second in range(messages):
        up = nodes - (3 if second in (4, 5) else 0)
        tables["churn"].append({"second": second, "nodes_up": up, "came": 0, "went": 0, "messages": 0})
        tables["state"].append(
            {"time_us": second * 10**6, "nodes": nodes, "entries_mean": 10.0, "entries_max": 30, "bytes_mean": 1500.0,
             "bytes_max": 2500}
        )  # fmt: skip
    tables["quality"] += [{"check": "rows", "rows": 1234}, {"check": "orphan_deliveries", "rows": 0}]
    for table, rows in tables.items():
        write_table(run, table, [{"run": name, **row} for row in rows], parts=2)
    return run


def write_empty_run(run: Path) -> Path:
    """Write the tables of a run with one topic and no message: only `headline` has a row."""
    line = {"run": run.name, "topic": 0, "topic_name": "silence", "messages": 0, "complete": False}
    for table in TABLES:
        write_table(run, table, [line] if table == "headline" else [])
    return run


def _topic_rows(topic: int, topic_name: str, nodes: int, messages: int, slow: int) -> dict[str, list[dict[str, Any]]]:
    away = nodes - 1
    hop_us = 10_000 * slow
    deliveries = [(distance, 2 if distance < nodes - distance else 1) for distance in range(1, nodes // 2 + 1)]
    spread = [{"message": 1, "node": 0, "after_us": 0, "hops": 0}]
    for node in range(1, nodes):
        hops = min(node, nodes - node)
        sender = node - 1 if node <= nodes // 2 else (node + 1) % nodes
        via = "iwant" if node == 3 else "mesh"
        spread.append(
            {"message": 1, "node": node, "remote": sender, "after_us": hops * hop_us, "hops": hops, "via": via}
        )
    due = nodes * messages
    rows: dict[str, list[dict[str, Any]]] = {
        "headline": [
            {"topic_name": topic_name, "router": "floodsub", "nodes": nodes, "messages": messages, "eligible": due,
             "delivered": due - 1, "delivery_ratio": (due - 1) / due, "latency_p50_ms": 50.0 * slow,
             "latency_p90_ms": 90.0 * slow, "latency_p99_ms": 100.0 * slow, "latency_max_ms": nodes / 2 * 10 * slow,
             "hops_mean": 5.0, "hops_max": nodes // 2, "copies_per_delivery": 1.5, "control_bytes_share": 0.125,
             "bytes_out_mean": 1234.0, "bytes_out_max_over_mean": 2.5, "bytes_out_gini": 0.25,
             "state_bytes_mean": 1500.0, "state_bytes_max": 2500, "ratio_before": 1.0, "seconds": float(messages),
             "complete": True}
        ],
        "messages": [
            {"message": number, "publisher": 0, "published_us": number * 10**6, "bytes": 100, "eligible": nodes,
             "delivered_eligible": nodes - (number == 0), "ratio": (nodes - (number == 0)) / nodes,
             "delivered": nodes - (number == 0), "away": away, "copies": away * 3 // 2, "duplicates": away // 2,
             "rejected": 0, "by_iwant": 1, "p50_us": 50_000.0 * slow, "p90_us": 90_000.0 * slow,
             "p99_us": 100_000.0 * slow, "max_us": 100_000 * slow, "copies_per_delivery": 1.5}
            for number in range(messages)
        ],
        "latency": [
            {"latency_ms": distance * 10 * slow, "latency_us": distance * 10_000 * slow, "hops": distance,
             "deliveries": count * messages}
            for distance, count in deliveries
        ],
        "traffic": [_traffic(topic, node, "publish", 1, 100 * (node + 1)) for node in range(nodes)]
        + [_traffic(topic, 0, "ihave", 5, 60)],
        "control": [
            {"kind": "publish", "parts": nodes, "ids": nodes, "bytes": 21_000, "bytes_share": 0.99},
            {"kind": "ihave", "parts": 1, "ids": 5, "bytes": 60, "bytes_share": 0.01},
        ],
        "balance": [
            {"nodes": nodes, "bytes_mean": 1234.0, "bytes_max": 3085, "max_over_mean": 2.5, "gini": 0.25}
        ],
        "mesh": [
            {"layer": "mesh", "time_us": second * 10**6, "members": nodes, "links": 2 * nodes, "degree_mean": 2.0,
             "degree_min": 1, "degree_max": 3, "symmetric_share": 1.0, "components": 1, "largest_share": 1.0,
             "diameter": nodes // 2}
            for second in range(1, messages + 1)
        ],
        "degrees": [
            {"layer": "mesh", "time_us": second * 10**6, "degree": degree, "nodes": count}
            for second in (1, messages)
            for degree, count in ((1, 1), (2, nodes - 2), (3, 1))
        ],
        "mesh_links": [
            {"layer": "mesh", "node": node, "remote": (node + step) % nodes}
            for node in range(nodes)
            for step in (1, -1)
        ],
        "churn": [
            {"second": second, "nodes_up": nodes, "came": 0, "went": 0, "messages": 1, "eligible": nodes,
             "delivered": nodes - (second == 0), "ratio": (nodes - (second == 0)) / nodes}
            for second in range(0, messages, 2)
        ],
        "resilience": [
            {"disturbances": 6, "first_us": 4_000_000, "last_us": 5_000_000, "ratio_before": 1.0,
             "ratio_during": 0.975, "heal_us": 1_500_000}
        ],
        "spread": spread,
    }  # fmt: skip
    return {table: [{"topic": topic, **row} for row in found] for table, found in rows.items()}


def _traffic(topic: int | None, node: int, kind: str, ids: int, size: int) -> dict[str, Any]:
    return {"topic": topic, "node": node, "kind": kind, "parts_out": 1, "ids_out": ids, "bytes_out": size,
            "parts_in": 1, "ids_in": ids, "bytes_in": size}  # fmt: skip
