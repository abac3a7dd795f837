"""Heat maps: a figure over two axes; in each cell the mean, and how far its 95 % interval reaches."""

from __future__ import annotations

from hearsay.metrics import Metric
from hearsay.report.markup import Html, tag
from hearsay.report.study import drawing
from hearsay.report.study.multiples import mean_words
from hearsay.report.study.roles import Roles, at, where
from hearsay.studies.statistics import mean_of
from hearsay.studies.sweep import Swept
from hearsay.studies.tables import values_at
from hearsay.text.numbers import FORMS

MOST_COLUMNS = 14
_CELL, _ROW = 74, 40
_LIGHT = 0.55


def heat_maps(swept: Swept, roles: Roles, figure: Metric) -> list[Html]:
    """A map for each facet; none with fewer than two axes, or more steps than can be read."""
    if roles.lines is None or len(swept.study.axes[roles.x].steps) > MOST_COLUMNS:
        return []
    all_values = [mean_of(values_at(point, swept.results, figure.name)) for point in swept.points]
    means = [mean.mean for mean in all_values if mean is not None]
    if not means:
        return []
    return [_map(swept, roles, facet, figure, min(means), max(means)) for facet in roles.facets]


def _map(swept: Swept, roles: Roles, facet: dict[int, int], figure: Metric, low: float, high: float) -> Html:
    study, lines = swept.study, roles.lines
    assert lines is not None
    across, down = study.axes[roles.x], study.axes[lines]
    left = 16 + 7 * max(len(label) for label in (*down.labels, down.name))
    width, height = left + _CELL * len(across.steps) + 8, 48 + _ROW * len(down.steps) + 24
    told = where(study, facet)
    title = f"{figure.title}{f' – {told}' if told else ''}"
    parts = [drawing.heading(figure.title, told), drawing.text(down.name, left - 8, 38, anchor="end")]
    for step, label in enumerate(across.labels):
        parts.append(drawing.text(label, left + _CELL * (step + 0.5), 38, anchor="middle"))
    for step, label in enumerate(down.labels):
        parts.append(drawing.text(label, left - 8, 46 + _ROW * (step + 0.6), anchor="end"))
    cells: list[Html] = []
    for point in at(swept.points, facet):
        mean = mean_of(values_at(point, swept.results, figure.name))
        x, y = left + _CELL * point.steps[roles.x], 46 + _ROW * point.steps[lines]
        if mean is None:
            parts.append(drawing.text("n/m", x + _CELL / 2, y + _ROW / 2 + 4, anchor="middle"))
            continue
        shade = 0.08 + 0.84 * ((mean.mean - low) / (high - low) if high > low else 0.0)
        value_class = "value on" if shade > _LIGHT else "value"
        rect = tag(
            "rect", tag("title", mean_words(mean, figure)), x=x + 1, y=y + 1, width=_CELL - 2, height=_ROW - 2,
            rx=4, class_="cell", fill_opacity=f"{shade:.2f}",
        )  # fmt: skip
        cells.append(rect)
        show = FORMS[figure.form]
        cells.append(drawing.text(show(mean.mean), x + _CELL / 2, y + 18, class_=value_class, anchor="middle"))
        if mean.high is not None and mean.high > mean.mean:
            reach = f"± {show(mean.high - mean.mean)}"
            cells.append(drawing.text(reach, x + _CELL / 2, y + 32, class_=value_class, anchor="middle"))
    parts.append(drawing.coloured(0, *cells))
    parts.append(drawing.text(across.name, left + _CELL * len(across.steps) / 2, height - 8, anchor="middle"))
    return drawing.svg(width, height, parts, title)
