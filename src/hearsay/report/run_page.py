"""The page of a report: a first screen with a table and two charts, and below it sections that the reader can open.

Rules:

* One file, no network: a policy forbids every request, and only this page's own script and style run.
* Words are HTML and need no script. Charts are data, drawn by the script of the page when their section is open.
* An element of one topic has `data-topic`; the script hides the topics that are not chosen. Without the script, the
  page shows all topics.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from math import isnan

from hearsay.metrics import shown_in, without_unknown
from hearsay.report import first_screen, palette
from hearsay.report.figure import Figure
from hearsay.report.first_screen import named, not_measured
from hearsay.report.html import (
    Html,
    asset,
    document,
    footer,
    join,
    json_for_script,
    labelled_table,
    name_shown,
    opening,
    shortened,
    tag,
    visible,
)
from hearsay.report.runs import ALL_TOPICS, SCENARIO, US_PER_S, Row, Selection, topic_name, worst_first
from hearsay.report.what_ran import ShownRun, what_ran
from hearsay.studies.settings import command_of
from hearsay.text.numbers import Form, count, percent, plural, seconds
from hearsay.text.numbers import shown as shown_number

MAX_LINES = 60
"""Maximum rows of the table of metrics, and of the table of disturbances."""
_SCRIPTS = ("dom.js", "lines.js", "bars.js", "pictures.js", "spread.js", "page.js")
_FACTS = (("seed", "seed"), ("engine", "engine"), ("trace hash", "trace_hash"))
FIRST = ("latency", "churn")
"""Figures of the first screen."""
_PHASES = ("before", "during", "after")


def run_page(selection: Selection, figures: Sequence[Figure], explained: Html) -> str:
    """Return the page of some runs. `explained` is the section of explanations."""
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
            tag("div", *(_first_figure(each) for each in first), class_="figures"),
            tag("h2", "Details"),
            tag("div", *(_figure(selection, each) for each in others), class_="figures"),
            _all_metrics(selection),
            _disturbances(selection),
            explained,
            what_ran([_ran(selection, index) for index in range(len(selection.runs))]),
            _quality(selection),
            _definitions(),
        ),
        footer(),
        tag("script", _data(selection, figures), type="application/json", id="data"),
    ]
    title = visible(selection.runs[0].label) if len(selection.runs) == 1 else f"{len(selection.runs)} runs"
    style = asset("page.css") + _bar_widths() + asset("explain.css")
    return document(
        f"{title} – Hearsay report", body, style=style, script=f'"use strict";\n(() => {{\n{script}\n}})();\n'
    )


def _bar_widths() -> str:
    """Return a class for each width of a bar, since the policy of the page forbids styles of single elements."""
    steps = first_screen.BAR_STEPS
    return "".join(f".w-{step} {{ --share: {step / steps:.2f} }}\n" for step in range(1, steps + 1))


def definitions() -> dict[str, tuple[str, str]]:
    """Return the defined words and their definitions, by result table, in the order of the page."""
    entries = tomllib.loads(asset("definitions.toml"))
    return {name: (entry["word"], entry["text"].strip().replace("\n", " ")) for name, entry in entries.items()}


def _topic_words(selection: Selection, place: int) -> str:
    return f"{selection.topics[place]}: " if len(selection.topics) > 1 else ""


def _ran(selection: Selection, index: int) -> ShownRun:
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
    left_out = (
        tag("span", f"{plural(selection.left_out, 'other topic')} only in the table", class_="faint")
        if selection.left_out
        else ""
    )
    runs = tag("div", *switches, class_="switches") if len(switches) > 1 else ""
    topics = join([picker, left_out]) if len(selection.topics) > 1 else ""
    if not runs and not topics:
        return Html("")
    return tag("nav", runs, topics, class_="toolbar", aria_label="Runs and topics")


def _all_metrics(selection: Selection) -> Html:
    """Return all metrics of all runs and topics."""
    lines = _lines(selection)
    drawn = lines[:MAX_LINES]
    shown = shown_in("report")
    known = (each.name for each in shown if any(row.get(each.column) is not None for _, _, row in drawn))
    metrics = without_unknown(shown, known)
    heads = ["run", "topic", "router", "nodes", "messages", *(metric.heading for metric in metrics)]
    rows: list[list[object]] = []
    for run, topic, row in drawn:
        cells: list[object] = [named(selection, run), name_shown(topic), row["router"] or "unknown"]
        cells += [_value(row["nodes"], "count"), _value(row["messages"], "count")]
        for metric in metrics:
            value = row.get(metric.column)
            missing = value is None
            cells.append(not_measured(selection.runs[run], metric) if missing else shown_number(value, metric.form))
        rows.append(cells)
    notes = ["n/m: not measured.", "Topics with the lowest delivery first."]
    if len(lines) > len(drawn):
        notes.append(f"{count(len(drawn))} of {count(len(lines))} rows.")
    table = labelled_table(heads, rows, "All metrics of all runs", range(3))
    return opening("All metrics", "metrics", table, tag("p", " ".join(notes), class_="faint"))


def _lines(selection: Selection) -> list[tuple[int, str, Row]]:
    """Return run, topic and metrics of each row, topic by topic, all topics together first."""
    found = [(index, topic_name(row), row) for index, run in enumerate(selection.runs) for row in run.headlines]
    order = {topic: place for place, topic in enumerate(worst_first(selection.runs))}
    found.sort(key=lambda line: (order[line[1]], line[0]))
    if not selection.overall:
        return found
    overall = [view.headline for run in selection.runs for view in run.views[:1]]
    return [*((index, ALL_TOPICS, row) for index, row in enumerate(overall)), *found]


def _value(value: float | None, form: Form) -> str:
    return "n/m" if value is None else shown_number(value, form)


def _disturbances(selection: Selection) -> Html:
    """Return delivery before, during and after each disturbance, or all of them together."""
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
                cells += [_ratio(row[f"ratio_{phase}"]) for phase in _PHASES]
                cells.append("–" if row["heal_us"] is None else seconds(row["heal_us"] / US_PER_S))
                rows.append(cells)
    if not rows:
        return Html("")
    shown = rows[:MAX_LINES]
    more = tag("p", f"{count(len(shown))} of {count(len(rows))} rows.") if len(rows) > len(shown) else ""
    table = labelled_table(heads, shown, "Delivery around disturbances", range(3))
    return opening("Disturbances", "disturbances", table, more)


def _ratio(ratio: float | None) -> str:
    return "–" if ratio is None or isnan(ratio) else percent(ratio)


def _first_figure(shown: Figure) -> Html:
    """Return a figure of the first screen: its title and its chart."""
    caption = tag("figcaption", tag("h2", shown.title, " ", _definition(shown)))
    return tag("figure", caption, _chart(), class_="card", id=shown.id)


def _figure(selection: Selection, shown: Figure) -> Html:
    """Return a section with a figure, which can be opened."""
    content = tag("figure", _chart(), _notes(selection, shown), _definition(shown))
    return opening(shown.title, shown.id, content, about=shown.question, class_="wide" if shown.wide else "")


def _chart() -> Html:
    return tag("div", tag("noscript", "The charts need JavaScript."), class_="chart")


def _definition(shown: Figure) -> Html:
    label = f"definition of {shown.title}"
    return tag("a", "definition", href=f"#definition-{shown.source}", aria_label=label, class_="links")


def _notes(selection: Selection, shown: Figure) -> Html:
    notes = [
        tag(
            "li",
            join([named(selection, view.run), ": "]) if len(selection.runs) > 1 else "",
            tag("span", _topic_words(selection, view.place), class_="topic"),
            note,
            data_topic=view.place,
            data_run=view.run,
        )
        for view, note in shown.notes
    ]
    return tag("ul", *notes, class_="notes") if notes else Html("")


def _quality(selection: Selection) -> Html:
    rows = [
        [named(selection, index), str(row["check"]), _value(row["rows"], "count"), row["detail"] or ""]
        for index, run in enumerate(selection.runs)
        for row in run.read("quality").to_pylist()
    ]
    table = labelled_table(["run", "check", "rows", "detail"], rows, "Checks of the traces", (0, 1, 3))
    return opening("Quality of the traces", "quality", tag("p", definitions()["quality"][1], class_="faint"), table)


def _definitions() -> Html:
    entries = [
        part
        for name, (word, text) in definitions().items()
        for part in (tag("dt", word, id=f"definition-{name}"), tag("dd", text))
    ]
    return opening("Definitions", "definitions", tag("dl", *entries))


def _data(selection: Selection, figures: Sequence[Figure]) -> Html:
    return json_for_script(
        {
            "runs": [shortened(run.label, 40) for run in selection.runs],
            "figures": [each.to_json() for each in figures],
            "overall": selection.overall,
            "colours": selection.colours,
            "marks": palette.MARKS,
        }
    )
