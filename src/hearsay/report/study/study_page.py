"""The report of a sweep: what it shows in words, the front of speed against copies, curves, maps, and the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hearsay.report.document import asset, document, footer, labelled_table, scrolling
from hearsay.report.markup import Html, join, tag
from hearsay.report.report_file import make_folder, write_report_file, write_whole
from hearsay.report.study import drawing
from hearsay.report.study.heat_maps import heat_maps
from hearsay.report.study.multiples import legend, mean_words, multiples
from hearsay.report.study.pareto import Front, drawn_fronts, fronts, pareto_picture
from hearsay.report.study.roles import Roles, all_steps, roles, where
from hearsay.report.study.study_text import findings, front_words
from hearsay.report.what_ran import Ran, command_line, what_ran
from hearsay.studies.figures import BY_NAME, COMPARED, COSTS, FIGURES
from hearsay.studies.points import Point
from hearsay.studies.settings import command_of, settings_of, shared, size_words
from hearsay.studies.statistics import mean_of
from hearsay.studies.sweep import Swept
from hearsay.studies.tables import values_at
from hearsay.text.numbers import plural, shown

MOST_ROWS = 400
MOST_SEEDS = 20
MAPPED = ("delivery_ratio", "latency_p99_ms", "copies_per_delivery", "control_per_delivery")
_DRAWN = BY_NAME | {figure.name: figure for figure in COSTS}
_ACROSS = 3
_MOST_ACROSS = 4


@dataclass(frozen=True, slots=True)
class _Drawn:
    """All pictures of a study, by name."""

    roles: Roles | None
    curves: dict[str, list[Html]]
    maps: dict[str, list[Html]]
    costs: dict[str, list[Html]]
    fronts: list[Front]
    front_picture: Html | None


def write_study_report(swept: Swept, out: Path, pictures: Path, command: str | None = None) -> None:
    """Write the report, and beside it each kind of picture as an SVG file of its own. `command` made the runs."""
    drawn = _draw(swept)
    write_report_file(out, _page(swept, drawn, command))
    lines = legend(swept, drawn.roles) if drawn.roles is not None else []
    across = len(drawn.roles.facets) if drawn.roles is not None and len(drawn.roles.facets) > 1 else _ACROSS
    kinds = {"curves": ([each for group in drawn.curves.values() for each in group], lines)}
    kinds["costs"] = ([each for group in drawn.costs.values() for each in group], lines)
    kinds |= {f"map-{name}": (group, []) for name, group in drawn.maps.items()}
    if drawn.front_picture is not None:
        kinds["front"] = ([drawn.front_picture], _front_legend(swept, drawn.fronts))
    for name, (group, entries) in kinds.items():
        if group:
            make_folder(pictures)
            write_whole(pictures / f"{name}.svg", drawing.standalone(group, min(across, _MOST_ACROSS), entries))


def _draw(swept: Swept) -> _Drawn:
    found = roles(swept.study)
    curves: dict[str, list[Html]] = {}
    maps: dict[str, list[Html]] = {}
    costs: dict[str, list[Html]] = {}
    if found is not None:
        curves = {name: multiples(swept, found, BY_NAME[name]) for name in COMPARED}
        maps = {name: heat_maps(swept, found, BY_NAME[name]) for name in MAPPED}
        costs = {figure.name: multiples(swept, found, figure) for figure in COSTS}
    all_fronts = fronts(swept)
    picture = pareto_picture(swept, drawn_fronts(all_fronts)) if all_fronts else None
    return _Drawn(found, curves, maps, costs, all_fronts, picture)


def _page(swept: Swept, drawn: _Drawn, command: str | None) -> str:
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
    told = f"seed{'s' * (len(seeds) > 1)} {listed}"
    common = shared([settings_of(point.scenario) for point in swept.points])
    size = "".join(f"{words}; " for words in size_words(common))
    return f"{plural(finished, 'run')} at {plural(len(swept.points), 'point')}; {size}axes: {axes}; {told}."


def _sections(swept: Swept, drawn: _Drawn, command: str | None) -> Iterator[Html]:
    if swept.failures or len(swept.results) < sum(len(point.seeds) for point in swept.points):
        yield _caveats(swept)
    yield tag(
        "section",
        tag("h2", "What it shows"),
        tag("ul", *(_finding(text, details) for text, details in findings(swept)), class_="card words"),
        id="findings",
    )
    if drawn.front_picture is not None:
        yield _front(swept, drawn)
    if drawn.roles is not None:
        yield _pictures("Curves", "curves", drawn.curves, legend(swept, drawn.roles), _curve_note(swept, drawn.roles))
        if any(drawn.maps.values()):
            words = "In each cell the mean over seeds, and how far its 95 % interval reaches."
            yield _pictures("Maps", "maps", drawn.maps, [], words)
        if any(drawn.costs.values()):
            words = "Unlike everything above, these depend on the machine and on what else it did."
            yield _pictures("What the runs took", "costs", drawn.costs, legend(swept, drawn.roles), words)
    yield _table(swept)
    yield _what_ran(swept, command)
    yield _definitions()


def _finding(text: str, details: Sequence[str]) -> Html:
    return tag("li", text, tag("ul", *(tag("li", each) for each in details), class_="faint") if details else "")


def _caveats(swept: Swept) -> Html:
    items: list[Html] = []
    planned = {run for point in swept.points for run in point.runs}
    if len(swept.results) < len(planned):
        items.append(tag("li", f"{len(planned) - len(swept.results)} of {len(planned)} runs are still to be made."))
    errors: dict[str, int] = {}
    for row in swept.failures:
        errors[row["error"]] = errors.get(row["error"], 0) + 1
    items += [tag("li", f"{plural(count, 'run')} failed: {error}") for error, count in errors.items()]
    return tag("section", tag("h2", "Before you read on"), tag("ul", *items), class_="caveats", id="caveats")


def _front(swept: Swept, drawn: _Drawn) -> Html:
    words = tag("ul", *(tag("li", text) for text in front_words(swept, drawn.fronts)), class_="words")
    shown = len(drawn_fronts(drawn.fronts))
    note = "On a front: nothing else under that condition has fewer copies and is faster. Hollow: delivers less."
    if shown < len(drawn.fronts):
        note += f" {shown} of {len(drawn.fronts)} conditions are drawn."
    picture = scrolling(tag("div", drawn.front_picture, class_="chart front"), "Speed against copies")
    return tag(
        "section",
        tag("h2", "Speed against copies"),
        tag("div", _legend(_front_legend(swept, drawn.fronts)), picture,
            tag("p", note, class_="faint"), words, class_="card"),
        id="front",
    )  # fmt: skip


def _front_legend(swept: Swept, all_fronts: Sequence[Front]) -> list[str]:
    named = [where(swept.study, front.condition) for front in drawn_fronts(all_fronts)]
    return named if any(named) else []


def _pictures(title: str, id_: str, groups: dict[str, list[Html]], entries: Sequence[str], note: str) -> Html:
    cards = [
        tag(
            "figure",
            tag(
                "figcaption",
                tag("h3", _capital(_DRAWN[name].title)),
                tag("p", _DRAWN[name].meaning, class_="question"),
            ),
            tag("div", *(tag("div", picture, class_="chart") for picture in group), class_="multiples"),
            class_="card wide" if len(group) > 1 else "card",
            id=f"{id_}-{name}",
        )
        for name, group in groups.items()
        if group
    ]
    return tag(
        "section",
        tag("h2", title),
        _legend(entries),
        tag("p", note, class_="faint"),
        tag("div", *cards, class_="figures"),
        id=id_,
    )


def _legend(entries: Sequence[str]) -> Html:
    keys = [drawing.key(number, words) for number, words in enumerate(entries)]
    return tag("p", *keys, class_="tools") if keys else Html("")


def _curve_note(swept: Swept, found: Roles) -> str:
    lines = "" if found.lines is None else f"A line for each step of {swept.study.axes[found.lines].name}. "
    bands = f"{lines}Bands are 95 % confidence intervals of the mean over seeds."
    return f"{bands} {found.left_out} more combinations are in the table only." if found.left_out else bands


def _table(swept: Swept) -> Html:
    study = swept.study
    figures = [name for name in COMPARED if any(values_at(point, swept.results, name) for point in swept.points)]
    heads = [axis.name for axis in study.axes] or ["point"]
    heads += [BY_NAME[name].title for name in figures]
    rows: list[list[object]] = []
    for point in swept.points[:MOST_ROWS]:
        cells: list[object] = [axis.labels[step] for axis, step in zip(study.axes, point.steps, strict=True)]
        for name in figures:
            mean = mean_of(values_at(point, swept.results, name))
            words = "n/m" if mean is None else shown(mean.mean, BY_NAME[name].form)
            title = "not measured" if mean is None else mean_words(mean, BY_NAME[name])
            cells.append(tag("span", words, title=title))
        rows.append(cells if study.axes else ["all", *cells])
    more = len(swept.points) - len(rows)
    note = "Means over seeds; point at one to see its interval. All figures of all runs are in tables/."
    return tag(
        "section",
        tag("h2", "All points"),
        labelled_table(heads, rows, "Figures of all points", range(max(1, len(study.axes)))),
        tag("p", f"{note} {more} more points are there." if more > 0 else note, class_="faint"),
        id="points",
    )


def _what_ran(swept: Swept, command: str | None) -> Html:
    """The base that all points share, the axes, and a scenario of every point that can be run by itself."""
    study = swept.study
    engines = sorted({row["engine"] for row in swept.results.values() if row.get("engine")})
    common = shared([settings_of(point.scenario) for point in swept.points])
    facts = {axis.name: ", ".join(axis.labels) for axis in study.axes}
    facts |= {"seeds": ", ".join(map(str, study.seeds[:MOST_SEEDS])), "engine": ", ".join(engines) or "unknown"}
    if len(study.seeds) > MOST_SEEDS:
        facts["seeds"] += f", … ({len(study.seeds)} in all)"
    told = [tag("p", "The whole study again:"), command_line(command)] if command is not None else []
    points = [
        tag("li", where(study, all_steps(point)) or "all", command_line(_point_command(point)))
        for point in swept.points[:MOST_ROWS]
    ]
    note = tag("p", "The trace hash of every run is in tables/runs.parquet. In the study's folder:")
    commands = tag(
        "details", tag("summary", "Commands that run a point again"), note, tag("ul", *points), class_="data"
    )
    return join([what_ran([Ran(tag("b", study.title), common, facts)], told), commands])


def _point_command(point: Point) -> str:
    return command_of(["simulate", f"scenarios/{point.name}.toml", "--seed", point.seeds[0]])


def _definitions() -> Html:
    entries: list[Html] = []
    for figure in FIGURES:
        entries += [
            tag("dt", figure.title, id=f"definition-{figure.name}"),
            tag("dd", f"{_capital(figure.meaning)}."),
        ]
    return tag("section", tag("h2", "Definitions"), tag("dl", *entries), id="definitions")


def _capital(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}"
