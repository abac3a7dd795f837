"""Speed against copies: which choices of the router nothing else beats in both.

Rules:

* A front is drawn for each condition (loss, churn, size, …), because one can only choose among routers.
* A point is on the front if no other of its condition has both fewer copies per delivery and a lower p99 latency.
* Points that deliver clearly less than the best of their condition are drawn hollow and left out: who does not
  deliver needs no copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hearsay.report.markup import Html
from hearsay.report.study import drawing
from hearsay.report.study.multiples import mean_words
from hearsay.report.study.roles import all_steps, at, choices, combinations, where
from hearsay.report.study.scales import scale_of_values
from hearsay.studies.figures import BY_NAME
from hearsay.studies.points import Point
from hearsay.studies.statistics import Mean, mean_of
from hearsay.studies.sweep import Swept
from hearsay.studies.tables import values_at

SLACK = 0.01
"""So much less may be delivered than by the best of the condition."""
MOST_FRONTS = 8
COPIES, SPEED, DELIVERED = "copies_per_delivery", "latency_p99_ms", "delivery_ratio"
WIDTH, HEIGHT = 700, 400


@dataclass(frozen=True, slots=True)
class Spot:
    """A point with its two figures."""

    point: Point
    copies: Mean
    speed: Mean
    delivered: float
    eligible: bool
    on_front: bool


@dataclass(frozen=True, slots=True)
class Front:
    condition: dict[int, int]
    spots: tuple[Spot, ...]

    @property
    def members(self) -> list[Spot]:
        """Those on the front, fewest copies first."""
        return sorted((spot for spot in self.spots if spot.on_front), key=lambda spot: spot.copies.mean)


def fronts(swept: Swept) -> list[Front]:
    """A front for each condition; none if no axis changes the router."""
    study = swept.study
    chosen = choices(study)
    if not chosen:
        return []
    conditions = combinations(study.axes, [number for number in range(len(study.axes)) if number not in chosen])
    found = [Front(condition, tuple(_spots(swept, at(swept.points, condition)))) for condition in conditions]
    return [front for front in found if front.spots]


def drawn_fronts(all_fronts: Sequence[Front]) -> list[Front]:
    """As many as can be told apart, spread over all conditions."""
    if len(all_fronts) <= MOST_FRONTS:
        return list(all_fronts)
    last = len(all_fronts) - 1
    return [all_fronts[number * last // (MOST_FRONTS - 1)] for number in range(MOST_FRONTS)]


def pareto_picture(swept: Swept, drawn: Sequence[Front]) -> Html:
    spots = [spot for front in drawn for spot in front.spots]
    x = scale_of_values([bound for spot in spots for bound in _ends(spot.copies)], "number")
    y = scale_of_values([bound for spot in spots for bound in _ends(spot.speed)], "ms")
    plot = drawing.Plot(x, y, WIDTH, HEIGHT, BY_NAME[SPEED].title, BY_NAME[COPIES].title)
    labels = _Labels(plot)
    for number, front in enumerate(drawn):
        parts = [drawing.polyline([plot.place(s.copies.mean, s.speed.mean) for s in front.members], "front")]
        for spot in front.spots:
            centre = plot.place(spot.copies.mean, spot.speed.mean)
            for low, high in (_across(spot, plot), _along(spot, plot)):
                parts.append(drawing.join_places(low, high, "reach"))
            title = (
                f"{where(swept.study, all_steps(spot.point))}: {mean_words(spot.speed, BY_NAME[SPEED])}, "
                f"{mean_words(spot.copies, BY_NAME[COPIES])} copies, {spot.delivered:.2%} delivered"
            )
            parts.append(drawing.mark(number, *centre, title, hollow=not spot.eligible))
            labels.place(_choice(swept, spot.point, front), *centre)
        plot.add(drawing.coloured(number, *parts))
    labels.draw()
    return plot.svg("p99 latency against copies per delivery")


class _Labels:
    """Words beside marks, where they run into no others."""

    def __init__(self, plot: drawing.Plot) -> None:
        self._plot = plot
        self._marks: list[tuple[str, float, float]] = []

    def place(self, words: str, x: float, y: float) -> None:
        self._marks.append((words, x, y))

    def draw(self) -> None:
        taken = [(x - 5, y - 5, x + 5, y + 5) for _, x, y in self._marks]
        for words, x, y in self._marks:
            wide = drawing.LETTER * 2 * len(words)
            for left, bottom in ((x + 8, y - 4), (x + 8, y + 14), (x - 8 - wide, y - 4), (x - 8 - wide, y + 14)):
                box = (left, bottom - 10, left + wide, bottom + 2)
                fits = left > 0 and left + wide < self._plot.width
                if fits and not any(_overlap(box, other) for other in taken):
                    taken.append(box)
                    self._plot.add(drawing.text(words, left, bottom, class_="label"))
                    break


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _choice(swept: Swept, point: Point, front: Front) -> str:
    """The steps that a point's front leaves open."""
    open_steps = {number: step for number, step in all_steps(point).items() if number not in front.condition}
    return where(swept.study, open_steps)


def _spots(swept: Swept, points: Sequence[Point]) -> list[Spot]:
    measured: list[tuple[Point, Mean, Mean, float]] = []
    for point in points:
        copies, speed, delivered = (
            mean_of(values_at(point, swept.results, name)) for name in (COPIES, SPEED, DELIVERED)
        )
        if copies is not None and speed is not None and delivered is not None:
            measured.append((point, copies, speed, delivered.mean))
    best = max((delivered for *_, delivered in measured), default=0.0)
    running = [(copies.mean, speed.mean) for _, copies, speed, ratio in measured if ratio >= best - SLACK]
    return [
        Spot(point, copies, speed, ratio, ratio >= best - SLACK, ratio >= best - SLACK and not any(
            (c <= copies.mean and s <= speed.mean) and (c < copies.mean or s < speed.mean) for c, s in running
        ))
        for point, copies, speed, ratio in measured
    ]  # fmt: skip


def _ends(mean: Mean) -> tuple[float, float]:
    if mean.low is None or mean.high is None:
        return mean.mean, mean.mean
    return max(0.0, mean.low), mean.high


def _across(spot: Spot, plot: drawing.Plot) -> tuple[tuple[float, float], tuple[float, float]]:
    low, high = _ends(spot.copies)
    return plot.place(low, spot.speed.mean), plot.place(high, spot.speed.mean)


def _along(spot: Spot, plot: drawing.Plot) -> tuple[tuple[float, float], tuple[float, float]]:
    low, high = _ends(spot.speed)
    return plot.place(spot.copies.mean, low), plot.place(spot.copies.mean, high)
