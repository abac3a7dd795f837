"""The report of a sweep: findings in words, speed against copies, curves, heat maps, and a table of all points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hearsay.metrics import BY_NAME, Metric
from hearsay.report import svg
from hearsay.report.html import (
    Html,
    asset,
    capitalized,
    document,
    footer,
    join,
    labelled_table,
    make_folder,
    scrolling,
    section,
    tag,
    write_report_file,
    write_text,
)
from hearsay.report.study_charts import SLACK, StudyCharts, at, mean_words
from hearsay.report.study_svg import curve_pictures, map_pictures, pareto_picture
from hearsay.report.what_ran import Ran, command_line, what_ran
from hearsay.studies.packs import COMPARED, FIGURES
from hearsay.studies.points import Point
from hearsay.studies.settings import command_of, settings_of, shared, size_words
from hearsay.studies.statistics import Mean
from hearsay.studies.sweep import Swept
from hearsay.text.numbers import FORMS, percent, plural, shown

MAX_ROWS = 400
MAX_SEEDS = 20
_ACROSS = 3
_MAX_ACROSS = 4


@dataclass(frozen=True, slots=True)
class _Pictures:
    """All pictures of a sweep, by metric."""

    charts: StudyCharts
    curves: Mapping[str, list[Html]]
    maps: Mapping[str, list[Html]]
    costs: Mapping[str, list[Html]]
    front: Html | None

    @classmethod
    def of(cls, swept: Swept) -> _Pictures:
        charts = StudyCharts(swept)
        curves = {name: curve_pictures(charts, found, BY_NAME[name]) for name, found in charts.all_curves().items()}
        maps = {name: map_pictures(charts, found, BY_NAME[name]) for name, found in charts.all_maps().items()}
        costs = {name: curve_pictures(charts, found, BY_NAME[name]) for name, found in charts.all_costs().items()}
        return cls(charts, curves, maps, costs, pareto_picture(charts))

    def files(self) -> Iterator[tuple[str, list[Html], Mapping[int, str]]]:
        """Yield name, pictures and legend of each SVG file."""
        legend = self.charts.legend
        yield "curves", [each for group in self.curves.values() for each in group], legend
        yield "costs", [each for group in self.costs.values() for each in group], legend
        for name, group in self.maps.items():
            yield f"map-{name}", group, {}
        yield "front", [] if self.front is None else [self.front], self.charts.front_legend


def write_study_report(swept: Swept, out: Path, pictures: Path, command: str | None = None) -> None:
    """Write the report, and each kind of picture as an SVG file. `command` made the runs."""
    drawn = _Pictures.of(swept)
    write_report_file(out, _page(swept, drawn, command))
    facets = len(drawn.charts.facets)
    across = min(facets if facets > 1 else _ACROSS, _MAX_ACROSS)
    for name, group, legend in drawn.files():
        if group:
            make_folder(pictures)
            write_text(pictures / f"{name}.svg", svg.standalone(group, across, legend))


def _page(swept: Swept, drawn: _Pictures, command: str | None) -> str:
    study = swept.study
    body = [
        tag(
            "header",
            tag("h1", study.title),
            tag("p", study.question, class_="subject") if study.question else "",
            tag("p", _facts(swept), class_="faint"),
        ),
        tag("main", *_sections(swept, drawn, command)),
        footer(),
    ]
    return document(f"{study.title} – Hearsay study", body, style=asset("page.css") + asset("study.css"))


def _facts(swept: Swept) -> str:
    finished = len(swept.results) - len(swept.failures)
    axes = ", ".join(f"{axis.name} ({len(axis.steps)})" for axis in swept.study.axes) or "no axes"
    seeds = swept.study.seeds
    listed = f"{seeds[0]}…{seeds[-1]}" if len(seeds) > 2 else ", ".join(map(str, seeds))
    named = f"seed{'s' * (len(seeds) > 1)} {listed}"
    common = shared([settings_of(point.scenario) for point in swept.points])
    size = "".join(f"{words}; " for words in size_words(common))
    return f"{plural(finished, 'run')} at {plural(len(swept.points), 'point')}; {size}axes: {axes}; {named}."


def _sections(swept: Swept, drawn: _Pictures, command: str | None) -> Iterator[Html]:
    if swept.failures or len(swept.results) < sum(len(point.seeds) for point in swept.points):
        yield _caveats(swept)
    findings = (_finding(text, details) for text, details in _findings(drawn.charts))
    yield section("Findings", "findings", tag("ul", *findings, class_="card words"))
    if drawn.front is not None:
        yield _front(drawn.charts, drawn.front)
    legend = drawn.charts.legend
    if drawn.charts.axes:
        yield _pictures("Curves", "curves", drawn.curves, legend, _curve_note(drawn.charts))
        if any(drawn.maps.values()):
            words = "Each cell has the mean over seeds and the reach of its 95 % interval."
            yield _pictures("Heat maps", "maps", drawn.maps, {}, words)
        if any(drawn.costs.values()):
            words = "These depend on the machine and on its load."
            yield _pictures("Cost of the runs", "costs", drawn.costs, legend, words)
    yield _table(drawn.charts)
    yield _what_ran(drawn.charts, command)
    yield _definitions()


def _finding(text: str, details: Sequence[str]) -> Html:
    return tag("li", text, tag("ul", *(tag("li", each) for each in details), class_="faint") if details else "")


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


def _front(charts: StudyCharts, picture: Html) -> Html:
    words = tag("ul", *(tag("li", text) for text in _front_words(charts)), class_="words")
    note = f"Pareto front. Hollow markers: delivery below the best by more than {percent(SLACK)}."
    if len(charts.drawn_fronts) < len(charts.fronts):
        note += f" {len(charts.drawn_fronts)} of {len(charts.fronts)} conditions are drawn."
    drawn = scrolling(tag("div", picture, class_="chart front"), "Speed against copies")
    card = tag("div", svg.legend(charts.front_legend), drawn, tag("p", note, class_="faint"), words, class_="card")
    return section("Speed against copies", "front", card)


def _pictures(title: str, id_: str, groups: Mapping[str, list[Html]], entries: Mapping[int, str], note: str) -> Html:
    cards = [
        tag(
            "figure",
            tag(
                "figcaption",
                tag("h3", capitalized(BY_NAME[name].title)),
                tag("p", BY_NAME[name].meaning, class_="question"),
            ),
            tag("div", *(tag("div", picture, class_="chart") for picture in group), class_="multiples"),
            class_="card wide" if len(group) > 1 else "card",
            id=f"{id_}-{name}",
        )
        for name, group in groups.items()
        if group
    ]
    figures = tag("div", *cards, class_="figures")
    return section(title, id_, svg.legend(entries), tag("p", note, class_="faint"), figures)


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
    return section(
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
        tag("li", charts.point_name(point) or "all", command_line(_point_command(point)))
        for point in swept.points[:MAX_ROWS]
    ]
    note = tag("p", "tables/runs.parquet has the trace hash of every run. In the study's folder:")
    commands = tag("details", tag("summary", "Commands that repeat a point"), note, tag("ul", *points), class_="data")
    return join([what_ran([Ran(tag("b", study.title), common, facts)], intro), commands])


def _point_command(point: Point) -> str:
    return command_of(["simulate", f"scenarios/{point.name}.toml", "--seed", point.seeds[0]])


def _definitions() -> Html:
    entries = [
        part
        for metric in FIGURES
        for part in (
            tag("dt", metric.title, id=f"definition-{metric.name}"),
            tag("dd", f"{capitalized(metric.meaning)}."),
        )
    ]
    return section("Definitions", "definitions", tag("dl", *entries))


def _findings(charts: StudyCharts) -> Iterator[tuple[str, list[str]]]:
    """Yield the extremes of each metric, and its change along each axis."""
    for metric in map(BY_NAME.__getitem__, COMPARED):
        means = [(point, charts.mean_at(point, metric.name)) for point in charts.swept.points]
        known = [(point, mean.mean) for point, mean in means if mean is not None]
        if known:
            along = [_along(charts, metric, axis) for axis in range(len(charts.axes))]
            yield _extremes(charts, metric, known), [text for text in along if text]


def _extremes(charts: StudyCharts, metric: Metric, known: Sequence[tuple[Point, float]]) -> str:
    show, name = FORMS[metric.form], capitalized(metric.title)
    low, high = min(known, key=lambda one: one[1]), max(known, key=lambda one: one[1])
    if low[1] == high[1]:
        return f"{name}: {show(low[1])} everywhere."
    from_, to = charts.point_name(low[0]), charts.point_name(high[0])
    return f"{name}: from {show(low[1])} ({from_}) to {show(high[1])} ({to})."


def _along(charts: StudyCharts, metric: Metric, number: int) -> str:
    """Return the mean over all points of each step, the first to the last; only complete steps count."""
    axis, show = charts.axes[number], FORMS[metric.form]
    steps: list[tuple[str, float]] = []
    for step, label in enumerate(axis.labels):
        means = [charts.mean_at(point, metric.name) for point in at(charts.swept.points, {number: step})]
        known = [mean.mean for mean in means if mean is not None]
        if known and len(known) == len(means):
            steps.append((label, sum(known) / len(known)))
    if len(steps) < 2 or len({show(value) for _, value in steps}) == 1:
        return ""
    over = ", averaged over the other axes" if len(charts.axes) > 1 else ""
    return f"Along {axis.name}{over}: {', '.join(f'{show(value)} at {label}' for label, value in steps)}."


def _front_words(charts: StudyCharts) -> Iterator[str]:
    """Yield the points on each front."""
    for front in charts.fronts:
        condition = charts.where(front.condition)
        members = [
            f"{charts.choice_name(spot.point, front)} "
            f"({FORMS['number'](spot.copies.mean)} copies, {FORMS['ms'](spot.speed.mean)})"
            for spot in front.members
        ]
        out = sum(not spot.is_candidate for spot in front.spots)
        left_out = f" {out} that deliver over {percent(SLACK)} less than the best are left out." if out else ""
        yield f"{f'{condition}: ' if condition else ''}{'; '.join(members)}.{left_out}"
