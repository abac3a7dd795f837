"""The verdict: what came out, in a line or two, before all answers. Words follow the figures."""

from __future__ import annotations

from collections.abc import Sequence

from hearsay.metrics import shown_in
from hearsay.report.delivery_counts import DeliveryCounts, delivery_counts
from hearsay.report.run import Row, Selection, topic_name, trouble
from hearsay.text.numbers import count, figure, milliseconds, percent, shown, size

_US_PER_MS = 1000
_SINGLE = "These are single runs: what lies close together may be chance, which hearsay compare tells apart."
_MORE_THAN_DUE = "Latencies are over all deliveries, with those to nodes that came later or left soon."


def verdict(selection: Selection) -> str:
    """Over all topics of all runs."""
    rows = [(run.label, run.views[0].headline) for run in selection.runs if run.views]
    if not any(row["messages"] for _, row in rows):
        return "No message was published."
    counted = [delivery_counts(run, run.views[0]) for run in selection.runs if run.views]
    if len(selection.runs) == 1:
        text = _of_one(rows[0][1], counted[0])
    else:
        text = f"{_delivered(rows)} {_ranges(rows, any(each.notably_more_than_due for each in counted))}"
    return " ".join(part for part in (text.strip(), _worst_topic(selection)) if part)


def _of_one(row: Row, counted: DeliveryCounts) -> str:
    if row["delivery_ratio"] is None:
        parts = ["How many of the deliveries due were made was not measured"]
    else:
        missing = row["eligible"] - row["delivered"]
        due = f"of the {count(row['eligible'])} deliveries due"
        parts = [
            f"{percent(row['delivery_ratio'])} {due} were made" + (f" ({count(missing)} missing)" if missing else "")
        ]
    if counted.notably_more_than_due and counted.all_due_within_us is not None:
        parts.append(f"all that were due within {milliseconds(counted.all_due_within_us / _US_PER_MS)}")
    if row["latency_p99_ms"] is not None:
        over = f" ({counted.words})" if counted.notably_more_than_due else ""
        parts.append(f"99 of 100 within {milliseconds(row['latency_p99_ms'])}{over}")
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
        return "How many of the deliveries due were made was not measured."
    unknown = len(rows) - len(known)
    rest = f" Of {count(unknown)} it was not measured." if unknown else ""
    (best, first), (worst, last) = known[0], known[-1]
    if worst == 1:
        return f"Every delivery due was made in {'all' if not unknown else 'the'} {count(len(known))} runs.{rest}"
    if best == worst:
        return f"{percent(best)} of the deliveries due were made in each run.{rest}"
    whole = sum(ratio == 1 for ratio, _ in known)
    if whole:
        least = f"{last} made the fewest, {percent(worst)} of them"
        return f"Every delivery due was made in {count(whole)} of {count(len(known))} runs; {least}.{rest}"
    return f"From {percent(worst)} ({last}) to {percent(best)} ({first}) of the deliveries due were made.{rest}"


def _ranges(rows: Sequence[tuple[str, Row]], more_than_due: bool) -> str:
    told: list[str] = []
    for metric in shown_in("verdict"):
        title, key = metric.title, metric.column
        known = sorted((row[key], name) for name, row in rows if row.get(key) is not None)
        if len(known) > 1:
            (least, first), (most, last) = known[0], known[-1]
            low, high = shown(least, metric.form), shown(most, metric.form)
            told.append(f"{title} {low}" if low == high else f"{title} from {low} ({first}) to {high} ({last})")
    over = f" {_MORE_THAN_DUE}" if more_than_due and told else ""
    return f"{_capital('; '.join(told))}.{over} {_SINGLE}" if told else _SINGLE


def _worst_topic(selection: Selection) -> str:
    """Named where topics fare differently."""
    if len(selection.topics) < 2:
        return ""
    by_run = [[row for row in run.headlines if row["delivery_ratio"] is not None] for run in selection.runs]
    lines = [row for rows in by_run if len({row["delivery_ratio"] for row in rows}) > 1 for row in rows]
    if not lines:
        return ""
    worst = min(lines, key=trouble)
    return f"The topic in most trouble is {topic_name(worst)} with {percent(worst['delivery_ratio'])}."


def _capital(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}"
