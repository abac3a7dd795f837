"""Gossipsub after 1.0: scores, promises of gossip, bytes that IDONTWANT saved, peer exchange."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hearsay.pipeline.input.run_facts import scenario_of, thresholds_in
from hearsay.pipeline.output.tables import CONTROL, EXCHANGE, IDONTWANT, PROMISES, SCORES, MetricTable
from hearsay.report import thinning
from hearsay.report.figure import Axis, Figure, Panel, column, numbers, place
from hearsay.report.runs import US_PER_S, Row, Run, View
from hearsay.text.numbers import count, figure, percent, plural, size
from hearsay.trace.folder.arrow_compute import compute

_SCORE, _BELOW = 0, 1
_MEDIAN, _LOWEST, _THRESHOLD = range(3)
_NEAR = 2
"""Factor: a threshold is drawn if the lowest score came this near. A far threshold would flatten the curves."""


def scores_over_time(runs: Sequence[Run]) -> Figure:
    series: list[dict[str, Any]] = []
    notes: list[tuple[View, str]] = []
    for run in runs:
        table = run.read(SCORES)
        totals = table.filter(compute.equal(table.column("part"), "score")).sort_by("time_us")
        if not len(totals):
            continue
        thresholds = thresholds_in(scenario_of(run.folder))
        bounds = {} if thresholds is None else asdict(thresholds)
        note = _at_the_end(totals.slice(len(totals) - 1).to_pylist()[0], bounds)
        rows = totals.take(thinning.evenly(len(totals), thinning.BUCKETS))
        for view in run.views:
            notes.append((view, note))
            series += [{**place(view), **each} for each in _score_lines(rows, run.start_us, bounds)]
    return Figure(
        id="scores",
        title="Scores over time",
        question="How do peers score each other?",
        kind="lines",
        source=SCORES,
        series=series,
        x=Axis("time", "s"),
        panels=[
            Panel(Axis("score of a peer; band from p5 to p95", "number")),
            Panel(Axis("share of the scores below 0", "percent"), 110),
        ],
        measures=["median", "lowest", "threshold"],
        notes=notes,
        wide=True,
    )


def _score_lines(rows: Any, start_us: int, bounds: Mapping[str, float]) -> list[dict[str, Any]]:
    times = numbers((column(rows, "time_us") - start_us) / US_PER_S)
    lowest = column(rows, "lowest")
    middle = {"panel": _SCORE, "measure": _MEDIAN, "x": times, "y": numbers(column(rows, "median"))}
    lines = [
        {**middle, "low": numbers(column(rows, "p5")), "high": numbers(column(rows, "p95"))},
        {"panel": _SCORE, "measure": _LOWEST, "x": times, "y": numbers(lowest)},
        {"panel": _BELOW, "x": times, "y": numbers(column(rows, "below_zero"))},
    ]
    near = sorted({bound for bound in bounds.values() if bound >= _NEAR * lowest.min()})
    return lines + [
        {"panel": _SCORE, "measure": _THRESHOLD, "x": times, "y": numbers([bound] * len(times))} for bound in near
    ]


def _at_the_end(last: Row, bounds: Mapping[str, float]) -> str:
    """Return the shares of scores below thresholds at the end."""
    parts = [f"at the end {percent(last['below_zero'])} of {plural(last['pairs'], 'score')} are below 0"]
    for name, bound in bounds.items():
        parts.append(f"{percent(last[f'below_{name}'])} below {figure(bound)} ({name})")
    return ", ".join(parts)


def promises_over_time(runs: Sequence[Run]) -> Figure:
    names = ("asked", "answered", "broken")
    series, found = _over_time(runs, PROMISES, names)
    broken = {view.run for view, total in found if total["broken"]}
    return Figure(
        id="promises",
        title="Promises of gossip",
        question="Did announced and requested messages arrive?",
        kind="lines",
        source=PROMISES,
        series=[each for each in series if each["run"] in broken],
        x=Axis("time", "s"),
        panels=[Panel(Axis("messages per second", "number"))],
        measures=["requested", "answered", "promise broken"],
        notes=[(view, _promises_in_all(total)) for view, total in found if view.run in broken],
    )


def _promises_in_all(total: Mapping[str, float]) -> str:
    answers = "" if np.isnan(total["answered"]) else f", {count(total['answered'])} answers"
    return f"{plural(int(total['asked']), 'message')} requested{answers}, {count(total['broken'])} promises broken"


def saved_by_idontwant(runs: Sequence[Run]) -> Figure:
    series, found = _over_time(runs, IDONTWANT, ("withheld_bytes", "withdrawn_bytes"))
    return Figure(
        id="idontwant",
        title="Saved by IDONTWANT",
        question="How many bytes were not sent to peers that had the message?",
        kind="lines",
        source=IDONTWANT,
        series=series,
        x=Axis("time", "s"),
        panels=[Panel(Axis("bytes per second that were not sent", "bytes"))],
        measures=["withheld", "withdrawn from the queue"],
        notes=[(view, _saved_in_all(runs[view.run], total)) for view, total in found],
    )


def _saved_in_all(run: Run, total: Mapping[str, float]) -> str:
    copies = int(total["withheld"] + total["withdrawn"])
    saved = total["withheld_bytes"] + total["withdrawn_bytes"]
    sent = compute.sum(run.read(CONTROL, "bytes").column("bytes")).as_py() or 0
    share = f", {percent(saved / (saved + sent))} of what would have been sent" if sent else ""
    return f"{plural(int(total['told']), 'IDONTWANT')} saved {plural(copies, 'copy', 'copies')}, {size(saved)}{share}"


def connected_by_exchange(runs: Sequence[Run]) -> Figure:
    series, found = _over_time(runs, EXCHANGE, ("dials", "connections"))
    return Figure(
        id="exchange",
        title="Peer exchange",
        question="Did peers from PRUNE messages become neighbours?",
        kind="lines",
        source=EXCHANGE,
        series=series,
        x=Axis("time", "s"),
        panels=[Panel(Axis("peers per second", "number"))],
        measures=["dialled after a PRUNE", "connected"],
        notes=[(view, _exchanged_in_all(total)) for view, total in found],
    )


def _exchanged_in_all(total: Mapping[str, float]) -> str:
    words = {"dials": "dial", "connections": "connection", "nodes": "node"}
    dials, connections, nodes = (plural(int(total[name]), word) for name, word in words.items())
    return f"{dials} of peers from PRUNE messages, {connections}, at {nodes}"


def _over_time(
    runs: Sequence[Run], table: MetricTable, names: Sequence[str]
) -> tuple[list[dict[str, Any]], list[tuple[View, dict[str, float]]]]:
    """Return lines of these columns per second, and the sums of all columns, for runs with rows."""
    series: list[dict[str, Any]] = []
    found: list[tuple[View, dict[str, float]]] = []
    for run in runs:
        rows = run.read(table).sort_by("second")
        if not len(rows):
            continue
        total = {name: float(column(rows, name).sum()) for name in table.names[3:]}
        found += [(view, total) for view in run.views]
        times, values = _stretches(rows, names)
        groups = thinning.buckets(times)
        for measure, name in enumerate(names):
            if np.isnan(total[name]):
                continue
            x = numbers(float(times[group][0]) for group in groups)
            y = numbers(float(values[name][group].mean()) for group in groups)
            series += [{**place(view), "panel": 0, "measure": measure, "x": x, "y": y} for view in run.views]
    return series, found


def _stretches(rows: Any, names: Sequence[str]) -> tuple[NDArray[np.float64], dict[str, NDArray[np.float64]]]:
    """Return times and amounts per second; a time without a row has 0."""
    width = rows.column("seconds")[0].as_py()
    places = (column(rows, "second") / width).astype(int)
    places -= places[0]
    times = column(rows, "second")[0] + width * np.arange(places[-1] + 1, dtype=np.float64)
    values = {name: np.zeros(len(times)) for name in names}
    for name in names:
        values[name][places] = column(rows, name) / width
    return times, values
