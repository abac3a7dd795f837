"""The answers of a report: a line of metrics, seven questions for each run and topic, and caveats.

Rules:

* An answer lists facts, and no figure is called good or bad. A metric that was not measured has the reason.
* Every answer follows from the tables of its run; only the first line and the answer about scale use several runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan

from hearsay.metrics import BY_NAME, shown_in
from hearsay.pipeline.output.tables import DISTURBANCES, MESSAGES, RESILIENCE, STATE
from hearsay.report.html import capitalized
from hearsay.report.runs import US_PER_S, Row, Run, Selection, View, topic_name, total, trouble
from hearsay.text.numbers import count, milliseconds, percent, plural, seconds, shown
from hearsay.trace.folder.arrow_compute import compute

MAX_NAMED = 6
"""Disturbances that the answer lists one by one."""
_MIN_SHARE = 0.01
"""Share of deliveries that were not due from which they can change the 99th percentile."""
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
_MEASURED_AS = {
    "delivery_ratio": "delivery",
    "hops_mean": "hops",
    "control_bytes_share": "bytes_out",
    "bytes_per_node": "bytes_out",
    "load_max_over_mean": "evenness",
    "state_per_node": "state",
}
"""Rows of the table `measured` that explain missing metrics."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question of the report."""

    word: str
    question: str
    figures: tuple[str, ...]
    """Figures that show more."""
    definition: str
    metrics: tuple[str, ...]
    facts: Callable[[Sequence[Run], View], list[str]]
    """Other facts than metrics of the table `headline`."""
    otherwise: str
    """Reason for an answer without facts, if the trace gives none."""
    of_one_topic: bool = False
    """Over all topics, the answer is that of the topic with the lowest delivery."""


def summary(selection: Selection) -> str:
    """Return the main metrics over all topics, as ranges over the runs."""
    rows = [run.views[0].headline for run in selection.runs if run.views]
    if not any(row["messages"] for row in rows):
        return "No message was published."
    parts: list[str] = []
    for metric in shown_in("verdict"):
        known = [row[metric.column] for row in rows if row.get(metric.column) is not None]
        if known:
            low, high = shown(min(known), metric.form), shown(max(known), metric.form)
            parts.append(f"{metric.title} {low if low == high else f'{low} to {high}'}")
    text = f"{capitalized('; '.join(parts)) or 'Nothing was measured'}.{_worst_topic(selection)}"
    if len(rows) > 1:
        text += " One run each: small differences may be random. Use `hearsay compare` to test them."
    return text


def _worst_topic(selection: Selection) -> str:
    """Name the topic with the lowest delivery, where topics differ."""
    by_run = [[row for row in run.headlines if row["delivery_ratio"] is not None] for run in selection.runs]
    rows = [row for own in by_run if len({row["delivery_ratio"] for row in own}) > 1 for row in own]
    if not rows:
        return ""
    worst = min(rows, key=trouble)
    return f" The topic with the lowest delivery is {topic_name(worst)} with {percent(worst['delivery_ratio'])}."


def answer(question: Question, runs: Sequence[Run], view: View) -> str:
    """Return the facts that answer a question, and the metrics that were not measured."""
    run = runs[view.run]
    facts: list[str] = []
    missing: dict[str, list[str]] = {}
    for metric in (BY_NAME[name] for name in question.metrics):
        value = view.headline.get(metric.column)
        reason = run.why_not(_MEASURED_AS.get(metric.name, ""))
        if value is not None:
            facts.append(f"{metric.title} {shown(value, metric.form)}")
        elif reason is not None:
            missing.setdefault(reason, []).append(metric.title)
    facts += question.facts(runs, view)
    facts += [f"{', '.join(titles)} not measured: {reason}" for reason, titles in missing.items()]
    return f"{capitalized('; '.join(facts) or f'not measured: {question.otherwise}')}."


def _due(runs: Sequence[Run], view: View) -> list[str]:
    rows = view.rows(runs[view.run].read(MESSAGES, "topic", "eligible", "delivered_eligible"))
    rows = rows.filter(compute.greater(compute.fill_null(rows.column("eligible"), 0), 0))
    due, missing = total(rows, "eligible"), total(rows, "eligible") - total(rows, "delivered_eligible")
    complete = compute.sum(compute.equal(rows.column("delivered_eligible"), rows.column("eligible"))).as_py() or 0
    messages = plural(len(rows), "message")
    return (
        [f"{count(missing)} of {count(due)} due missing", f"{count(complete)} of {messages} complete"] if due else []
    )


