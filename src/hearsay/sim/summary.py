"""The summary of a run, computed from an engine's counts: as JSON, as text for terminals, as a table for notebooks.

* A node is eligible for a message if it is up and in the topic from the publication until the linger time of the
  scenario has passed or, if that is earlier, until the end of the run. No node is eligible for a message that some
  application rejects or ignores. `delivery_ratio` is the number of eligible nodes with a delivery, at any time,
  divided by the number of eligible nodes.
* Latency and hops are figures of deliveries *away*: at all nodes but the publisher. Percentiles are interpolated
  linearly.
* `bytes_out` has the mean and the maximum of the bytes that a node sent, as in the SEND_RPC rows of the trace.
  `uplink_share` has these bytes divided by the bytes that a node's uplink can send in the simulated time. It can be
  above 1 if RPCs still wait for the uplink at the end.
* A ratio with the divisor 0 is null, and so is a mean or percentile of no values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hearsay.core.language.identifiers import Micros
from hearsay.core.language.rpc import PartKind
from hearsay.metrics import LATENCY_PERCENTS
from hearsay.number_text import figure, milliseconds, percent, plain, plural, seconds, size
from hearsay.text import html_table
from hearsay.trace.language.schema import Column

if TYPE_CHECKING:
    from hearsay.sim.plan.plan import Plan
    from hearsay.sim.recorder import Recorder


BAR_WIDTH = 40
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
_NO_HOPS: dict[str, float | int | None] = {"mean": None, "max": None}
_ROUND_WIDTHS_MS = tuple(digit * 10**power for power in range(8) for digit in (1, 2, 5))


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of a run. The keys of `to_json` do not change between versions."""

    router: str
    engine: str
    seed: int
    nodes: int
    messages: int
    fanout: int
    """The number of nodes that publish each message: those to which the script sends it, or 1 without a script."""
    publish: int
    """The number of publications at nodes. A copy that the script sends counts as one."""
    deliver: int
    """The number of deliveries."""
    delivery_ratio: float | None
    duplicates: int
    refused: int
    """The number of messages that some application rejected or ignored."""
    sent: dict[str, int]
    """The number of sent parts of each kind. Kinds that were not sent are missing, except those in `ALWAYS_SHOWN`."""
    latency_ms: dict[str, float | None]
    hops: dict[str, float | int | None]
    bytes_out: dict[str, float | int]
    uplink_share: dict[str, float | None]
    simulated_seconds: float
    events: int
    """The number of events that routers handled."""
    trace_hash: str
    complete: bool
    histogram: tuple[tuple[int, int], ...]
    """For each bin of latencies, its upper bound in ms and its number of deliveries. The JSON lacks this field."""

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__ if name != "histogram"}

    def __str__(self) -> str:
        """Return the figures and a histogram of the latencies as several lines of text."""
        return plain("\n".join(_lines(self)))

    def _repr_html_(self) -> str:
        caption = f"{self.router} on {self.nodes:,} nodes, {self.messages:,} messages, seed {self.seed}"
        return html_table(("", ""), list(_main_rows(self)), caption if self.complete else f"{caption} (interrupted)")


