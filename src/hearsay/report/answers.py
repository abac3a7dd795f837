"""The answers of a report in words: a summary, seven questions for each run and topic, and caveats.

Rules:

* Sentences follow the numbers: no figure is called good or bad. A figure that was not measured has a reason.
* Every answer follows from the tables of its run; only the summary and the answer about scale use several runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan

from hearsay.metrics import shown_in
from hearsay.pipeline.output.tables import DISTURBANCES, MESSAGES, QUALITY, RESILIENCE, STATE
from hearsay.report.html import capitalized
from hearsay.report.runs import US_PER_S, Row, Run, Selection, View, topic_name, total, trouble
from hearsay.text.numbers import SPACE as NBSP
from hearsay.text.numbers import Form, count, figure, milliseconds, percent, plural, seconds, shown, size
from hearsay.trace.folder.arrow_compute import compute

MAX_NAMED = 6
"""Disturbances that the answer describes one by one."""
_MIN_SHARE = 0.01
"""Share of deliveries that were not due from which they can change the 99th percentile."""
_NOTHING_SENT = "the trace has no bytes sent"
_NO_CAVEATS = ("rows", "incomplete")
_CHECKS = {
    "orphan_deliveries": "deliveries of messages whose publication is not in the trace",
    "unpublished_messages": "messages whose publication is not in the trace, so without latency",
    "repeated_deliveries": "repeated deliveries of a message to a node",
    "negative_latencies": "messages with a negative median latency, because clocks differ",
    "ended_without_goodbye": "nodes whose traces stop without a goodbye; they count as down from there",
    "not_due": "deliveries that were not due",
    "unknown_eligible": "messages whose eligible nodes are unknown",
}
_PHASES = ("before", "during", "after")


@dataclass(frozen=True, slots=True)
class Question:
    """A question of the report."""

    word: str
    question: str
    figures: tuple[str, ...]
    """Figures that show more."""
    definition: str
    answer: Callable[[Sequence[Run], View], str]
    of_one_topic: bool = False
    """Over all topics, the answer is that of the topic with the lowest delivery."""


@dataclass(frozen=True, slots=True)
class _DeliveryCounts:
    """Deliveries behind a latency: also those at nodes that joined late or left early, which were not due."""

    away: int
    """Deliveries away from the publisher."""
    not_due: int
    all_due_within_us: int | None
    """Time of the last due delivery; None if one is missing."""

    @property
    def are_more_than_due(self) -> bool:
        return self.not_due > 0 and self.not_due >= _MIN_SHARE * self.away

    @property
    def words(self) -> str:
        return f"over all {count(self.away)} deliveries, also to nodes that joined late or left early"


def _delivery_counts(run: Run, view: View) -> _DeliveryCounts:
    columns = ("topic", "away", "delivered", "eligible", "delivered_eligible", "t100_us")
    rows = view.rows(run.read(MESSAGES, *columns))
    known = rows.filter(compute.is_valid(rows.column("delivered_eligible")))
    not_due = total(known, "delivered") - total(known, "delivered_eligible")
    due = known.filter(compute.greater(known.column("eligible"), 0)).column("t100_us")
    within = compute.max(due).as_py() if len(due) and not due.null_count else None
    return _DeliveryCounts(total(rows, "away"), not_due, within)


def summary(selection: Selection) -> str:
    """Return the result of all runs over all topics, in a few sentences."""
    rows = [(run.label, run.views[0].headline) for run in selection.runs if run.views]
    if not any(row["messages"] for _, row in rows):
        return "No message was published."
    counts = [_delivery_counts(run, run.views[0]) for run in selection.runs if run.views]
    if len(selection.runs) == 1:
        text = _summary_of_one(rows[0][1], counts[0])
    else:
        text = f"{_delivered(rows)} {_ranges(rows, any(each.are_more_than_due for each in counts))}"
    return " ".join(part for part in (text.strip(), _worst_topic(selection)) if part)


def _summary_of_one(row: Row, counts: _DeliveryCounts) -> str:
    if row["delivery_ratio"] is None:
        parts = ["The delivery ratio was not measured"]
    else:
        missing = row["eligible"] - row["delivered"]
        due = f"of the {count(row['eligible'])} due deliveries were made"
        parts = [f"{percent(row['delivery_ratio'])} {due}{f' ({count(missing)} missing)' if missing else ''}"]
    if counts.are_more_than_due and counts.all_due_within_us is not None:
        parts.append(f"all due deliveries within {milliseconds(counts.all_due_within_us / 1000)}")
    if row["latency_p99_ms"] is not None:
        over = f" ({counts.words})" if counts.are_more_than_due else ""
        parts.append(f"99{NBSP}% within {milliseconds(row['latency_p99_ms'])}{over}")
    if row["copies_per_delivery"] is not None:
        copies = figure(row["copies_per_delivery"])
        parts.append(f"with {copies} {'copy' if copies == '1' else 'copies'} per delivery")
    if row["bytes_out_mean"] is not None:
        share = row.get("uplink_share_mean")
        uplink = "" if share is None else f" ({percent(share)} of its uplink)"
        parts.append(f"and {size(row['bytes_out_mean'])} sent per node{uplink}")
    return f"{', '.join(parts)}."


def _delivered(rows: Sequence[tuple[str, Row]]) -> str:
    known = sorted(
        ((row["delivery_ratio"], name) for name, row in rows if row["delivery_ratio"] is not None), reverse=True
    )
    if not known:
        return "The delivery ratio was not measured."
    unknown = len(rows) - len(known)
    rest = f" In {plural(unknown, 'run')} it was not measured." if unknown else ""
    (best, first), (worst, last) = known[0], known[-1]
    runs = plural(len(known), "run")
    if worst == 1:
        return f"{'All ' if not unknown else ''}{runs} delivered every message to every node.{rest}"
    if best == worst:
        return f"Each run made {percent(best)} of the due deliveries.{rest}"
    complete = sum(ratio == 1 for ratio, _ in known)
    if complete:
        least = f"{last} made {percent(worst)} of the due deliveries, the fewest"
        return f"{count(complete)} of {runs} delivered every message to every node; {least}.{rest}"
    return f"From {percent(worst)} ({last}) to {percent(best)} ({first}) of the due deliveries were made.{rest}"


def _ranges(rows: Sequence[tuple[str, Row]], more_than_due: bool) -> str:
    single = "One run each: small differences may be random. Use `hearsay compare` to test them."
    parts: list[str] = []
    for metric in shown_in("verdict"):
        known = sorted((row[metric.column], name) for name, row in rows if row.get(metric.column) is not None)
        if len(known) > 1:
            (least, first), (most, last) = known[0], known[-1]
            low, high = shown(least, metric.form), shown(most, metric.form)
            parts.append(
                f"{metric.title} {low}" if low == high else f"{metric.title} from {low} ({first}) to {high} ({last})"
            )
    if not parts:
        return single
    over = " Latencies include deliveries to nodes that joined late or left early." if more_than_due else ""
    return f"{capitalized('; '.join(parts))}.{over} {single}"


def _worst_topic(selection: Selection) -> str:
    """Name the topic with the lowest delivery, where topics differ."""
    if len(selection.topics) < 2:
        return ""
    by_run = [[row for row in run.headlines if row["delivery_ratio"] is not None] for run in selection.runs]
    rows = [row for own in by_run if len({row["delivery_ratio"] for row in own}) > 1 for row in own]
    if not rows:
        return ""
    worst = min(rows, key=trouble)
    return f"The topic with the lowest delivery is {topic_name(worst)} with {percent(worst['delivery_ratio'])}."


def _reliability(runs: Sequence[Run], view: View) -> str:
    details = [row["detail"] for row in runs[view.run].read(QUALITY).to_pylist() if row["check"] == "not_due"]
    return " ".join([_delivery(runs, view), *map(_sentence, details)])


def _delivery(runs: Sequence[Run], view: View) -> str:
    row = view.headline
    if not row["messages"]:
        return "Not measured: no message was published."
    if row["delivery_ratio"] is None:
        reason = runs[view.run].why_not("delivery")
        return f"Not measured: {reason or 'no node was eligible for any message'}."
    rows = view.rows(runs[view.run].read(MESSAGES, "topic", "eligible", "delivered_eligible"))
    due = total(rows, "eligible")
    missing = due - total(rows.filter(compute.is_valid(rows.column("eligible"))), "delivered_eligible")
    if not due:
        return f"{percent(row['delivery_ratio'])} of the due deliveries were made."
    if not missing:
        return f"{percent(1)}: all of the {plural(due, 'due delivery', 'due deliveries')} were made."
    with_due = rows.filter(compute.greater(rows.column("eligible"), 0))
    short = compute.sum(compute.less(with_due.column("delivered_eligible"), with_due.column("eligible"))).as_py() or 0
    complete = len(with_due) - short
    reached = f"{count(complete)} of" if complete else "none of the"
    return (
        f"{percent(row['delivery_ratio'])}: {count(missing)} of the {count(due)} due deliveries are missing; "
        f"{reached} {plural(len(with_due), 'message')} reached every eligible node."
    )


def _speed(runs: Sequence[Run], view: View) -> str:
    row, run = view.headline, runs[view.run]
    if row["latency_p50_ms"] is None:
        if total(view.rows(run.read(MESSAGES, "topic", "away")), "away"):
            return "Not measured: the trace does not show when the messages that arrived were published."
        return "Not measured: there was no delivery away from a publisher."
    parts = [f"half of the deliveries took at most {milliseconds(row['latency_p50_ms'])}"]
    if row["latency_p99_ms"] is not None:
        parts.append(f"99{NBSP}% at most {milliseconds(row['latency_p99_ms'])}")
    if row["latency_max_ms"] is not None:
        parts.append(f"the slowest {milliseconds(row['latency_max_ms'])}")
    text = _sentence(", ".join(parts))
    counts = _delivery_counts(run, view)
    if counts.are_more_than_due:
        text += f" That is {counts.words}"
        if counts.all_due_within_us is not None:
            text += f"; all due deliveries were made within {milliseconds(counts.all_due_within_us / 1000)}"
        text += "."
    if row["hops_mean"] is None:
        return f"{text} Hops were not measured: {run.why_not('hops') or 'they are not in the trace'}."
    most = "" if row["hops_max"] is None else f", at most {row['hops_max']}"
    hops = figure(row["hops_mean"])
    return f"{text} Copies crossed {hops} {'link' if hops == '1' else 'links'} on average{most}."


def _efficiency(runs: Sequence[Run], view: View) -> str:
    row = view.headline
    if row["copies_per_delivery"] is None:
        copies = "Copies were not measured: there was no delivery away from a publisher."
    else:
        copies = f"{figure(row['copies_per_delivery'])} copies arrived per delivery; 1 is the minimum."
    if row["control_bytes_share"] is None:
        return f"{copies} Control was not measured: {runs[view.run].why_not('bytes_out') or _NOTHING_SENT}."
    return f"{copies} {percent(row['control_bytes_share'])} of the bytes sent were control."


def _resilience(runs: Sequence[Run], view: View) -> str:
    """Describe each disturbance with the delivery ratio before, during and after it; many only together."""
    run = runs[view.run]
    named = {row["disturbance"]: row for row in run.read(DISTURBANCES).to_pylist()}
    found = view.rows(run.read(RESILIENCE)).to_pylist()
    each = {row["disturbance"]: row for row in found if row["disturbance"] is not None}
    together = next((row for row in found if row["disturbance"] is None), None)
    if together is None:
        reason = run.why_not("delivery") or "no message had an eligible node"
        happened = " ".join(_sentence(row["what"]) for row in named.values())
        return f"{happened} The effect on delivery was not measured: {reason}." if happened else (
            f"Not measured: {reason}."
        )  # fmt: skip
    if not together["disturbances"] and not named:
        return "Not tested: nothing disturbed this run."
    if not each or len(each) > MAX_NAMED:
        what = f"{plural(together['disturbances'], 'disturbance')} (nodes that came or went, links that broke)"
        kinds = sorted({row["kind"] for row in named.values()})
        return _phases(f"{what}: {', '.join(kinds)}" if kinds else what, together)
    return " ".join(_phases(named[number]["what"], row) for number, row in sorted(each.items()))


def _phases(what: str, row: Row) -> str:
    """Describe a disturbance, and delivery before, during and after it."""
    what = capitalized(what)
    ratios = {phase: row[f"ratio_{phase}"] for phase in _PHASES}
    known = {phase: ratio for phase, ratio in ratios.items() if ratio is not None and not isnan(ratio)}
    if row["kind"] == "loss":
        return f"{what}: the delivery ratio was {percent(row['ratio_during'])} under it."
    if not known:
        return f"{what}: no message shows the delivery ratio."
    text = f"{what}: the delivery ratio was {', '.join(f'{percent(known[phase])} {phase}' for phase in known)}."
    unknown = [phase for phase in _PHASES if phase not in known]
    if unknown:
        text += f" Not measured {' and '.join(unknown)}: no message with eligible nodes was published then."
    if row["heal_us"] is None:
        return text if "after" in unknown else f"{text} No later message shows delivery as before."
    if row["heal_us"] == 0:
        return f"{text} Delivery was as before at its end."
    return f"{text} It healed {seconds(row['heal_us'] / US_PER_S)} after its end."


def _scale(runs: Sequence[Run], view: View) -> str:
    """Compare the smallest and the largest run of this router and topic."""
    own = view.headline
    nodes = own["nodes"]
    if nodes is None:
        return "Not measured: the number of nodes is unknown."
    peers = sorted(
        (
            other.headline
            for run in runs
            for other in run.views
            if other.place == view.place and other.headline["router"] == own["router"] and other.headline["nodes"]
        ),
        key=lambda row: int(row["nodes"]),
    )
    if not peers or peers[0]["nodes"] == peers[-1]["nodes"]:
        return (
            f"Not measured: all runs have one size ({plural(nodes, 'node')}). "
            "Report runs of the same router with different numbers of nodes together."
        )
    small, large = peers[0], peers[-1]
    changes: list[tuple[str, Form, float | None, float | None]] = [
        (metric.title, metric.form, small[metric.column], large[metric.column]) for metric in shown_in("scale")
    ]
    changes.append(("bytes sent per node and message", "bytes", _bytes_per_message(small), _bytes_per_message(large)))
    parts = [
        f"{title} {shown(before, form)} → {shown(after, form)}"
        for title, form, before, after in changes
        if before is not None and after is not None
    ]
    router = "" if own["router"] is None else f" of {own['router']}"
    grown = f"From {count(small['nodes'])} to {plural(large['nodes'], 'node')} (runs{router})"
    if not parts:
        return f"{grown}: no metric is known for both."
    return f"{grown}: {'; '.join(parts)}. {_other_differences(small, large)}"


def _bytes_per_message(row: Row) -> float | None:
    mean = row["bytes_out_mean"]
    return mean / row["messages"] if mean is not None and row["messages"] else None


def _other_differences(small: Row, large: Row) -> str:
    others: list[str] = []
    if small["messages"] != large["messages"]:
        others.append(f"{count(small['messages'] or 0)} and {plural(large['messages'] or 0, 'message')}")
    if small["seconds"] is not None and large["seconds"] is not None and small["seconds"] != large["seconds"]:
        others.append(f"{figure(small['seconds'])} and {seconds(large['seconds'])}")
    known = f" ({', '.join(others)})" if others else ""
    return f"Other differences between the runs{known} count too."


def _balance(runs: Sequence[Run], view: View) -> str:
    row = view.headline
    if row["bytes_out_mean"] is None:
        return f"Not measured: {runs[view.run].why_not('bytes_out') or _NOTHING_SENT}."
    if row["bytes_out_max_over_mean"] is None and (reason := runs[view.run].why_not("evenness")) is not None:
        return f"The node sent {size(row['bytes_out_mean'])}. The balance was not measured: {reason}."
    text = f"A node sent {size(row['bytes_out_mean'])} on average"
    if row["bytes_out_max_over_mean"] is not None:
        text += f", the busiest {figure(row['bytes_out_max_over_mean'])} times that"
    if row["uplink_share_mean"] is not None:
        most = f", for the busiest {percent(row['uplink_share_max'])}" if row["uplink_share_max"] is not None else ""
        text += f"; that is {percent(row['uplink_share_mean'])} of the capacity of its uplink{most}"
    if row["bytes_out_gini"] is not None:
        text += f". The Gini coefficient is {figure(row['bytes_out_gini'])} (0: all send alike; 1: one sends all)"
    return f"{text}."


def _simplicity(runs: Sequence[Run], view: View) -> str:
    row = view.headline
    if row["state_bytes_mean"] is None:
        return f"Not measured: {runs[view.run].why_not('state') or 'the trace has no rows about the state of nodes'}."
    text = f"A node kept {size(row['state_bytes_mean'])} on average"
    if row["state_bytes_max"] is not None:
        text += f", at most {size(row['state_bytes_max'])}"
    most = compute.max(runs[view.run].read(STATE, "entries_max").column("entries_max")).as_py()
    return f"{text}; at most {count(most)} entries." if most is not None else f"{text}."


QUESTIONS = (
    Question("Reliability", "Does every message arrive?", ("latency-over-time", "churn"), "headline", _reliability),
    Question("Speed", "How fast?", ("latency", "latency-over-time"), "latency", _speed),
    Question("Efficiency", "At what cost?", ("copies", "control"), "messages", _efficiency),
    Question("Resilience", "What if nodes fail?", ("churn",), "resilience", _resilience, True),
    Question("Scale", "What if the network grows?", ("compared",), "headline", _scale),
    Question("Load balance", "Do all nodes send alike?", ("load",), "balance", _balance),
    Question("Memory per node", "How much does a node keep?", ("state",), "state", _simplicity),
)


def caveats(run: Run, checks: Sequence[Row]) -> list[str]:
    """Return what limits the figures of a run."""
    warnings: list[str] = []
    if any(row["complete"] is False for row in run.headlines):
        details = [row["detail"] for row in checks if row["check"] == "incomplete"]
        ended = "was interrupted" if details in ([], [None]) else f"is {details[0]}"
        warnings.append(f"the run {ended}, so the figures end there.")
    if damaged := run.damaged_files:
        more = f", and {plural(len(damaged) - 1, 'other file')}" if len(damaged) > 1 else ""
        warnings.append(f"the trace differs from its manifest: {damaged[0]}{more}.")
    for row in checks:
        check = str(row["check"])
        if check not in _NO_CAVEATS and not check.startswith("drop_"):
            warnings.append(f"{_CHECKS.get(check, check)}: {count(row['rows'])}. {row['detail'] or ''}".strip())
    return warnings


def _sentence(text: str) -> str:
    return f"{capitalized(text)}."
