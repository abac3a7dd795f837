"""The report of analysed runs: a first screen with a table and two charts, and below it sections that the reader can
open.

Rules:

* One file, no network: the content security policy of the page forbids every request, and
  all scripts and styles except the page's own.
* Texts are HTML and need no script. Charts are data, drawn by the script of the page when their section is open.
* An element of one topic has `data-topic`; the script hides the topics that are not chosen. Without the script, the
  page shows all topics.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from math import isnan
from pathlib import Path

from hearsay.metrics import shown_in, without_unknown
from hearsay.number_text import count, percent, plural, seconds, text_of
from hearsay.report import figures_delivery, figures_mesh, first_screen, palette
from hearsay.report.animated_messages import add_messages
from hearsay.report.figure import Figure, declared_figures
from hearsay.report.first_screen import named, not_measured
from hearsay.report.html import (
    Html,
    ReportError,
    asset,
    document,
    folded,
    footer,
    join,
    json_for_script,
    labelled_table,
    name_shown,
    require_report_or_nothing,
    shortened,
    tag,
    visible,
    write_report_file,
)
from hearsay.report.runs import (
    ALL_TOPICS,
    SCENARIO,
    US_PER_S,
    Row,
    Run,
    Selection,
    open_runs,
    topic_name,
    worst_first,
)
from hearsay.report.what_ran import ShownRun, what_ran
from hearsay.report.worth_explaining import worth_explaining
from hearsay.studies.settings import command_of
from hearsay.trace.folder.own_folders import held_by

MAX_ROWS = 60
"""Maximum rows of the table of metrics, and of the table of disturbances."""
_SCRIPTS = ("dom.js", "lines.js", "bars.js", "pictures.js", "spread.js", "page.js")
_FACTS = (("seed", "seed"), ("engine", "engine"), ("trace hash", "trace_hash"))
FIRST = ("latency", "churn")
"""The ids of the charts on the first screen."""
_PHASES = ("before", "during", "after")
ADD_SERIES: Mapping[str, Callable[[Figure, Sequence[Run]], None]] = {
    "latency": figures_delivery.delivery_cdf,
    "churn": figures_delivery.delivery_over_time,
    "latency-over-time": figures_delivery.latency_over_time,
    "copies": figures_delivery.copies_per_delivery,
    "control": figures_delivery.control_overhead,
    "load": figures_delivery.load_per_node,
    "state": figures_delivery.state_per_node,
    "mesh": figures_mesh.degree_over_time,
    "degrees": figures_mesh.degrees_at_the_end,
    "scores": figures_mesh.scores_over_time,
    **dict.fromkeys(figures_mesh.COLUMNS_OVER_TIME, figures_mesh.amounts_over_time),
    "spread": figures_delivery.spread_of_a_message,
    "picture": figures_mesh.mesh_picture,
}
"""The function that adds the series of a chart, by the id of the chart in `assets/figures.toml`."""
REPORT = "report.html"


def write_report(
    runs: Sequence[Path], out: Path | None, *, explain: bool = False, log: Callable[[str], None] = lambda _: None
) -> Path:
    """Write the report of runs, by default into the folder of the first run, and return its path.

    `explain` adds explanations of messages even for large runs and for several runs. `log` is called with texts about
    the progress of the explanations. Raise `ReportError` if a run cannot be read or the report cannot be written.
    """
    target = runs[0] / REPORT if out is None else out
    require_report_or_nothing(target)
    selection = open_runs(runs)
    if out is None and held_by(runs[0].resolve()) is None:
        raise ReportError(f"{runs[0]}: is not a folder of Hearsay; give --out")
    figures = figures_of(selection.runs)
    add_messages(figures, selection.runs)
    explained = worth_explaining(selection, explain, log)
    write_report_file(target, run_page(selection, figures, explained))
    return target


def figures_of(runs: Sequence[Run]) -> list[Figure]:
    """Return the charts with the series of all runs, and with the reasons why other views have no series.

    Charts without series are left out if they are optional, or if all runs are of real nodes.
    """
    figures = list(declared_figures())
    for each in figures:
        ADD_SERIES[each.id](each, runs)
    figures = [each for each in figures if each.series or not each.optional]
    if all(run.of_real_nodes for run in runs):
        figures = [each for each in figures if each.series]
    for each in figures:
        there = {(one["run"], one["topic"]) for one in each.series}
        there |= {(view.run, view.place) for view, _ in each.absent}
        for run in runs:
            reason = run.why_unmeasured(each.measured_as)
            each.absent.extend(
                (view, f"not measured: {reason}.")
                for view in run.views
                if reason is not None and (view.run, view.place) not in there
            )
    return figures


def run_page(selection: Selection, figures: Sequence[Figure], explained: Html) -> str:
    """Return the page about runs. `explained` is the section of explanations."""
    script = "\n".join(asset(name) for name in _SCRIPTS)
    first = [each for each in figures if each.id in FIRST]
    others = [each for each in figures if each.id not in FIRST]
    body = [
        first_screen.header(selection),
        _toolbar(selection),
        tag(
            "main",
            first_screen.caveats_section(selection),
            first_screen.differences(selection),
            first_screen.overview(selection),
            tag("div", *(_figure(selection, each) for each in first), class_="figures"),
            tag("h2", "Details"),
            tag("div", *(_figure(selection, each) for each in others), class_="figures"),
            _all_metrics(selection),
            _disturbances(selection),
            explained,
            what_ran([_shown_run(selection, index) for index in range(len(selection.runs))]),
            _quality(selection),
            _definitions(),
        ),
        footer(),
        tag("script", _data(selection, figures), type="application/json", id="data"),
    ]
    title = visible(selection.runs[0].label) if len(selection.runs) == 1 else f"{len(selection.runs)} runs"
    # The policy of the page forbids styles of single elements, so each width of a bar is a class.
    steps = first_screen.BAR_STEPS
    widths = "".join(f".w-{step} {{ --share: {step / steps:.2f} }}\n" for step in range(1, steps + 1))
    style = asset("page.css") + widths + asset("explain.css")
    return document(
        f"{title} – Hearsay report", body, style=style, script=f'"use strict";\n(() => {{\n{script}\n}})();\n'
    )


def definitions() -> dict[str, tuple[str, str]]:
    """Return words and definitions by result table, for tables with a definition, in the order of the page."""
    entries = tomllib.loads(asset("definitions.toml"))
    return {name: (entry["word"], entry["text"].strip().replace("\n", " ")) for name, entry in entries.items()}


def _shown_run(selection: Selection, index: int) -> ShownRun:
    run = selection.runs[index]
    facts = {title: str(run.summary[name]) for title, name in _FACTS if name in run.summary}
    command = None if run.settings is None else command_of(["simulate", run.folder / SCENARIO])
    return ShownRun(named(selection, index), run.settings, facts or {"engine": "none: not a simulation"}, command)


def _toolbar(selection: Selection) -> Html:
    switches = [
        tag("label", Html(f'<input type="checkbox" checked data-run="{index}">'), named(selection, index))
        for index in range(len(selection.runs))
    ]
    options = [tag("option", shortened(name, 60), value=place) for place, name in enumerate(selection.topics)]
    picker = tag("label", "Topic ", tag("select", *options, id="topic"), class_="picker")
    others = f"{plural(selection.left_out, 'other topic')} only in the table"
    left_out = tag("span", others, class_="faint") if selection.left_out else ""
    runs = tag("div", *switches, class_="switches") if len(switches) > 1 else ""
    topics = join([picker, left_out]) if len(selection.topics) > 1 else ""
    if not runs and not topics:
        return Html("")
    return tag("nav", runs, topics, class_="toolbar", aria_label="Runs and topics")


def _all_metrics(selection: Selection) -> Html:
    """Return a table with all metrics of all runs and topics."""
    lines = _lines(selection)
    drawn = lines[:MAX_ROWS]
    reported = shown_in("report")
    known = (each.name for each in reported if any(row.get(each.column) is not None for _, _, row in drawn))
    metrics = without_unknown(reported, known)
    heads = ["run", "topic", "router", "nodes", "messages", *(metric.heading for metric in metrics)]
    rows: list[list[object]] = []
    for run, topic, row in drawn:
        cells: list[object] = [named(selection, run), name_shown(topic), row["router"] or "unknown"]
        cells += ["n/m" if row[name] is None else count(row[name]) for name in ("nodes", "messages")]
        for metric in metrics:
            value = row.get(metric.column)
            cells.append(not_measured(selection.runs[run], metric) if value is None else text_of(value, metric.form))
        rows.append(cells)
    notes = ["n/m: not measured.", "Topics with the lowest delivery first."]
    if len(lines) > len(drawn):
        notes.append(f"{count(len(drawn))} of {count(len(lines))} rows.")
    table = labelled_table(heads, rows, "All metrics of all runs", range(3))
    return folded("All metrics", "metrics", table, tag("p", " ".join(notes), class_="faint"))


def _lines(selection: Selection) -> list[tuple[int, str, Row]]:
    """Return the run, the topic and the metrics of each row of the table: first of all topics together, then of
    single topics, those with the lowest delivery first.
    """
    found = [(index, topic_name(row), row) for index, run in enumerate(selection.runs) for row in run.headlines]
    order = {topic: place for place, topic in enumerate(worst_first(selection.runs))}
    found.sort(key=lambda line: (order[line[1]], line[0]))
    if not selection.has_all_topics:
        return found
    overall = [view.headline for run in selection.runs for view in run.views[:1]]
    return [*((index, ALL_TOPICS, row) for index, row in enumerate(overall)), *found]


def _disturbances(selection: Selection) -> Html:
    """Return a table of delivery ratios before, during and after each disturbance and, if a run has several, all
    disturbances together.
    """
    rows: list[list[object]] = []
    heads = ["run", "topic", "disturbance", *_PHASES, "healed after"]
    for index, run in enumerate(selection.runs):
        names = {row["disturbance"]: row["what"] for row in run.read("disturbances").to_pylist()}
        topics = {row["topic"]: topic_name(row) for row in run.headlines}
        for row in run.read("resilience").to_pylist():
            has_own_row = row["disturbance"] is None and row["disturbances"] == 1 and names
            if row["disturbances"] and row["topic"] in topics and not has_own_row:
                what = names.get(row["disturbance"], plural(row["disturbances"], "disturbance"))
                cells: list[object] = [named(selection, index), name_shown(topics[row["topic"]]), what]
                ratios = [row[f"ratio_{phase}"] for phase in _PHASES]
                cells += ["–" if ratio is None or isnan(ratio) else percent(ratio) for ratio in ratios]
                cells.append("–" if row["heal_us"] is None else seconds(row["heal_us"] / US_PER_S))
                rows.append(cells)
    if not rows:
        return Html("")
    more = tag("p", f"{count(MAX_ROWS)} of {count(len(rows))} rows.") if len(rows) > MAX_ROWS else ""
    table = labelled_table(heads, rows[:MAX_ROWS], "Delivery around disturbances", range(3))
    return folded("Disturbances", "disturbances", table, more)


def _figure(selection: Selection, figure: Figure) -> Html:
    """Return an empty element for a chart, which the script draws: on the first screen a card, otherwise a part that
    can be opened.
    """
    chart = tag("div", tag("noscript", "The charts need JavaScript."), class_="chart")
    label = f"definition of {figure.title}"
    definition = tag("a", "definition", href=f"#definition-{figure.source}", aria_label=label, class_="links")
    if figure.id in FIRST:
        caption = tag("figcaption", tag("h2", figure.title, " ", definition))
        return tag("figure", caption, chart, class_="card", id=figure.id)
    content = tag("figure", chart, _notes(selection, figure), definition)
    return folded(figure.title, figure.id, content, about=figure.question, class_="wide" if figure.wide else "")


def _notes(selection: Selection, figure: Figure) -> Html:
    notes: list[Html] = []
    for view, note in figure.notes:
        run = join([named(selection, view.run), ": "]) if len(selection.runs) > 1 else ""
        topic = tag("span", f"{selection.topics[view.place]}: " if selection.has_all_topics else "", class_="topic")
        notes.append(tag("li", run, topic, note, data_topic=view.place, data_run=view.run))
    return tag("ul", *notes, class_="notes") if notes else Html("")


def _quality(selection: Selection) -> Html:
    rows = [
        [
            named(selection, index),
            str(row["check"]),
            "n/m" if row["rows"] is None else count(row["rows"]),
            row["detail"] or "",
        ]
        for index, run in enumerate(selection.runs)
        for row in run.read("quality").to_pylist()
    ]
    table = labelled_table(["run", "check", "rows", "detail"], rows, "Checks of the traces", (0, 1, 3))
    return folded("Quality of the traces", "quality", tag("p", definitions()["quality"][1], class_="faint"), table)


def _definitions() -> Html:
    entries = [
        part
        for name, (word, text) in definitions().items()
        for part in (tag("dt", word, id=f"definition-{name}"), tag("dd", text))
    ]
    return folded("Definitions", "definitions", tag("dl", *entries))


def _data(selection: Selection, figures: Sequence[Figure]) -> Html:
    return json_for_script(
        {
            "runs": [shortened(run.label, 40) for run in selection.runs],
            "figures": [each.to_json() for each in figures],
            "overall": selection.has_all_topics,
            "colours": selection.colours,
            "marks": palette.MARKS,
        }
    )
