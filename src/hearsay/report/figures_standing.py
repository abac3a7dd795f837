"""Gossipsub after 1.0: scores, promises of gossip, bytes that IDONTWANT saved, peer exchange."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hearsay.pipeline.input.run_facts import scenario_of, thresholds_in
from hearsay.pipeline.output.tables import TABLES
from hearsay.report import thinning
from hearsay.report.figure import Axis, Figure, Panel
from hearsay.report.runs import US_PER_S, Row, Run, View, column
from hearsay.text.numbers import count, figure, percent, plural
from hearsay.trace.folder.arrow_compute import compute

_SCORE, _BELOW = 0, 1
_MEDIAN, _LOWEST, _THRESHOLD = range(3)
_NEAR = 2
"""Factor: a threshold is drawn if the lowest score came this near. A far threshold would flatten the curves."""


def scores_over_time(runs: Sequence[Run]) -> Figure:
    figure = Figure(
        id="scores",
        title="Scores over time",
        question="How do peers score each other?",
        kind="lines",
        source="scores",
        x=Axis("time", "s"),
        panels=[
            Panel(Axis("score of a peer; band from p5 to p95", "number")),
            Panel(Axis("share of the scores below 0", "percent"), 110),
        ],
        measures=["median", "lowest", "threshold"],
        wide=True,
    )
    for run in runs:
        table = run.read("scores")
        totals = table.filter(compute.equal(table.column("part"), "score")).sort_by("time_us")
        if not len(totals):
            continue
        thresholds = thresholds_in(scenario_of(run.folder))
        bounds = {} if thresholds is None else asdict(thresholds)
        note = _at_the_end(totals.slice(len(totals) - 1).to_pylist()[0], bounds)
        rows = totals.take(thinning.evenly(len(totals), thinning.BUCKETS))
        for view in run.views:
            figure.note(view, note)
            _add_scores(figure, view, rows, run.start_us, bounds)
    return figure


def _add_scores(figure: Figure, view: View, rows: Any, start_us: int, bounds: Mapping[str, float]) -> None:
    times = (column(rows, "time_us") - start_us) / US_PER_S
    median, lowest, low, high = (column(rows, name) for name in ("median", "lowest", "p5", "p95"))
    figure.add(view, panel=_SCORE, measure=_MEDIAN, x=times, y=median, low=low, high=high)
    figure.add(view, panel=_SCORE, measure=_LOWEST, x=times, y=lowest)
    figure.add(view, panel=_BELOW, x=times, y=column(rows, "below_zero"))
    for bound in sorted({bound for bound in bounds.values() if bound >= _NEAR * lowest.min()}):
        figure.add(view, panel=_SCORE, measure=_THRESHOLD, x=times, y=[bound] * len(times))


def _at_the_end(last: Row, bounds: Mapping[str, float]) -> str:
    """Return the shares of scores below thresholds at the end."""
    parts = [f"at the end {percent(last['below_zero'])} of {plural(last['pairs'], 'score')} are below 0"]
    for name, bound in bounds.items():
        parts.append(f"{percent(last[f'below_{name}'])} below {figure(bound)} ({name})")
    return ", ".join(parts)


def promises_over_time(runs: Sequence[Run]) -> Figure:
    figure = _of_times("promises", "Promises of gossip", "Did announced and requested messages arrive?",
                       Axis("messages per second", "number"), "requested", "answered", "promise broken")  # fmt: skip
    return _over_time(figure, runs, ("asked", "answered", "broken"), needed="broken")


def saved_by_idontwant(runs: Sequence[Run]) -> Figure:
    question, axis = (
        "How many bytes were not sent to peers that had the message?",
        "bytes per second that were not sent",
    )
    figure = _of_times("idontwant", "Saved by IDONTWANT", question, Axis(axis, "bytes"), "withheld",
                       "withdrawn from the queue")  # fmt: skip
    return _over_time(figure, runs, ("withheld_bytes", "withdrawn_bytes"))


def connected_by_exchange(runs: Sequence[Run]) -> Figure:
    figure = _of_times("exchange", "Peer exchange", "Did peers from PRUNE messages become neighbours?",
                       Axis("peers per second", "number"), "dialled after a PRUNE", "connected")  # fmt: skip
    return _over_time(figure, runs, ("dials", "connections"))


def _of_times(table: str, title: str, question: str, y: Axis, *measures: str) -> Figure:
    """Return a figure of amounts over time, which has no lines yet; its id is the name of the table."""
    return Figure(id=table, title=title, question=question, kind="lines", source=table, x=Axis("time", "s"),
                  panels=[Panel(y)], measures=measures)  # fmt: skip


def _in_all(total: Mapping[str, float]) -> str:
    """Return the sums of columns that were measured."""
    known = [f"{name} {count(value)}" for name, value in total.items() if not np.isnan(value)]
    return f"in all: {', '.join(known)}"


def _over_time(figure: Figure, runs: Sequence[Run], names: Sequence[str], needed: str = "") -> Figure:
    """Add lines of these columns per second, and the sums of all columns, for runs in which `needed` is not 0."""
    for run in runs:
        rows = run.read(figure.source).sort_by("second")
        total = {name: float(column(rows, name).sum()) for name in TABLES[figure.source].names[3:]}
        if not len(rows) or (needed and not total[needed]):
            continue
        times, values = _stretches(rows, names)
        groups = thinning.buckets(times)
        x = [float(times[group][0]) for group in groups]
        for view in run.views:
            figure.note(view, _in_all(total))
            for measure, name in enumerate(names):
                if not np.isnan(total[name]):
                    y = [float(values[name][group].mean()) for group in groups]
                    figure.add(view, measure=measure, x=x, y=y)
    return figure


def _stretches(rows: Any, names: Sequence[str]) -> tuple[NDArray[np.float64], dict[str, NDArray[np.float64]]]:
    """Return times and amounts per second. A time without a row has amount 0."""
    width = rows.column("seconds")[0].as_py()
    places = (column(rows, "second") / width).astype(int)
    places -= places[0]
    times = column(rows, "second")[0] + width * np.arange(places[-1] + 1, dtype=np.float64)
    values = {name: np.zeros(len(times)) for name in names}
    for name in names:
        values[name][places] = column(rows, name) / width
    return times, values
