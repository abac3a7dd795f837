"""Efficiency and load balance, from the table `traffic`: what was sent of which kind, and how evenly by the nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute

from hearsay.core.language.rpc import PartKind
from hearsay.pipeline.kernels.partial_sums import grouped
from hearsay.pipeline.kernels.stored_members import Members
from hearsay.pipeline.kernels.sums import Ints
from hearsay.pipeline.metrics.knowledge import BYTES_OUT, EVENNESS, Knowledge, quotient
from hearsay.trace.language.schema import NONE, wire_name

pa: Any = pyarrow
compute: Any = pyarrow.compute

_LOW_BITS = 32
_AT_ONCE = 1024
"""Rank times the lower half of the bytes: so many of them fit into a word for a thousand million nodes."""


def control_lines(traffic: Any) -> list[dict[str, Any]]:
    """The table `control` of a run. Kinds that name no topic (IWANT) stand under the topic null."""
    summed = traffic.group_by(["topic", "kind"]).aggregate(
        [("parts_out", "sum"), ("ids_out", "sum"), ("bytes_out", "sum")]
    )
    names = {"parts_out_sum": "parts", "ids_out_sum": "ids", "bytes_out_sum": "bytes"}
    lines: list[dict[str, Any]] = summed.rename_columns(names).to_pylist()
    sent = [line for line in lines if line["parts"]]
    whole: dict[int | None, int] = {}
    for line in sent:
        whole[line["topic"]] = whole.get(line["topic"], 0) + (line["bytes"] or 0)
    for line in sent:
        line["bytes_share"] = quotient(line["bytes"], whole[line["topic"]])
    return sent


def control_shares(traffic: Any) -> dict[int | None, float | None]:
    """By topic: all bytes but those of publish parts, over all bytes; the topic null is the run as a whole.

    Parts that name no topic are shared out over the topics in proportion to the ids of their IHAVEs, which they
    answer; without IHAVE in proportion to bytes.
    """
    publish, ihave = wire_name(PartKind.PUBLISH), wire_name(PartKind.IHAVE)
    summed: dict[int | None, list[int]] = {}
    unknown: set[int | None] = set()
    lines = traffic.group_by(["topic", "kind"]).aggregate([("bytes_out", "sum"), ("ids_out", "sum")]).to_pylist()
    for line in lines:
        bytes_out = line["bytes_out_sum"]
        amounts = summed.setdefault(line["topic"], [0, 0, 0])
        if bytes_out is None:
            unknown.add(line["topic"])
            continue
        amounts[0] += bytes_out
        amounts[1] += bytes_out if line["kind"] != publish else 0
        amounts[2] += line["ids_out_sum"] if line["kind"] == ihave else 0
    if unknown:
        return dict.fromkeys([*summed, None])
    loose = summed.get(None, [0, 0, 0])[0]
    of_topics = {topic: amounts for topic, amounts in summed.items() if topic is not None}
    announced = sum(amounts[2] for amounts in of_topics.values())
    named = sum(amounts[0] for amounts in of_topics.values())
    shares: dict[int | None, float | None] = {}
    for topic, (total, control, own) in of_topics.items():
        share = quotient(own, announced)
        share = quotient(total, named) if share is None else share
        extra = loose * (share or 0.0)
        shares[topic] = (control + extra) / (total + extra) if total + extra > 0 else None
    shares[None] = quotient(
        sum(amounts[1] for amounts in summed.values()), sum(amounts[0] for amounts in summed.values())
    )
    return shares


def balance_lines(traffic: Any, members: Members, knowledge: Knowledge) -> list[dict[str, Any]]:
    """The table `balance` of a run: bytes sent per node, by topic and (topic null) in all.

    The nodes of a topic are its members and whoever sent for it; those of the run are all that it tells about.
    """
    observers = np.array(knowledge.observers, dtype=np.int64)
    topic, node = (_filled(traffic, name, NONE) for name in ("topic", "node"))
    sent = _filled(traffic, "bytes_out", 0)
    told = np.isin(node, observers)
    topic, node, sent = topic[told], node[told], sent[told]
    named = topic != NONE
    topics, nodes = members.topic.astype(np.int64), members.node.astype(np.int64)
    own = grouped(
        [np.concatenate([topic[named], topics]), np.concatenate([node[named], nodes])],
        [np.concatenate([sent[named], np.zeros(len(nodes), dtype=np.int64)])],
    )
    whole = grouped(
        [np.concatenate([node, observers])], [np.concatenate([sent, np.zeros(len(observers), dtype=np.int64)])]
    )
    by_topic: list[tuple[int | None, Ints]] = [(None, whole.values[:, 0])]
    for number in np.unique(own.keys[:, 0]).tolist():
        by_topic.append((number, own.values[own.keys[:, 0] == number, 0]))
    return [_balance(number, amounts, knowledge) for number, amounts in by_topic if len(amounts)]


def _balance(topic: int | None, amounts: Ints, knowledge: Knowledge) -> dict[str, Any]:
    ascending = np.sort(amounts)
    nodes, total, most = len(ascending), int(ascending.sum()), int(ascending[-1])
    has_bytes, has_evenness = knowledge.knows(BYTES_OUT), knowledge.knows(EVENNESS) and total > 0
    return {
        "topic": topic,
        "nodes": nodes,
        "bytes_mean": float(total) / nodes if has_bytes else None,
        "bytes_max": most if has_bytes else None,
        "max_over_mean": most / (float(total) / nodes) if has_evenness else None,
        "gini": _gini(ascending, total) if has_evenness else None,
    }


def _gini(ascending: Ints, total: int) -> float:
    """2 * sum(rank * bytes) / (nodes * sum) - (nodes + 1) / nodes, ranks from 1 in ascending order of bytes."""
    nodes = float(len(ascending))
    ranks = np.arange(1, len(ascending) + 1, dtype=np.int64)
    high, low = ascending >> _LOW_BITS, ascending & ((1 << _LOW_BITS) - 1)
    weighted = (_exact_sum(ranks * high) << _LOW_BITS) + _exact_sum(ranks * low)
    return 2 * float(weighted) / (nodes * float(total)) - (nodes + 1) / nodes


def _exact_sum(values: Ints) -> int:
    """Beyond the width of a word."""
    return sum(np.add.reduceat(values, np.arange(0, len(values), _AT_ONCE)).tolist())


def _filled(table: Any, name: str, nothing: int) -> Ints:
    return table.column(name).fill_null(nothing).to_numpy().astype(np.int64)
