"""The summary of a run: the JSON contract of `hearsay simulate --json`, from what the recorder kept.

* Eligible for a message is who was up and in its topic from its publication to the end of its window (the scenario's
  linger, or the end of the run); `delivery_ratio` is deliveries to the eligible over the eligible.
* Latency and hops are over deliveries at nodes other than the publisher; percentiles interpolate linearly.
* Where there is nothing to count, a figure is null, never NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hearsay.core.identifiers import Micros
from hearsay.core.rpc import PartKind
from hearsay.sim.plan import Plan
from hearsay.sim.recorder import Recorder
from hearsay.trace.schema import Column

ALWAYS_SHOWN = (
    PartKind.CONNECT,
    PartKind.GRAFT,
    PartKind.PRUNE,
    PartKind.PUBLISH,
    PartKind.IHAVE,
    PartKind.IWANT,
    PartKind.SUBSCRIBE,
)


HISTOGRAM_BINS = 10
_ROUND_WIDTHS_MS = tuple(digit * 10**power for power in range(8) for digit in (1, 2, 5))


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run came to; `to_json` is the contract."""

    router: str
    engine: str
    seed: int
    nodes: int
    messages: int
    fanout: int
    publish: int
    deliver: int
    delivery_ratio: float | None
    duplicates: int
    sent: dict[str, int]
    latency_ms: dict[str, float | None]
    hops: dict[str, float | int | None]
    simulated_seconds: float
    events: int
    trace_hash: str
    complete: bool
    histogram: tuple[tuple[int, int], ...]
    """Deliveries per latency bin (upper edge in ms), for people; not part of the JSON."""

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__ if name != "histogram"}


def summarise(plan: Plan, recorder: Recorder, engine: str, end_us: Micros, complete: bool) -> Summary:
    scenario = plan.scenario
    deliveries = recorder.deliveries
    messages = deliveries[:, Column.MESSAGE]
    nodes = deliveries[:, Column.PEER]
    publishers = np.zeros(len(recorder.messages), dtype=np.int64)
    published = np.zeros(len(recorder.messages), dtype=np.int64)
    for number, info in recorder.messages.items():
        publishers[number] = info.publisher
        published[number] = info.published_us
    away = nodes != publishers[messages]
    latencies = (deliveries[:, Column.TIME_US] - published[messages])[away]
    hops = deliveries[:, Column.HOPS][away]
    sent = {
        kind.name.lower(): recorder.sent[kind] for kind in PartKind if recorder.sent[kind] or kind in ALWAYS_SHOWN
    }
    injected = [info.inject for info in recorder.messages.values() if info.inject]
    return Summary(
        router=scenario.router.kind,
        engine=engine,
        seed=scenario.seed,
        nodes=scenario.network.nodes,
        messages=len(recorder.messages),
        fanout=max(injected, default=1),
        publish=recorder.publishes,
        deliver=recorder.delivered,
        delivery_ratio=_delivery_ratio(plan, recorder, messages, nodes, end_us),
        duplicates=recorder.duplicates,
        sent=sent,
        latency_ms=_latency_ms(latencies),
        hops={
            "mean": round(float(hops.mean()), 4) if len(hops) else None,
            "max": int(hops.max()) if len(hops) else None,
        },
        simulated_seconds=end_us / 1_000_000,
        events=recorder.events,
        trace_hash=recorder.trace_hash,
        complete=complete,
        histogram=_histogram(latencies),
    )


def _histogram(latencies: Any) -> tuple[tuple[int, int], ...]:
    """Up to ten bins of a round width."""
    if not len(latencies):
        return ()
    longest_ms = int(latencies.max()) // 1000 + 1
    width = next(
        step for step in _ROUND_WIDTHS_MS if step * HISTOGRAM_BINS >= longest_ms or step == _ROUND_WIDTHS_MS[-1]
    )
    counts = np.bincount(latencies // 1000 // width)
    return tuple(((number + 1) * width, int(count)) for number, count in enumerate(counts))


def _latency_ms(latencies: Any) -> dict[str, float | None]:
    names = ("p50", "p90", "p99", "max")
    if not len(latencies):
        return dict.fromkeys(names)
    values = np.percentile(latencies, [50, 90, 99, 100])
    return {name: round(float(value) / 1000, 3) for name, value in zip(names, values, strict=True)}


def _delivery_ratio(plan: Plan, recorder: Recorder, messages: Any, nodes: Any, end_us: Micros) -> float | None:
    """Deliveries to the eligible over the eligible, message by message."""
    recorder.close_memberships(end_us)
    by_topic: dict[int, Any] = {}
    for topic in range(len(plan.topics)):
        rows = [(m.node, m.since_us, m.until_us) for m in recorder.memberships if m.topic == topic]
        by_topic[topic] = np.array(rows, dtype=np.int64).reshape(-1, 3)
    order = np.argsort(messages, kind="stable")
    starts = np.searchsorted(messages[order], np.arange(len(recorder.messages) + 1))
    eligible_total = delivered_total = 0
    for number, info in recorder.messages.items():
        if info.published_us > end_us:
            continue
        until = min(info.published_us + plan.scenario.linger_us, end_us)
        members = by_topic[info.topic]
        eligible = members[(members[:, 1] <= info.published_us) & (members[:, 2] >= until), 0]
        receivers = nodes[order[starts[number] : starts[number + 1]]]
        eligible_total += len(eligible)
        delivered_total += int(np.isin(eligible, receivers).sum())
    return delivered_total / eligible_total if eligible_total else None