def _not_due(runs: Sequence[Run], view: View) -> list[str]:
    """Return how many deliveries behind the latency were not due, if there are many of them."""
    columns = ("topic", "away", "delivered", "eligible", "delivered_eligible", "t100_us")
    rows = view.rows(runs[view.run].read(MESSAGES, *columns))
    known = rows.filter(compute.is_valid(rows.column("delivered_eligible")))
    not_due, away = total(known, "delivered") - total(known, "delivered_eligible"), total(rows, "away")
    if not_due <= 0 or not_due < _MIN_SHARE * away:
        return []
    due = known.filter(compute.greater(known.column("eligible"), 0)).column("t100_us")
    facts = [f"over {count(away)} deliveries, also to nodes that joined late or left early"]
    if len(due) and not due.null_count:
        facts.append(f"last due delivery {milliseconds(compute.max(due).as_py() / 1000)}")
    return facts


def _resilience(runs: Sequence[Run], view: View) -> list[str]:
    """Return each disturbance with the delivery ratio before, during and after it; many only together."""
    run = runs[view.run]
    named = {row["disturbance"]: row for row in run.read(DISTURBANCES).to_pylist()}
    found = view.rows(run.read(RESILIENCE)).to_pylist()
    each = {row["disturbance"]: row for row in found if row["disturbance"] is not None}
    together = next((row for row in found if row["disturbance"] is None), None)
    if together is None:
        reason = run.why_not("delivery") or "no message had an eligible node"
        return [f"{row['what']}: delivery not measured, {reason}" for row in named.values()]
    if not together["disturbances"] and not named:
        return ["nothing disturbed this run"]
    if not each or len(each) > MAX_NAMED:
        kinds = ", ".join(sorted({row["kind"] for row in named.values()}))
        what = kinds or "nodes that came or went, links that broke"
        return [_phases(f"{plural(together['disturbances'], 'disturbance')} ({what})", together)]
    return [_phases(named[number]["what"], row) for number, row in sorted(each.items())]


def _phases(what: str, row: Row) -> str:
    """Return a disturbance with delivery before, during and after it."""
    ratios = {phase: row[f"ratio_{phase}"] for phase in _PHASES}
    known = {phase: percent(ratio) for phase, ratio in ratios.items() if ratio is not None and not isnan(ratio)}
    text = f"{what}: delivered {', '.join(f'{ratio} {phase}' for phase, ratio in known.items()) or 'not measured'}"
    if row["heal_us"] is not None:
        return f"{text}, healed after {seconds(row['heal_us'] / US_PER_S)}"
    return f"{text}, not healed by the end" if "after" in known and row["kind"] != "loss" else text


def _scale(runs: Sequence[Run], view: View) -> list[str]:
    """Compare the smallest and the largest run of this router and topic."""
    same = (each.headline for run in runs for each in run.views if each.place == view.place)
    rows = [row for row in same if row["router"] == view.headline["router"] and row["nodes"]]
    sized = sorted(rows, key=lambda row: int(row["nodes"]))
    if not sized or sized[0]["nodes"] == sized[-1]["nodes"]:
        return []
    small, large = sized[0], sized[-1]
    return [
        f"{plural(small['nodes'], 'node')} → {count(large['nodes'])}",
        *(
            f"{metric.title} {shown(small[metric.column], metric.form)} → {shown(large[metric.column], metric.form)}"
            for metric in shown_in("scale")
            if small[metric.column] is not None and large[metric.column] is not None
        ),
    ]


def _entries(runs: Sequence[Run], view: View) -> list[str]:
    most = compute.max(runs[view.run].read(STATE, "entries_max").column("entries_max")).as_py()
    return [] if most is None or view.headline["state_bytes_mean"] is None else [f"most entries {count(most)}"]


def _nothing(runs: Sequence[Run], view: View) -> list[str]:
    return []


QUESTIONS = (
    Question("Reliability", "Does every message arrive?", ("latency-over-time", "churn"), "headline",
             ("delivery_ratio",), _due, "no node was eligible for any message"),
    Question("Speed", "How fast?", ("latency", "latency-over-time"), "latency",
             ("latency_p50_ms", "latency_p99_ms", "latency_max_ms", "hops_mean", "hops_max"), _not_due,
             "no delivery away from a publisher has a known time of publication"),
    Question("Efficiency", "At what cost?", ("copies", "control"), "messages",
             ("copies_per_delivery", "control_bytes_share"), _nothing,
             "there was no delivery away from a publisher, and no bytes sent"),
    Question("Resilience", "What if nodes fail?", ("churn",), "resilience", (), _resilience,
             "no message had an eligible node", True),
    Question("Scale", "What if the network grows?", ("compared",), "headline", (), _scale,
             "no runs of this router with different numbers of nodes"),
    Question("Load balance", "Do all nodes send alike?", ("load",), "balance",
             ("bytes_per_node", "load_max_over_mean", "load_gini", "uplink_share", "uplink_share_max"), _nothing,
             "the trace has no bytes sent"),
    Question("Memory per node", "How much does a node keep?", ("state",), "state", ("state_per_node", "state_max"),
             _entries, "the trace has no rows about the state of nodes"),
)  # fmt: skip


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
