"""The charts of tunings as SVG: the cost of each step of a bound, and the course of the search."""

from __future__ import annotations

from collections.abc import Sequence

from hearsay.metrics import Metric
from hearsay.report import svg
from hearsay.report.html import Html
from hearsay.report.scales import scale_of_values
from hearsay.report.study_charts import mean_words
from hearsay.studies.budgets import Budget
from hearsay.studies.statistics import Mean, mean_of
from hearsay.studies.tables import values_at
from hearsay.studies.tuning.answer import steps_words
from hearsay.studies.tuning.effects import Spot
from hearsay.studies.tuning.optimiser import Ended
from hearsay.studies.tuning.search import Searched, Tried

ON_FRONT, START, BEST, OTHER = 0, 1, 2, 7
ENDINGS = {Ended.FINISHED: 0, Ended.BREAKS: 1, Ended.BEATEN: 7, Ended.OUT_OF_RUNS: 4}
"""Colours of points of a tuning by their ends; other points have no value."""
FRONT_ENTRIES = {ON_FRONT: "on the front", OTHER: "other points", START: "start", BEST: "best"}
ENDED_ENTRIES = {number: str(ended) for ended, number in ENDINGS.items()}


def tuned_front(searched: Searched, bound: Budget, spots: Sequence[Spot]) -> Html:
    """Draw the aim of a tuning against a bounded metric; the dashed line is the bound."""
    aim, bounded = searched.tuning.aim, bound.figure
    start_x, start_y = (_at_start(searched, metric) for metric in (bounded, aim))
    ends = [end for end in (bound.at_least, bound.at_most) if end is not None]
    x_values = [spot.bounded.mean for spot in spots] + ([] if start_x is None else [start_x.mean]) + ends
    y_values = [spot.aim.mean for spot in spots] + ([] if start_y is None else [start_y.mean])
    x, y = scale_of_values(x_values, bounded.form), scale_of_values(y_values, aim.form)
    plot = svg.Plot(x, y, 560, 340, aim.title, bounded.title)
    plot.add(*(svg.coloured(START, plot.upright(end, "bound")) for end in ends))
    members = sorted((spot for spot in spots if spot.on_front), key=lambda spot: spot.bounded.mean)
    front = svg.polyline([plot.place(spot.bounded.mean, spot.aim.mean) for spot in members], "front")
    plot.add(svg.coloured(ON_FRONT, front))
    for spot in sorted(spots, key=lambda spot: spot.on_front):
        number = BEST if spot.tried is searched.best else ON_FRONT if spot.on_front else OTHER
        words = f"{_value(spot.bounded, bounded)}, {_value(spot.aim, aim)}"
        place = plot.place(spot.bounded.mean, spot.aim.mean)
        plot.add(_tried(searched, spot.tried, number, place, words, hollow=number == OTHER))
    if start_x is not None and start_y is not None:
        plot.add(svg.coloured(START, svg.mark(START, plot.place(start_x.mean, start_y.mean), "start")))
    return plot.svg(f"{aim.title} against {bounded.title}")


def search_picture(searched: Searched) -> Html | None:
    """Draw the aim of each point in the order of the search, and the best so far; None without a measured point."""
    aim = searched.tuning.aim
    measured: list[tuple[int, Tried, Ended, Mean]] = []
    for number, each in enumerate(searched.tried, 1):
        mean, ended = mean_of(values_at(each.point, searched.results, aim.name)), each.ended
        if mean is not None and ended is not None and ended in ENDINGS:
            measured.append((number, each, ended, mean))
    if not measured:
        return None
    x = scale_of_values([0.0, float(len(searched.tried))], "count")
    y = scale_of_values([mean.mean for *_, mean in measured], aim.form)
    plot = svg.Plot(x, y, 560, 340, aim.title, "points in the order of the search")
    keeping = {each.steps for each in searched.keeping}
    stairs = _best_so_far(searched, [(number, mean.mean) for number, each, _, mean in measured
                                     if each.steps in keeping])  # fmt: skip
    plot.add(svg.coloured(BEST, svg.polyline([plot.place(*step) for step in stairs], "front")))
    for number, each, ended, mean in measured:
        colour = ENDINGS[ended]
        hollow = each.steps not in keeping or colour == OTHER
        words = f"{_value(mean, aim)}, {ended}"
        plot.add(_tried(searched, each, colour, plot.place(number, mean.mean), words, hollow=hollow))
    return plot.svg(f"{aim.title}, point by point")


def _tried(searched: Searched, tried: Tried, number: int, place: svg.Point, words: str, *, hollow: bool) -> Html:
    return svg.coloured(number, svg.mark(number, place, f"{steps_words(searched, tried)}: {words}", hollow=hollow))


def _value(mean: Mean, metric: Metric) -> str:
    return f"{metric.title} {mean_words(mean, metric)}"


def _at_start(searched: Searched, metric: Metric) -> Mean | None:
    return mean_of(values_at(searched.start, searched.results, metric.name))


def _best_so_far(searched: Searched, values: Sequence[tuple[int, float]]) -> list[tuple[float, float]]:
    """Return the steps of the best value so far, to the end of the search."""
    better = searched.tuning.better
    steps: list[tuple[float, float]] = []
    best: float | None = None
    for number, value in values:
        if best is None or better(value) < better(best):
            steps += [(number, step) for step in ((value,) if best is None else (best, value))]
            best = value
    return steps if best is None else [*steps, (len(searched.tried), best)]
