"""The seven questions and their answers in plain words.

Rules:

* Words follow the numbers: no figure is called good or bad. What was not measured is said so, with the reason.
* Every sentence stands on the result tables of its run; only the question of scale looks at several runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

from hearsay.pipeline.output.tables import DISTURBANCES, MESSAGES, QUALITY, RESILIENCE, STATE
from hearsay.report.delivery_counts import delivery_counts
from hearsay.report.run import US_PER_S, Row, Run, View
from hearsay.report.scale import scale
from hearsay.text.numbers import count, figure, milliseconds, percent, plural, seconds, size
from hearsay.trace.folder.arrow_compute import compute


@dataclass(frozen=True, slots=True)
class Question:
    word: str
    question: str
    figures: tuple[str, ...]
    """The figures that show more."""
    definition: str
    answer: Callable[[Sequence[Run], View], str]
    of_one_topic: bool = False
    """Over all topics it is answered for the one in most trouble."""


def _reliability(runs: Sequence[Run], view: View) -> str:
    few = [row["detail"] for row in runs[view.run].read(QUALITY).to_pylist() if row["check"] == "not_due"]
    return _in_a_row([_delivery(runs, view), *(_sentence(detail) for detail in few)])


def _delivery(runs: Sequence[Run], view: View) -> str:
    row = view.headline
    if not row["messages"]:
        return "Not measured: no message was published."
    if row["delivery_ratio"] is None and (reason := runs[view.run].why_not("delivery")) is not None:
        return f"Not measured: {reason}."
    if row["delivery_ratio"] is None:
        return f"Not measured: for none of the {plural(row['messages'], 'message')} was any node eligible."
    rows = view.rows(runs[view.run].read(MESSAGES, "topic", "eligible", "delivered_eligible"))
    eligible, made = rows.column("eligible"), rows.column("delivered_eligible")
    due, missing = _total(eligible), _total(compute.subtract(eligible, made))
    if not due:
        return f"{percent(row['delivery_ratio'])} of the deliveries due were made."
    if not missing:
        return f"{percent(1)}: all of the {plural(due, 'delivery', 'deliveries')} due were made."
    judged = rows.filter(compute.greater(eligible, 0))
    short = _total(compute.less(judged.column("delivered_eligible"), judged.column("eligible")))
    whole = len(judged) - short
    reached = f"{count(whole)} of" if whole else "none of the"
    return (
        f"{percent(row['delivery_ratio'])}: {count(missing)} of the {count(due)} deliveries due are missing; "
        f"{reached} {plural(len(judged), 'message')} reached every eligible node."
    )


def _speed(runs: Sequence[Run], view: View) -> str:
    row = view.headline
    run = runs[view.run]
    if row["latency_p50_ms"] is None:
        away = _total(view.rows(run.read(MESSAGES, "topic", "away")).column("away"))
        if away:
            return "Not measured: the trace does not tell when the messages that arrived were published."
        return "Not measured: there was no delivery away from a publisher."
    parts = [f"half of the deliveries took at most {milliseconds(row['latency_p50_ms'])}"]
    if row["latency_p99_ms"] is not None:
        parts.append(f"99 of 100 at most {milliseconds(row['latency_p99_ms'])}")
    if row["latency_max_ms"] is not None:
        parts.append(f"the slowest {milliseconds(row['latency_max_ms'])}")
    text = _sentence(", ".join(parts))
    counted = delivery_counts(run, view)
    if counted.notably_more_than_due:
        text += f" That is {counted.words}"
        if counted.all_due_within_us is not None:
            text += f"; all that were due were made within {milliseconds(counted.all_due_within_us / 1000)}"
        text += "."
    if row["hops_mean"] is None:
        return f"{text} Hops were not measured: {run.why_not('hops') or 'the trace does not tell them'}."
    most = "" if row["hops_max"] is None else f", at most {row['hops_max']}"
    crossed = figure(row["hops_mean"])
    return f"{text} Copies crossed {crossed} {'link' if crossed == '1' else 'links'} on average{most}."


def _efficiency(runs: Sequence[Run], view: View) -> str:
    row = view.headline
    if row["copies_per_delivery"] is None:
        copies = "Copies were not measured: there was no delivery away from a publisher."
    else:
        copies = f"{figure(row['copies_per_delivery'])} copies arrived per delivery; 1 is the least possible."
    if row["control_bytes_share"] is None:
        return f"{copies} Control was not measured: {runs[view.run].why_not('bytes_out') or _NOTHING_SENT}."
    return f"{copies} {percent(row['control_bytes_share'])} of the bytes sent were control."


def _resilience(runs: Sequence[Run], view: View) -> str:
    """Each disturbance with the delivery ratio before, during and after it; many of them only together."""
    run = runs[view.run]
    named = {row["disturbance"]: row for row in run.read(DISTURBANCES).to_pylist()}
    found = view.rows(run.read(RESILIENCE)).to_pylist()
    each = {row["disturbance"]: row for row in found if row["disturbance"] is not None}
    together = next((row for row in found if row["disturbance"] is None), None)
    if together is None:
        reason = run.why_not("delivery") or "there is no message that any node was due"
        said = _in_a_row([_sentence(row["what"]) for row in named.values()])
        return f"{said} Not measured what it did to delivery: {reason}." if said else f"Not measured: {reason}."
    if not together["disturbances"] and not named:
        return "Not put to the test: nothing disturbed this run."
    if not each or len(each) > MOST_NAMED:
        what = f"{plural(together['disturbances'], 'disturbance')} (nodes that came or went, links that broke)"
        kinds = sorted({row["kind"] for row in named.values()})
        return _phases(f"{what}: {', '.join(kinds)}" if kinds else what, together)
    return _in_a_row([_phases(named[number]["what"], row) for number, row in sorted(each.items())])


def _phases(what: str, row: Row) -> str:
    """What happened, and delivery before, during and after it."""
    times = ("before", "during", "after")
    told = [(time, row[f"ratio_{time}"]) for time in times]
    ratios = ", ".join(f"{percent(ratio)} {time}" for time, ratio in told if ratio is not None and not isnan(ratio))
    if row["kind"] == "loss":
        return f"{_capital(what)}: the delivery ratio was {percent(row['ratio_during'])} under it."
    if not ratios:
        return f"{_capital(what)}: no message tells the delivery ratio."
    text = f"{_capital(what)}: the delivery ratio was {ratios}."
    untold = [time for time, ratio in told if ratio is None or isnan(ratio)]
    if untold:
        text += f" Not measured {' and '.join(untold)}: no message with eligible nodes was published then."
    if row["heal_us"] is None and "after" in untold:
        return text
    if row["heal_us"] is None:
        return f"{text} It was not seen to heal: no later message shows delivery as before."
    if row["heal_us"] == 0:
        return f"{text} Nothing was left to heal at the end of it."
    return f"{text} It healed {seconds(row['heal_us'] / US_PER_S)} after the end of it."


def _balance(runs: Sequence[Run], view: View) -> str:
    row = view.headline
    if row["bytes_out_mean"] is None:
        return f"Not measured: {runs[view.run].why_not('bytes_out') or _NOTHING_SENT}."
    if row["bytes_out_max_over_mean"] is None and (reason := runs[view.run].why_not("evenness")) is not None:
        return f"The node sent {size(row['bytes_out_mean'])}. Not measured whether all carry alike: {reason}."
    text = f"A node sent {size(row['bytes_out_mean'])} on average"
    if row["bytes_out_max_over_mean"] is not None:
        text += f", the busiest {figure(row['bytes_out_max_over_mean'])} times that"
    if row["uplink_share_mean"] is not None:
        most = f", of the busiest {percent(row['uplink_share_max'])}" if row["uplink_share_max"] is not None else ""
        text += f"; that is {percent(row['uplink_share_mean'])} of what its uplink could carry{most}"
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
    Question("Scale", "What if the network grows?", ("compared",), "headline", scale),
    Question("Load balance", "Do all carry alike?", ("load",), "balance", _balance),
    Question("Simplicity", "How much must a node keep?", ("state",), "state", _simplicity),
)


def caveats(run: Run, found: Sequence[Row]) -> list[str]:
    """What a reader must know before believing the figures."""
    warnings: list[str] = []
    if any(row["complete"] is False for row in run.headlines):
        details = [row["detail"] for row in found if row["check"] == "incomplete"]
        ended = "was interrupted" if details in ([], [None]) else f"is {details[0]}"
        warnings.append(f"the run {ended}, and the figures reach up to there.")
    if damaged := run.damaged_files:
        more = f", and {plural(len(damaged) - 1, 'other file')}" if len(damaged) > 1 else ""
        warnings.append(f"the trace is no longer what its manifest says: {damaged[0]}{more}.")
    for row in found:
        check = str(row["check"])
        if check not in _NO_CAVEATS and not check.startswith("drop_"):
            warnings.append(f"{_CHECKS.get(check, check)}: {count(row['rows'])}. {row['detail'] or ''}".strip())
    return warnings


MOST_NAMED = 6
"""Disturbances that the answer tells one by one."""
_NOTHING_SENT = "the trace has no bytes sent"
_NO_CAVEATS = ("rows", "incomplete")
_CHECKS = {
    "orphan_deliveries": "deliveries of messages whose publication is not in the trace",
    "unpublished_messages": "messages whose publication is not in the trace, so without latency",
    "repeated_deliveries": "deliveries of a message to a node that had it already",
    "negative_latencies": "messages whose median latency is negative, because clocks disagree",
    "ended_without_goodbye": "nodes whose traces stop without a goodbye, and that count as down from there",
    "not_due": "deliveries on which the verdict does not rest",
    "unknown_eligible": "messages of which nobody knows who was eligible",
}


def _total(values: Any) -> int:
    return int(compute.sum(values).as_py() or 0)


def _sentence(text: str) -> str:
    return f"{_capital(text)}."


def _capital(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


def _in_a_row(sentences: Sequence[str]) -> str:
    return " ".join(sentences)
