"""The report of a sweep: speed against copies, curves, heat maps, and a table of all points. The charts are SVG."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import TypeAlias

from hearsay.metrics import BY_NAME, Metric
from hearsay.number_text import FORMS, percent, plural, text_of
from hearsay.report import palette, svg
from hearsay.report.html import Html, capitalized, folded, join, labelled_table, notes, section, tag, write_page
from hearsay.report.study_charts import (
    COPIES,
    SLACK,
    SPEED,
    Curve,
    Facet,
    Kind,
    StudyCharts,
    bounds_of,
    ends_of,
    extent,
    front_scales,
    mean_words,
)
from hearsay.report.svg import scale_of_axis, scale_of_values
from hearsay.report.what_ran import ShownRun, command_line, seed_words, what_ran
from hearsay.studies.packs import COMPARED
from hearsay.studies.runner import Swept
from hearsay.studies.settings import command_of, settings_of, shared, size_words
from hearsay.studies.statistics import Mean

_CELL, _ROW = 74, 40
_LIGHT = 0.55
"""Text is white in cells with a higher opacity than this (from 0 to 1)."""
MAX_ROWS = 400
MAX_SEEDS = 20
_ACROSS = 3
_MAX_ACROSS = 4
_Drawn: TypeAlias = dict[Kind, dict[Metric, list[Html]]]
"""Pictures by kind and metric."""


def write_study_report(swept: Swept, out: Path, pictures: Path, command: str | None = None) -> None:
    """Write the report to `out`, and its pictures as SVG files into the folder `pictures`. `command` is the command
    that made the runs; the end of the page shows it.
    """
    charts = StudyCharts(swept)
    drawn: _Drawn = {"curves": {}, "costs": {}, "maps": {}}
    for kind, metric, facets in charts.charts():
        if facets:
            drawn[kind][metric] = (map_pictures if kind == "maps" else curve_pictures)(charts, facets, metric)
    header = tag("h1", swept.study.title), tag("ul", *(tag("li", fact) for fact in _facts(swept)), class_="facts")
    write_page(out, f"{swept.study.title} – Hearsay study", header, _sections(charts, drawn, command))
    kinds: tuple[Kind, Kind] = "curves", "costs"
    files = [(kind, [each for group in drawn[kind].values() for each in group], charts.legend) for kind in kinds]
    files += [(f"map-{metric.name}", group, {}) for metric, group in drawn["maps"].items()]
    files.append(("front", [pareto_picture(charts)] if charts.fronts else [], charts.front_legend))
    across = min(len(charts.facets) if len(charts.facets) > 1 else _ACROSS, _MAX_ACROSS)
    svg.write_pictures(pictures, swept.study.title, files, across)


def _facts(swept: Swept) -> list[str]:
    study, seeds = swept.study, swept.study.seeds
    finished = len(swept.results) - len(swept.failures)
    return [
        *([study.question] if study.question else []),
        f"{plural(finished, 'run')} at {plural(len(swept.points), 'point')}",
        *size_words(shared([settings_of(point.scenario) for point in swept.points])),
        *(f"{axis.name}: {plural(len(axis.steps), 'step')}" for axis in study.axes),
        f"{'seeds' if len(seeds) > 1 else 'seed'} {seed_words(seeds)}",
    ]


def _sections(charts: StudyCharts, drawn: _Drawn, command: str | None) -> Iterator[Html]:
    swept, legend = charts.swept, charts.legend
    if swept.failures or len(swept.results) < sum(len(point.seeds) for point in swept.points):
        yield _caveats(swept)
    if charts.fronts:
        yield _front(charts)
    if charts.axes:
        note = "" if charts.lines is None else f"A line for each step of {charts.axes[charts.lines].name}. "
        note += "Bands are 95 % confidence intervals of the mean over seeds."
        note += f" {charts.left_out} more combinations are only in the table." if charts.left_out else ""
        yield section("Curves", "curves", *_pictures("curves", drawn["curves"], legend, note))
        if drawn["maps"]:
            yield folded("Heat maps", "maps", *_pictures("maps", drawn["maps"], {}, notes()["maps"]))
        if drawn["costs"]:
            pictures = _pictures("costs", drawn["costs"], legend, notes()["costs"])
            yield folded("Cost of the runs", "costs", *pictures)
    yield _table(charts)
    yield _what_ran(charts, command)


def _caveats(swept: Swept) -> Html:
    items: list[Html] = []
    planned = {run for point in swept.points for run in point.run_names}
    if len(swept.results) < len(planned):
        items.append(tag("li", f"{len(planned) - len(swept.results)} of {len(planned)} runs are not finished."))
    errors = Counter(row["error"] for row in swept.failures)
    items += [tag("li", f"{plural(count, 'run')} failed: {error}") for error, count in errors.items()]
    return tag("section", tag("h2", "Caveats"), tag("ul", *items), class_="caveats", id="caveats")


def _front(charts: StudyCharts) -> Html:
    note = f"Dashed: Pareto front. Hollow: delivery below the best by more than {percent(SLACK)}."
    if named := charts.axes_named(charts.fronts[0]):
        note += f" Labels: {', '.join(charts.axes[axis].name for axis in named)}."
    if len(charts.drawn_fronts) < len(charts.fronts):
        note += f" {len(charts.drawn_fronts)} of {len(charts.fronts)} conditions are drawn."
    drawn = svg.for_screens(partial(pareto_picture, charts), "Speed against copies")
    legend = svg.legend(charts.front_legend)
    return section("Speed against copies", "front", tag("div", legend, drawn, tag("small", note), class_="card"))


def _pictures(id_: str, groups: Mapping[Metric, list[Html]], entries: Mapping[int, str], note: str) -> list[Html]:
    cards: list[Html] = []
    for metric, group in groups.items():
        title = tag("h3", capitalized(metric.title)), tag("div", metric.meaning, class_="question")
        charts = tag("div", *(tag("div", picture, class_="chart") for picture in group), class_="multiples")
        class_ = "card wide" if len(group) > 1 else "card"
        cards.append(tag("figure", tag("figcaption", *title), charts, class_=class_, id=f"{id_}-{metric.name}"))
    return [svg.legend(entries), tag("small", note, class_="faint"), tag("div", *cards, class_="figures")]


def _table(charts: StudyCharts) -> Html:
    points, axes = charts.swept.points, charts.axes
    metrics = [BY_NAME[name] for name in COMPARED if any(charts.mean_at(point, name) for point in points)]
    heads = [*([axis.name for axis in axes] or ["point"]), *(metric.title for metric in metrics)]
    rows: list[list[object]] = []
    for point in points[:MAX_ROWS]:
        cells: list[object] = [axis.labels[step] for axis, step in zip(axes, point.steps, strict=True)]
        rows.append([*(cells or ["all"]), *(mean_cell(charts.mean_at(point, each.name), each) for each in metrics)])
    note = "Means over seeds; the interval shows on hover. tables/ has all metrics of all runs."
    more = len(points) - len(rows)
    return folded(
        "All points",
        "points",
        labelled_table(heads, rows, "Metrics of all points", range(max(1, len(axes)))),
        tag("p", f"{note} {more} more points are there." if more > 0 else note, class_="faint"),
    )


def mean_cell(mean: Mean | None, metric: Metric) -> Html:
    """Return a mean for a table; its interval appears when the reader hovers over it."""
    if mean is None:
        return tag("span", "n/m", title="not measured")
    return tag("span", text_of(mean.mean, metric.form), title=mean_words(mean, metric))


def _what_ran(charts: StudyCharts, command: str | None) -> Html:
    """Return the settings that all points share, the steps of the axes, and a command for each point."""
    swept = charts.swept
    study = swept.study
    engines = sorted({row["engine"] for row in swept.results.values() if row.get("engine")})
    common = shared([settings_of(point.scenario) for point in swept.points])
    facts = {axis.name: ", ".join(axis.labels) for axis in study.axes}
    facts |= {"seeds": ", ".join(map(str, study.seeds[:MAX_SEEDS])), "engine": ", ".join(engines) or "unknown"}
    if len(study.seeds) > MAX_SEEDS:
        facts["seeds"] += f", … ({len(study.seeds)} in all)"
    intro = [tag("p", "Command of the whole study:"), command_line(command)] if command is not None else []
    points: list[Html] = []
    for point in swept.points[:MAX_ROWS]:
        repeat = command_of(["simulate", f"scenarios/{point.name}.toml", "--seed", point.seeds[0]])
        points.append(tag("li", charts.point_name(point) or "all", command_line(repeat)))
    note = tag("p", "tables/runs.parquet has the trace hash of every run. In the study's folder:")
    commands = folded("Commands that repeat a point", "commands", note, tag("ul", *points))
    return join([what_ran([ShownRun(tag("b", study.title), common, facts)], intro), commands])


def curve_pictures(charts: StudyCharts, facets: Sequence[Facet], metric: Metric) -> list[Html]:
    """Draw a picture for each facet, all on one scale, with bands of 95 % confidence."""
    if not facets:
        return []
    x_scale, places = scale_of_axis(charts.x_axis)
    y_scale = scale_of_values(extent(facets, metric), metric.form)
    pictures: list[Html] = []
    for facet in facets:
        plot = svg.Plot(x_scale, y_scale, 340, 220, metric.title, charts.x_axis.name, part=facet.title)
        for curve in facet.curves:
            name = "" if charts.lines is None else f"{charts.axes[charts.lines].labels[curve.number]}: "
            plot.add(svg.coloured(curve.colour, *_curve(plot, places, curve, metric, name)))
        pictures.append(plot.svg(f"{metric.title}{f' – {facet.title}' if facet.title else ''}"))
    return pictures


def _curve(plot: svg.Plot, places: Sequence[float], curve: Curve, metric: Metric, name: str) -> list[Html]:
    parts: list[Html] = []
    bounds = [(places[step], bounds_of(mean, metric)) for step, mean in curve.means]
    known = [(x, ends) for x, ends in bounds if ends is not None]
    if len(known) == len(bounds):
        upper, lower = ([plot.place(x, ends[side]) for x, ends in known] for side in (1, 0))
        parts.append(svg.polyline([*upper, *reversed(lower)], "band", closed=True))
    centres = [plot.place(places[step], mean.mean) for step, mean in curve.means]
    parts.append(svg.polyline(centres, "line"))
    for place, (_, mean) in zip(centres, curve.means, strict=True):
        parts.append(svg.mark(curve.colour, place, f"{name}{mean_words(mean, metric)}"))
    return parts


def map_pictures(charts: StudyCharts, facets: Sequence[Facet], metric: Metric) -> list[Html]:
    """Draw a heat map for each facet. A cell has the mean, and the distance to the upper end of its 95 % interval."""
    means = [mean.mean for facet in facets for mean in facet.means]
    return [_map(charts, facet, metric, min(means), max(means)) for facet in facets]


def _map(charts: StudyCharts, facet: Facet, metric: Metric, low: float, high: float) -> Html:
    assert charts.lines is not None
    across, down = charts.x_axis, charts.axes[charts.lines]
    left = 16 + 7 * max(len(label) for label in (*down.labels, down.name))
    width, height = left + _CELL * len(across.steps) + 8, 48 + _ROW * len(down.steps) + 24
    parts = [svg.heading(metric.title, facet.title), svg.text(down.name, left - 8, 38, anchor="end")]
    for step, label in enumerate(across.labels):
        parts.append(svg.text(label, left + _CELL * (step + 0.5), 38, anchor="middle"))
    for step, label in enumerate(down.labels):
        parts.append(svg.text(label, left - 8, 46 + _ROW * (step + 0.6), anchor="end"))
    known = {(curve.number, step): mean for curve in facet.curves for step, mean in curve.means}
    show = FORMS[metric.form]
    cells: list[Html] = []
    for row, column in product(range(len(down.steps)), range(len(across.steps))):
        mean = known.get((row, column))
        x, y = left + _CELL * column, 46 + _ROW * row
        if mean is None:
            parts.append(svg.text("n/m", x + _CELL / 2, y + _ROW / 2 + 4, anchor="middle"))
            continue
        shade = 0.08 + 0.84 * ((mean.mean - low) / (high - low) if high > low else 0.0)
        value = "value on" if shade > _LIGHT else "value"
        box = {"x": x + 1, "y": y + 1, "width": _CELL - 2, "height": _ROW - 2, "rx": 4}
        words = tag("title", mean_words(mean, metric))
        cells.append(tag("rect", words, **box, class_="cell", fill_opacity=f"{shade:.2f}"))
        cells.append(svg.text(show(mean.mean), x + _CELL / 2, y + 18, class_=value, anchor="middle"))
        if mean.high is not None and mean.high > mean.mean:
            reach = f"± {show(mean.high - mean.mean)}"
            cells.append(svg.text(reach, x + _CELL / 2, y + 32, class_=value, anchor="middle"))
    parts.append(svg.coloured(0, *cells))
    parts.append(svg.text(across.name, left + _CELL * len(across.steps) / 2, height - 8, anchor="middle"))
    title = f"{metric.title}{f' – {facet.title}' if facet.title else ''}"
    return svg.picture(width, height, parts, title, f"A row for each {down.name}, a column for each {across.name}.")


def pareto_picture(charts: StudyCharts, width: int = svg.WIDE) -> Html:
    """Draw p99 latency against copies per delivery, with the Pareto front of each condition."""
    fronts = charts.drawn_fronts
    copies, speed = BY_NAME[COPIES], BY_NAME[SPEED]
    x, y = front_scales(fronts)
    plot = svg.Plot(x, y, width, 430 if width == svg.WIDE else 320, speed.title, copies.title)
    labels: list[tuple[str, svg.Point]] = []
    for number, front in enumerate(fronts):
        line = svg.polyline([plot.place(one.copies.mean, one.speed.mean) for one in front.members], "front")
        plot.add(svg.coloured(palette.NEUTRAL if charts.router_axis is not None else number, line))
        for one in front.points:
            centre = plot.place(one.copies.mean, one.speed.mean)
            across = [plot.place(end, one.speed.mean) for end in ends_of(one.copies)]
            along = [plot.place(one.copies.mean, end) for end in ends_of(one.speed)]
            words = (
                f"{charts.point_name(one.point)}: {mean_words(one.speed, speed)}, "
                f"{mean_words(one.copies, copies)} copies, {one.delivered:.2%} delivered"
            )
            colour = charts.colour_of(one.point, number)
            mark = svg.mark(colour, centre, words, hollow=not one.is_candidate)
            plot.add(svg.coloured(colour, *(svg.line(*low, *high, "reach") for low, high in (across, along)), mark))
            labels.append((charts.short_name(one.point, front), centre))
    plot.add(*_labels(labels, plot.plane()))
    return plot.svg("p99 latency against copies per delivery")


def _labels(labels: Sequence[tuple[str, svg.Point]], plane: tuple[float, float, float]) -> list[Html]:
    """Return the labels next to their marks and above the axis, except labels that do not fit into the picture, or
    would overlap a mark or another label.
    """
    start, end, floor = plane
    taken = [(x - 5, y - 5, x + 5, y + 5) for _, (x, y) in labels]
    drawn: list[Html] = []
    for words, (x, y) in labels:
        wide = svg.LETTER * 2 * len(words)
        for left, bottom in ((x + 8, y - 4), (x + 8, y + 14), (x - 8 - wide, y - 4), (x - 8 - wide, y + 14)):
            box = (left, bottom - 10, left + wide, bottom + 2)
            free = not any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in taken)
            if left > start and left + wide < end and bottom < floor and free:
                taken.append(box)
                drawn.append(svg.text(words, left, bottom, class_="label"))
                break
    return drawn
