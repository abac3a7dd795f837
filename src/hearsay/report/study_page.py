"""The report of a sweep: speed against copies, curves, heat maps, and a table of all points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TypeAlias

from hearsay.metrics import BY_NAME, Metric
from hearsay.report import svg
from hearsay.report.html import (
    Html,
    capitalized,
    join,
    labelled_table,
    opening,
    section,
    tag,
    write_page,
)
from hearsay.report.study_charts import SLACK, Kind, StudyCharts, mean_words
from hearsay.report.study_svg import curve_pictures, map_pictures, pareto_picture
from hearsay.report.what_ran import ShownRun, command_line, seed_words, what_ran
from hearsay.studies.packs import COMPARED
from hearsay.studies.runner import Swept
from hearsay.studies.settings import command_of, settings_of, shared, size_words
from hearsay.studies.statistics import Mean
from hearsay.text.numbers import percent, plural, shown

MAX_ROWS = 400
MAX_SEEDS = 20
_ACROSS = 3
_MAX_ACROSS = 4


_Drawn: TypeAlias = dict[Kind, dict[Metric, list[Html]]]
"""Pictures by kind and metric."""


def write_study_report(swept: Swept, out: Path, pictures: Path, command: str | None = None) -> None:
    """Write the report, and SVG files into the folder `pictures`. `command` is the command that made the runs."""
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
    files.append(("front", [pareto_picture(charts)] if _has_front(charts) else [], charts.front_legend))
    across = min(len(charts.facets) if len(charts.facets) > 1 else _ACROSS, _MAX_ACROSS)
    svg.write_pictures(pictures, swept.study.title, files, across)


def _has_front(charts: StudyCharts) -> bool:
    return any(front.spots for front in charts.drawn_fronts)


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
    if _has_front(charts):
        yield _front(charts)
    if charts.axes:
        yield section("Curves", "curves", *_pictures("curves", drawn["curves"], legend, _curve_note(charts)))
        if drawn["maps"]:
            words = "Each cell has the mean over seeds and the reach of its 95 % interval."
            yield opening("Heat maps", "maps", *_pictures("maps", drawn["maps"], {}, words))
        if drawn["costs"]:
            words = "These depend on the machine and on its load."
            yield opening("Cost of the runs", "costs", *_pictures("costs", drawn["costs"], legend, words))
    yield _table(charts)
    yield _what_ran(charts, command)


def _caveats(swept: Swept) -> Html:
    items: list[Html] = []
    planned = {run for point in swept.points for run in point.runs}
    if len(swept.results) < len(planned):
        items.append(tag("li", f"{len(planned) - len(swept.results)} of {len(planned)} runs are not finished."))
    errors: dict[str, int] = {}
    for row in swept.failures:
        errors[row["error"]] = errors.get(row["error"], 0) + 1
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
    cards = [
        tag(
            "figure",
            tag(
                "figcaption",
                tag("h3", capitalized(metric.title)),
                tag("div", metric.meaning, class_="question"),
            ),
            tag("div", *(tag("div", picture, class_="chart") for picture in group), class_="multiples"),
            class_="card wide" if len(group) > 1 else "card",
            id=f"{id_}-{metric.name}",
        )
        for metric, group in groups.items()
    ]
    return [svg.legend(entries), tag("small", note, class_="faint"), tag("div", *cards, class_="figures")]


def _curve_note(charts: StudyCharts) -> str:
    lines = "" if charts.lines is None else f"A line for each step of {charts.axes[charts.lines].name}. "
    bands = f"{lines}Bands are 95 % confidence intervals of the mean over seeds."
    return f"{bands} {charts.left_out} more combinations are only in the table." if charts.left_out else bands


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
    return opening(
        "All points",
        "points",
        labelled_table(heads, rows, "Metrics of all points", range(max(1, len(axes)))),
        tag("p", f"{note} {more} more points are there." if more > 0 else note, class_="faint"),
    )


def mean_cell(mean: Mean | None, metric: Metric) -> Html:
    """Return a mean for a table, with its interval as a title."""
    if mean is None:
        return tag("span", "n/m", title="not measured")
    return tag("span", shown(mean.mean, metric.form), title=mean_words(mean, metric))


def _what_ran(charts: StudyCharts, command: str | None) -> Html:
    """Return the settings that all points share, the axes, and a command for every point."""
    swept = charts.swept
    study = swept.study
    engines = sorted({row["engine"] for row in swept.results.values() if row.get("engine")})
    common = shared([settings_of(point.scenario) for point in swept.points])
    facts = {axis.name: ", ".join(axis.labels) for axis in study.axes}
    facts |= {"seeds": ", ".join(map(str, study.seeds[:MAX_SEEDS])), "engine": ", ".join(engines) or "unknown"}
    if len(study.seeds) > MAX_SEEDS:
        facts["seeds"] += f", … ({len(study.seeds)} in all)"
    intro = [tag("p", "Command of the whole study:"), command_line(command)] if command is not None else []
    points = [
        tag(
            "li",
            charts.point_name(point) or "all",
            command_line(command_of(["simulate", f"scenarios/{point.name}.toml", "--seed", point.seeds[0]])),
        )
        for point in swept.points[:MAX_ROWS]
    ]
    note = tag("p", "tables/runs.parquet has the trace hash of every run. In the study's folder:")
    commands = opening("Commands that repeat a point", "commands", note, tag("ul", *points))
    return join([what_ran([ShownRun(tag("b", study.title), common, facts)], intro), commands])
