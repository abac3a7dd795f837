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

from hearsay.pipeline.tables import MESSAGES, RESILIENCE, STATE
from hearsay.report.numbers import count, figure, milliseconds, percent, plural, seconds, size
from hearsay.report.run import US_PER_S, Row, Run, View
from hearsay.report.scale import scale
from hearsay.trace.arrow import compute


@dataclass(frozen=True, slots=True)
class Question:
    word: str
    question: str
    figures: tuple[str, ...]
    """The figures that show more."""
    definition: str
    answer: Callable[[Sequence[Run], View], str]


def _reliability(runs: Sequence[Run], view: View) -> str:
    row = view.headline
    if not row["messages"]:
        return "Not measured: no message was published."
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


def _speed(_runs: Sequence[Run], view: View) -> str:
    row = view.headline
    if row["latency_p50_ms"] is None:
        return "Not measured: there was no delivery away from a publisher."
    parts = [f"half of the deliveries took at most {milliseconds(row['latency_p50_ms'])}"]
    if row["latency_p99_ms"] is not None:
        parts.append(f"99 of 100 at most {milliseconds(row['latency_p99_ms'])}")
    if row["latency_max_ms"] is not None:
        parts.append(f"the slowest {milliseconds(row['latency_max_ms'])}")
    text = _sentence(", ".join(parts))
    if row["hops_mean"] is None:
        return f"{text} Hops were not measured: the trace does not tell them."
    most = "" if row["hops_max"] is None else f", at most {row['hops_max']}"
    return f"{text} Copies crossed {figure(row['hops_mean'])} links on average{most}."


def _efficiency(_runs: Sequence[Run], view: View) -> str:
    row = view.headline
    if row["copies_per_delivery"] is None:
        copies = "Copies were not measured: there was no delivery away from a publisher."
    else:
        copies = f"{figure(row['copies_per_delivery'])} copies arrived per delivery; 1 is the least possible."
    if row["control_bytes_share"] is None:
        return f"{copies} Control was not measured: the trace has no bytes sent."
    return f"{copies} {percent(row['control_bytes_share'])} of the bytes sent were control."


def _resilience(runs: Sequence[Run], view: View) -> str:
    found = view.rows(runs[view.run].read(RESILIENCE)).to_pylist()
    if not found or found[0]["disturbances"] is None:
        return "Not measured: the analysis says nothing about disturbances."
    row = found[0]
    if not row["disturbances"]:
        return "Not put to the test: nothing disturbed this run."
    times = ("before", "during", "after")
    told = [(time, row[f"ratio_{time}"]) for time in times]
    ratios = ", ".join(f"{percent(ratio)} {time}" for time, ratio in told if ratio is not None and not isnan(ratio))
    text = f"{plural(row['disturbances'], 'disturbance')} (nodes that came or went)"
    text += f": the delivery ratio was {ratios}." if ratios else ": no message tells the delivery ratio."
    untold = [time for time, ratio in told if ratio is None or isnan(ratio)]
    if ratios and untold:
        text += f" Not measured {' and '.join(untold)}: no message with eligible nodes was published then."
    if row["heal_us"] is None:
        return f"{text} It was not seen to heal: no later message shows delivery as before."
    if row["heal_us"] == 0:
        return f"{text} Nothing was left to heal after the last of them."
    return f"{text} It healed {seconds(row['heal_us'] / US_PER_S)} after the last of them."


def _balance(_runs: Sequence[Run], view: View) -> str:
    row = view.headline
    if row["bytes_out_mean"] is None:
        return "Not measured: the trace has no bytes sent."
    text = f"A node sent {size(row['bytes_out_mean'])} on average"
    if row["bytes_out_max_over_mean"] is not None:
        text += f", the busiest {figure(row['bytes_out_max_over_mean'])} times that"
    if row["bytes_out_gini"] is not None:
        text += f". The Gini coefficient is {figure(row['bytes_out_gini'])} (0: all send alike; 1: one sends all)"
    return f"{text}."


def _simplicity(runs: Sequence[Run], view: View) -> str:
    row = view.headline
    if row["state_bytes_mean"] is None:
        return "Not measured: the trace has no rows about the state of nodes."
    text = f"A node kept {size(row['state_bytes_mean'])} on average"
    if row["state_bytes_max"] is not None:
        text += f", at most {size(row['state_bytes_max'])}"
    most = compute.max(runs[view.run].read(STATE, "entries_max").column("entries_max")).as_py()
    return f"{text}; at most {count(most)} entries." if most is not None else f"{text}."


QUESTIONS = (
    Question("Reliability", "Does every message arrive?", ("latency-over-time", "churn"), "headline", _reliability),
    Question("Speed", "How fast?", ("latency", "latency-over-time"), "latency", _speed),
    Question("Efficiency", "At what cost?", ("copies", "control"), "messages", _efficiency),
    Question("Resilience", "What if nodes fail?", ("churn",), "resilience", _resilience),
    Question("Scale", "What if the network grows?", ("compared",), "headline", scale),
    Question("Load balance", "Do all carry alike?", ("load",), "balance", _balance),
    Question("Simplicity", "How much must a node keep?", ("state",), "state", _simplicity),
)


def caveats(run: Run, found: Sequence[Row]) -> list[str]:
    """What a reader must know before believing the figures."""
    warnings: list[str] = []
    if any(row["complete"] is False for row in run.headlines):
        warnings.append("the run was interrupted, and the figures reach up to there.")
    for row in found:
        check = str(row["check"])
        if check not in _NO_CAVEATS and not check.startswith("drop_"):
            warnings.append(f"{_CHECKS.get(check, check)}: {count(row['rows'])}. {row['detail'] or ''}".strip())
    return warnings


_NO_CAVEATS = ("rows", "incomplete")
_CHECKS = {
    "orphan_deliveries": "deliveries of messages that nobody published",
    "unpublished_messages": "messages without a publication, so without latency",
    "repeated_deliveries": "deliveries of a message to a node that had it already",
    "negative_latencies": "messages whose median latency is negative, because clocks disagree",
    "unknown_eligible": "messages of which nobody knows who was eligible",
}


def _total(values: Any) -> int:
    return int(compute.sum(values).as_py() or 0)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