def _main_rows(summary: Summary) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each main figure, except those that are None."""
    if summary.delivery_ratio is not None:
        yield "delivered", percent(summary.delivery_ratio)
    for name, value in summary.latency_ms.items():
        if value is not None:
            yield f"latency {name}", milliseconds(value)
    if summary.hops["mean"] is not None:
        yield "hops", f"{figure(summary.hops['mean'])}, at most {summary.hops['max']}"
    yield "deliveries", f"{summary.deliver:,}"
    yield "duplicates", f"{summary.duplicates:,}"
    if summary.refused:
        yield "messages refused", f"{summary.refused:,}"
    yield "sent per node", size(summary.bytes_out["mean"])
    yield "trace hash", summary.trace_hash


def _lines(summary: Summary) -> Iterator[str]:
    yield "=== simulation summary ==="
    if not summary.complete:
        yield "(interrupted: figures are those of the time simulated)"
    yield f"router: {summary.router}  engine: {summary.engine}  seed: {summary.seed}"
    yield f"nodes: {summary.nodes:,}"
    published = plural(summary.fanout, "node")
    yield f"messages: {summary.messages:,}" + (f", each published by {published}" if summary.messages else "")
    yield f"deliver: {summary.deliver:,}"
    yield f"duplicates: {summary.duplicates:,}"
    if summary.refused:
        yield f"refused by applications: {summary.refused:,} of the messages"
    for kind, count in summary.sent.items():
        yield f"sent {kind}: {count:,}"
    if not summary.messages:
        yield "no messages: nothing to deliver, no latency"
    else:
        yield from _delivery(summary)
    sent, share = summary.bytes_out, summary.uplink_share["mean"]
    uplink = "" if share is None else f"  {percent(share)} of its uplink"
    yield f"sent per node: mean {size(sent['mean'])}  max {size(sent['max'])}{uplink}"
    yield f"simulated: {seconds(summary.simulated_seconds)}, {summary.events:,} events"
    yield f"trace hash: {summary.trace_hash}"


def _delivery(summary: Summary) -> Iterator[str]:
    if summary.delivery_ratio is None:
        yield "delivery ratio: no node was eligible"
    else:
        yield f"delivery ratio: {percent(summary.delivery_ratio)}"
    latency = summary.latency_ms
    if latency["max"] is None:
        yield "latency: no deliveries away from the publisher"
        return
    known = {name: value for name, value in latency.items() if value is not None}
    yield "latency: " + "  ".join(f"{name} {milliseconds(value)}" for name, value in known.items())
    if summary.hops["mean"] is not None:
        yield f"hops: mean {figure(summary.hops['mean'])}  max {summary.hops['max']}"
    highest = max(count for _, count in summary.histogram)
    for edge, count in summary.histogram:
        bar = "█" * round(BAR_WIDTH * count / highest)
        yield f"  < {edge:>6} ms {bar:<{BAR_WIDTH}} {count:,}"


@dataclass(frozen=True, slots=True)
class Latencies:
    """The number of deliveries away with each latency."""

    microseconds: NDArray[np.int64]
    """The latencies that occur, ascending."""
    counts: NDArray[np.int64]
    """The number of deliveries with each of these latencies."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The counts of an engine in a run, from which the summary is computed."""

    publishes: int
    delivered: int
    duplicates: int
    refused: int
    """The number of messages that some application rejected or ignored."""
    events: int
    sent: Sequence[int]
    latencies: Latencies
    hops_sum: int
    hops_max: int
    bytes_sum: int
    bytes_max: int
    eligible: int
    """The number of eligible nodes, summed over all messages."""
    reached: int
    """The number of eligible nodes with a delivery of the message, summed over all messages."""
    trace_hash: str


def summarise(plan: Plan, figures: Figures, engine: str, end_us: Micros, complete: bool) -> Summary:
    """Return the summary of a run that ended at `end_us`. `complete` is False if the run was stopped early."""
    scenario = plan.scenario
    sent = {kind.name.lower(): figures.sent[kind] for kind in PartKind if figures.sent[kind] or kind in ALWAYS_SHOWN}
    away = int(figures.latencies.counts.sum())
    injected = [len(publication.inject) for publication in plan.publications if publication.inject]
    return Summary(
        router=scenario.router.kind,
        engine=engine,
        seed=scenario.seed,
        nodes=scenario.network.nodes,
        messages=len(plan.publications),
        fanout=max(injected, default=1),
        publish=figures.publishes,
        deliver=figures.delivered,
        delivery_ratio=figures.reached / figures.eligible if figures.eligible else None,
        duplicates=figures.duplicates,
        refused=figures.refused,
        sent=sent,
        latency_ms=_latency_ms(figures.latencies),
        hops={"mean": round(figures.hops_sum / away, 4), "max": figures.hops_max} if away else _NO_HOPS,
        bytes_out={"mean": round(figures.bytes_sum / scenario.network.nodes, 1), "max": figures.bytes_max},
        uplink_share=_uplink_share(plan, figures, end_us),
        simulated_seconds=end_us / 1_000_000,
        events=figures.events,
        trace_hash=figures.trace_hash,
        complete=complete,
        histogram=_histogram(figures.latencies),
    )


