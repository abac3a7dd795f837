"""The answers: one line per topic of a run, joined from the other tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow
import pyarrow.compute

from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.metrics.knowledge import quotient

pa: Any = pyarrow
compute: Any = pyarrow.compute

Line = Mapping[str, Any]
_NOT_PUBLISHED: Line = {"messages": 0}


def headline_lines(
    run: RunFacts,
    nodes: int,
    messages: Any,
    speeds: Mapping[int | None, Line],
    control_shares: Mapping[int | None, float | None],
    balance: Iterable[Line],
    state: Sequence[Line],
    resilience: Iterable[Line],
) -> Iterator[dict[str, Any]]:
    """The table `headline` of a run with so many nodes; the others are the lines of the tables."""
    delivery = {line["topic"]: line for line in _deliveries(messages)}
    loads = _loads(run, balance)
    together = {line["topic"]: line for line in resilience if line["disturbance"] is None}
    sampled = _sampled(state)
    seconds = (run.end_us - run.start_us) / 1_000_000
    for topic, name in sorted(run.topics.items()):
        load = loads.get(topic, {})
        recovery = together.get(topic, {})
        yield {
            "topic": topic,
            "topic_name": name,
            "router": run.router,
            "nodes": nodes,
            **delivery.get(topic, _NOT_PUBLISHED),
            **speeds.get(topic, {}),
            "control_bytes_share": control_shares.get(topic),
            "bytes_out_mean": load.get("bytes_mean"),
            "bytes_out_max_over_mean": load.get("max_over_mean"),
            "bytes_out_gini": load.get("gini"),
            **_of_uplinks(run, load, seconds),
            **sampled,
            **{key: recovery.get(key) for key in ("ratio_before", "ratio_during", "ratio_after", "heal_us")},
            "start_us": run.start_us,
            "seconds": seconds,
            "complete": run.manifest.complete,
        }


def _deliveries(messages: Any) -> Iterator[dict[str, Any]]:
    has_hops = compute.is_valid(messages.column("hops_sum"))
    known = messages.append_column("counted", compute.if_else(has_hops, messages.column("away"), None))
    summed = known.group_by("topic").aggregate(
        [
            ([], "count_all"),
            *((name, "sum") for name in ("eligible", "delivered_eligible", "hops_sum", "counted", "copies", "away")),
            ("hops_max", "max"),
        ]
    )
    for line in summed.to_pylist():
        yield {
            "topic": line["topic"],
            "messages": line["count_all"],
            "eligible": line["eligible_sum"],
            "delivered": line["delivered_eligible_sum"],
            "delivery_ratio": quotient(line["delivered_eligible_sum"], line["eligible_sum"]),
            "hops_mean": quotient(line["hops_sum_sum"], line["counted_sum"]),
            "hops_max": line["hops_max_max"],
            "copies_per_delivery": quotient(line["copies_sum"], line["away_sum"]),
        }


def _loads(run: RunFacts, balance: Iterable[Line]) -> dict[int | None, Line]:
    """The lines of `balance` by topic. With one topic that of the run: what names no topic (IWANT) is the topic's."""
    by_topic = {line["topic"]: line for line in balance}
    return {topic: by_topic.get(None, {}) for topic in run.topics} if len(run.topics) == 1 else by_topic


def _sampled(state: Sequence[Line]) -> dict[str, Any]:
    known = [line for line in state if line["bytes_mean"] is not None]
    return {
        "state_bytes_mean": quotient(
            sum(line["bytes_mean"] * line["nodes"] for line in known), sum(line["nodes"] for line in state)
        ),
        "state_bytes_max": max((line["bytes_max"] for line in known), default=None),
    }


def _of_uplinks(run: RunFacts, load: Line, seconds: float) -> dict[str, float | None]:
    could_send = None if run.uplink_bits_per_s is None else run.uplink_bits_per_s / 8 * seconds
    return {
        "uplink_share_mean": quotient(load.get("bytes_mean"), could_send),
        "uplink_share_max": quotient(load.get("bytes_max"), could_send),
    }
