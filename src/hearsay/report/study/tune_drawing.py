"""Pictures of a search: what each step of a bound costs, and how the search came to its best."""

from __future__ import annotations

from collections.abc import Sequence

from hearsay.metrics import Metric
from hearsay.report.markup import Html
from hearsay.report.study import drawing
from hearsay.report.study.multiples import mean_words
from hearsay.report.study.scales import scale_of_values
from hearsay.studies.budgets import Budget
from hearsay.studies.statistics import Mean, mean_of
from hearsay.studies.tables import values_at
from hearsay.studies.tuning.answer import steps_words
from hearsay.studies.tuning.front import Spot
from hearsay.studies.tuning.race import Ended
from hearsay.studies.tuning.search import Searched, Tried

WIDTH, HEIGHT = 560, 340
ON_FRONT, START, BEST, OTHER = 0, 1, 2, 7
ENDINGS = {Ended.FINISHED: 0, Ended.BREAKS: 1, Ended.BEATEN: 7, Ended.OUT_OF_RUNS: 4}
"""The colour and mark of points by how they ended; others have no figure to draw."""
FRONT_ENTRIES = {ON_FRONT: "on the front", OTHER: "other points", START: "as it is", BEST: "best"}
ENDED_ENTRIES = {number: str(ended) for ended, number in ENDINGS.items()}


def front_picture(searched: Searched, bound: Budget, spots: Sequence[Spot]) -> Html:
    """The aim against a bounded figure; the dashed upright is the bound."""
    tuning = searched.tuning
    start_x, start_y = (_at_start(searched, figure) for figure in (bound.figure, tuning.aim))
    ends = [end for end in (bound.at_least, bound.at_most) if end is not None]
    known = [spot.bounded.mean for spot in spots] + [mean.mean for mean in (start_x,) if mean is not None]
    x = scale_of_values([*known, *ends], bound.figure.form)
    y = scale_of_values(
        [spot.aim.mean for spot in spots] + ([] if start_y is None else [start_y.mean]), tuning.aim.form
    )
    plot = drawing.Plot(x, y, WIDTH, HEIGHT, tuning.aim.title, bound.figure.title)
    for end in ends:
        plot.add(drawing.coloured(START, plot.upright(end, "bound")))
    members = sorted((spot for spot in spots if spot.on_front), key=lambda spot: spot.bounded.mean)
    line = drawing.polyline([plot.place(spot.bounded.mean, spot.aim.mean) for spot in members], "front")
    plot.add(drawing.coloured(ON_FRONT, line))
    for spot in sorted(spots, key=lambda spot: spot.on_front):
        number = ON_FRONT if spot.on_front else OTHER
        if spot.tried is searched.best:
            number = BEST
        words = f"{_words(spot.bounded, bound.figure)}, {_words(spot.aim, tuning.aim)}"
        plot.add(_mark(searched, spot.tried, number, plot.place(spot.bounded.mean, spot.aim.mean), words))
    if start_x is not None and start_y is not None:
        place = plot.place(start_x.mean, start_y.mean)
        plot.add(drawing.coloured(START, drawing.mark(START, *place, "as it is")))
    return plot.svg(f"{tuning.aim.title} against {bound.figure.title}")


def search_picture(searched: Searched) -> Html | None:
    """The aim of each point in the order they were tried, and the best so far; None if nothing was measured."""
    tuning = searched.tuning
    measured: list[tuple[int, Tried, Mean]] = []
    for number, each in enumerate(searched.tried, 1):
        mean = mean_of(values_at(each.point, searched.results, tuning.aim.name))
        if mean is not None and each.ended in ENDINGS:
            measured.append((number, each, mean))
    if not measured:
        return None
    x = scale_of_values([0.0, float(len(searched.tried))], "count")
    y = scale_of_values([mean.mean for *_, mean in measured], tuning.aim.form)
    plot = drawing.Plot(x, y, WIDTH, HEIGHT, tuning.aim.title, "points in the order they were tried")
    keeping = {each.steps for each in searched.keeping}
    best = [(number, mean.mean) for number, each, mean in measured if each.steps in keeping]
    plot.add(drawing.coloured(BEST, drawing.polyline(_stairs(searched, plot, best), "front")))
    for number, each, mean in measured:
        assert each.ended is not None
        place = plot.place(number, mean.mean)
        words = f"{_words(mean, tuning.aim)}, {each.ended}"
        plot.add(_mark(searched, each, ENDINGS[each.ended], place, words, hollow=each.steps not in keeping))
    return plot.svg(f"{tuning.aim.title}, point by point")


def _mark(
    searched: Searched, tried: Tried, number: int, place: tuple[float, float], words: str, *, hollow: bool = False
) -> Html:
    title = f"{steps_words(searched, tried)}: {words}"
    return drawing.coloured(number, drawing.mark(number, *place, title, hollow=hollow or number == OTHER))


def _words(mean: Mean, figure: Metric) -> str:
    return f"{figure.title} {mean_words(mean, figure)}"


def _at_start(searched: Searched, figure: Metric) -> Mean | None:
    return mean_of(values_at(searched.start, searched.results, figure.name))


def _stairs(
    searched: Searched, plot: drawing.Plot, keeping: Sequence[tuple[int, float]]
) -> list[tuple[float, float]]:
    """The best so far of points that keep the bounds, to the end of the search."""
    better = searched.tuning.better
    places: list[tuple[float, float]] = []
    best: float | None = None
    for number, value in keeping:
        if best is None or better(value) < better(best):
            places += [plot.place(number, step) for step in ((value,) if best is None else (best, value))]
            best = value
    return places if best is None else [*places, plot.place(len(searched.tried), best)]