def recorded_figures(plan: Plan, recorder: Recorder, end_us: Micros) -> Figures:
    """Return the figures of a run from its recorder, until `end_us`. Memberships end there."""
    deliveries = recorder.deliveries
    messages, nodes = deliveries[:, Column.MESSAGE], deliveries[:, Column.PEER]
    infos = [recorder.messages[number] for number in range(len(recorder.messages))]
    publishers = np.array([info.publisher for info in infos], dtype=np.int64)
    published = np.array([info.published_us for info in infos], dtype=np.int64)
    away = nodes != publishers[messages]
    latencies = (deliveries[:, Column.TIME_US] - published[messages])[away]
    hops = deliveries[:, Column.HOPS][away]
    bytes_out = recorder.bytes_out(plan.scenario.network.nodes)
    eligible, reached = _eligible_and_reached(plan, recorder, messages, nodes, end_us)
    return Figures(
        publishes=recorder.publishes,
        delivered=recorder.delivered,
        duplicates=recorder.duplicates,
        refused=len(recorder.refused),
        events=recorder.events,
        sent=recorder.sent,
        latencies=Latencies(*np.unique(latencies, return_counts=True)),
        hops_sum=int(hops.sum()),
        hops_max=int(hops.max(initial=0)),
        bytes_sum=int(bytes_out.sum()),
        bytes_max=int(bytes_out.max()),
        eligible=eligible,
        reached=reached,
        trace_hash=recorder.trace_hash,
    )


def _uplink_share(plan: Plan, figures: Figures, end_us: Micros) -> dict[str, float | None]:
    bits = plan.scenario.links.uplink_bits_per_s * end_us / 1_000_000
    sent_bytes = {"mean": figures.bytes_sum / plan.scenario.network.nodes, "max": figures.bytes_max}
    return {name: round(count * 8 / bits, 6) if bits else None for name, count in sent_bytes.items()}


def _histogram(latencies: Latencies) -> tuple[tuple[int, int], ...]:
    """Return the upper bound in ms and the number of deliveries of each bin, for up to ten bins of a round width."""
    if not len(latencies.counts):
        return ()
    longest_ms = int(latencies.microseconds[-1]) // 1000 + 1
    width = next(
        step for step in _ROUND_WIDTHS_MS if step * HISTOGRAM_BINS >= longest_ms or step == _ROUND_WIDTHS_MS[-1]
    )
    bins = np.zeros(longest_ms // width + 1, dtype=np.int64)
    np.add.at(bins, latencies.microseconds // 1000 // width, latencies.counts)
    last = int(np.flatnonzero(bins)[-1])
    return tuple(((number + 1) * width, int(count)) for number, count in enumerate(bins[: last + 1]))


def _latency_ms(latencies: Latencies) -> dict[str, float | None]:
    if not len(latencies.counts):
        return dict.fromkeys(LATENCY_PERCENTS)
    upto = np.cumsum(latencies.counts)
    return {
        name: round(_percentile(latencies, upto, percent) / 1000, 3) for name, percent in LATENCY_PERCENTS.items()
    }


def _percentile(latencies: Latencies, upto: NDArray[np.int64], percent: int) -> float:
    """Return the same percentile, bit for bit, as `numpy.percentile` would return for all latencies. `upto` has the
    cumulative counts."""
    position = (int(upto[-1]) - 1) * (percent / 100)
    below = int(position)
    share = position - below
    low, high = (
        int(latencies.microseconds[np.searchsorted(upto, min(place, int(upto[-1]) - 1), side="right")])
        for place in (below, below + 1)
    )
    return low + (high - low) * share if share < 0.5 else high - (high - low) * (1 - share)


def _eligible_and_reached(
    plan: Plan, recorder: Recorder, messages: Any, nodes: Any, end_us: Micros
) -> tuple[int, int]:
    """Return the number of eligible nodes, and the number of eligible nodes with a delivery of the message, both
    summed over all messages. `messages` and `nodes` have the message and the node of each delivery."""
    recorder.close_memberships(end_us)
    memberships = np.array(recorder.memberships, dtype=np.int64).reshape(-1, 4)
    by_topic = [memberships[memberships[:, 1] == topic] for topic in range(len(plan.topics))]
    order = np.argsort(messages, kind="stable")
    starts = np.searchsorted(messages[order], np.arange(len(recorder.messages) + 1))
    eligible_total = delivered_total = 0
    for number, info in recorder.messages.items():
        if info.published_us > end_us or number in recorder.refused:
            continue
        until = min(info.published_us + plan.scenario.linger_us, end_us)
        members = by_topic[info.topic]
        eligible = members[(members[:, 2] <= info.published_us) & (members[:, 3] >= until), 0]
        receivers = nodes[order[starts[number] : starts[number + 1]]]
        eligible_total += len(eligible)
        delivered_total += int(np.isin(eligible, receivers).sum())
    return eligible_total, delivered_total
