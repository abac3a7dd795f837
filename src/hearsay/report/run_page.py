"""The page of a report: answers, runs in a table, figures with their data, definitions.

Rules:

* One file, no network: a policy forbids every request, and only this page's own script and style run.
* Words are HTML and need no script. Charts are data, drawn by the script of the page.
* An element of one topic has `data-topic`; the script shows the chosen topic, without a script all are shown.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator, Sequence

from hearsay.metrics import shown_in, without_unknown
from hearsay.pipeline.output.tables import QUALITY, MetricTable
from hearsay.report import palette
from hearsay.report.answers import QUESTIONS, Question, answer, caveats, summary
from hearsay.report.figure import Figure
from hearsay.report.html import (
    Html,
    asset,
    between,
    capitalized,
    document,
    footer,
    join,
    json_for_script,
    labelled_row,
    row_table,
    scrolling,
    section,
    tag,
    visible,
)
from hearsay.report.runs import ALL_TOPICS, SCENARIO, Row, Selection, View, topic_name, trouble
from hearsay.report.svg import key
from hearsay.report.what_ran import Ran, what_ran
from hearsay.studies.settings import command_of, differing, shared, size_words
from hearsay.text.numbers import Form, count, figure, plural, seconds
from hearsay.text.numbers import shown as shown_number

MAX_LINES = 60
"""Rows of the table of runs."""
PREVIEW_ROWS = 12
PREVIEW_DIGITS = 6
_SCRIPTS = ("dom.js", "lines.js", "bars.js", "pictures.js", "spread.js", "page.js")
_NOT_MEASURED = Html('<span class="faint" title="not measured">n/m</span>')
_FACTS = (("seed", "seed"), ("engine", "engine"), ("trace hash", "trace_hash"))
_LINKS = {
    "latency": "latency",
    "latency-over-time": "over time",
    "compared": "table",
    "churn": "timeline",
    "copies": "copies",
    "control": "control",
    "load": "load",
    "state": "state",
}


def run_page(selection: Selection, figures: Sequence[Figure], explained: Html) -> str:
    """Return the page of some runs. `explained` is the section of explanations."""
    script = "\n".join(asset(name) for name in _SCRIPTS)
    body = [
        _marks(),
        _header(selection),
        _toolbar(selection),
        tag(
            "main",
            _caveats(selection),
            tag("p", summary(selection), class_="card verdict", id="verdict"),
            _answers(selection, {each.id for each in figures} | {"compared"}),
            _comparison(selection),
            explained,
            what_ran([_ran(selection, index) for index in range(len(selection.runs))]),
            _figures(selection, figures),
            _quality(selection),
            _definitions(),
        ),
        footer(),
        tag("script", _data(selection, figures), type="application/json", id="data"),
    ]
    title = visible(selection.runs[0].label) if len(selection.runs) == 1 else f"{len(selection.runs)} runs"
    style = asset("page.css") + asset("explain.css")
    return document(
        f"{title} – Hearsay report", body, style=style, script=f'"use strict";\n(() => {{\n{script}\n}})();\n'
    )


def named(selection: Selection, run: int) -> Html:
    """Return the mark and the name of a run."""
    return join([key(run), " ", name_shown(selection.runs[run].label)])


def name_shown(name: str) -> Html:
    """Return a name from outside, isolated, so that its direction does not change the text around it."""
    return tag("bdi", name, class_="name", title=name)


def shortened(name: str, max_length: int) -> str:
    text = visible(name)
    return text if len(text) <= max_length else f"{text[: max_length - 1]}…"


def definitions() -> dict[str, tuple[str, str]]:
    """Return the defined words and their definitions, by result table, in the order of the page."""
    entries = tomllib.loads(asset("definitions.toml"))
    return {name: (entry["word"], entry["text"].strip().replace("\n", " ")) for name, entry in entries.items()}


def _marks() -> Html:
    """Return the shapes that the script refers to."""
    shapes = "".join(f'<path id="mark-{number}" d="{shape}"/>' for number, shape in enumerate(palette.MARKS))
    return Html(f'<svg width="0" height="0" class="unseen" aria-hidden="true"><defs>{shapes}</defs></svg>')


def _topic_words(selection: Selection, place: int) -> str:
    return f"{selection.topics[place]}: " if len(selection.topics) > 1 else ""


def _header(selection: Selection) -> Html:
    title = tag("h1", "Hearsay report")
    if len(selection.runs) > 1:
        return tag("header", title, tag("p", _common_facts(selection), class_="faint"))
    run = selection.runs[0]
    row = run.headlines[0] if run.headlines else {"router": None, "nodes": None, "seconds": None}
    facts = [
        "router unknown" if row["router"] in (None, "unknown") else str(row["router"]),
        "nodes unknown" if row["nodes"] is None else plural(row["nodes"], "node"),
        "length unknown" if row["seconds"] is None else seconds(row["seconds"]),
        *(size_words(run.settings)[1:] if run.settings else ()),
        *((f"seed {run.summary['seed']}",) if "seed" in run.summary else ()),
    ]
    shown = tag("span", f" {', '.join(facts)}", class_="faint")
    return tag("header", title, tag("p", named(selection, 0), shown, class_="subject"))


def _common_facts(selection: Selection) -> str:
    """Return what all runs have in common, and in which settings they differ."""
    known = [run.settings for run in selection.runs if run.settings is not None]
    facts = [f"{len(selection.runs)} runs"]
    if len(known) == len(selection.runs):
        words = size_words(shared(known))
        keys = differing(known)
        facts += [f"all with {', '.join(words)}"] if words else []
        facts += [f"they differ in {', '.join(keys)}" if keys else "with the same settings"]
    seeds = sorted({run.summary["seed"] for run in selection.runs if isinstance(run.summary.get("seed"), int)})
    if seeds:
        facts.append(f"{'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))}")
    return f"{'; '.join(facts)}."


def _ran(selection: Selection, index: int) -> Ran:
    run = selection.runs[index]
    facts = {title: str(run.summary[name]) for title, name in _FACTS if name in run.summary}
    command = None if run.settings is None else command_of(["simulate", run.folder / SCENARIO])
    return Ran(named(selection, index), run.settings, facts or {"engine": "none: not a simulation"}, command)


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


def _caveats(selection: Selection) -> Html:
    items = [
        tag("li", named(selection, index), ": ", warning)
        for index, run in enumerate(selection.runs)
        for warning in caveats(run, [row for row in run.read(QUALITY).to_pylist() if row["rows"]])
    ]
    if not items:
        return Html("")
    return tag("section", tag("h2", "Caveats"), tag("ul", *items), class_="caveats", id="caveats")


def _answers(selection: Selection, shown: Collection[str]) -> Html:
    """Return the answers, with links to their figures."""
    articles: list[Html] = []
    for question in QUESTIONS:
        links = [tag("a", _LINKS[id_], href=f"#{id_}") for id_ in question.figures if id_ in shown]
        links.append(tag("a", "definition", href=f"#definition-{question.definition}"))
        articles.append(
            tag(
                "article",
                tag("h3", question.word, tag("small", question.question)),
                tag("div", *_sentences(selection, question), class_="words"),
                tag("p", *between(links, " · "), class_="links"),
                id=f"answer-{question.word.lower().replace(' ', '-')}",
            )
        )
    return section("Seven answers", "answers", tag("div", *articles, class_="card answers"))


def _sentences(selection: Selection, question: Question) -> Iterator[Html]:
    """Yield the answers topic by topic; runs with the same answer share it."""
    runs_of: dict[tuple[int, str], list[int]] = {}
    for run in selection.runs:
        for view in run.views:
            runs_of.setdefault((view.place, _answer(selection, question, view)), []).append(view.run)
    for (place, text), runs in sorted(runs_of.items(), key=lambda item: (item[0][0], item[1])):
        names = tag("span", *between([named(selection, run) for run in runs], ", "), ":", class_="who")
        yield tag(
            "p",
            names if len(selection.runs) > 1 else "",
            tag("span", _topic_words(selection, place), class_="topic"),
            tag("span", text, class_="text"),
            class_="answer",
            data_topic=place,
            data_run=" ".join(map(str, runs)),
        )


def _answer(selection: Selection, question: Question, view: View) -> str:
    if view.topic is not None or not question.of_one_topic:
        return answer(question, selection.runs, view)
    views = selection.runs[view.run].topic_views
    worst = min(views, key=lambda each: trouble(each.headline))
    alike = len({each.headline["delivery_ratio"] for each in views}) == 1
    chosen = "the topic with most messages" if alike else "the topic with the lowest delivery"
    return f"{topic_name(worst.headline)}, {chosen}: {answer(question, selection.runs, worst)}"


def _comparison(selection: Selection) -> Html:
    """Return the metrics of all runs and topics. No value is marked as the best: one run proves no difference."""
    lines = _lines(selection)
    drawn = lines[:MAX_LINES]
    shown = shown_in("report")
    known = (each.name for each in shown if any(row.get(each.column) is not None for _, _, row in drawn))
    metrics = without_unknown(shown, known)
    topics = len({topic for _, topic, _ in drawn}) > 1
    names = ["run", *(["topic"] if topics else []), "router"]
    heads = [*names, "nodes", "messages", *(metric.heading for metric in metrics)]
    text = range(len(names))
    rows: list[Html] = []
    for run, topic, row in drawn:
        cells: list[object] = [named(selection, run), *([name_shown(topic)] if topics else [])]
        cells += [row["router"] or "unknown", _value(row["nodes"], "count"), _value(row["messages"], "count")]
        cells += [_value(row.get(metric.column), metric.form) for metric in metrics]
        rows.append(labelled_row(heads, cells, text, data_run=run))
    notes: list[str] = []
    if topics:
        notes.append("Topics with the lowest delivery first. The bytes of a topic are those of its own parts; IWANT "
                     "names no topic.")  # fmt: skip
    if any(row.get(metric.column) is None for _, _, row in drawn for metric in metrics):
        notes.append("n/m: not measured.")
    if len(lines) > len(drawn):
        notes.append(f"{count(len(drawn))} of {count(len(lines))} rows.")
    return section(
        "Runs side by side" if len(selection.runs) > 1 else "Metrics of the run",
        "compared",
        row_table(heads, rows, "Metrics of all runs", text),
        tag("p", " ".join(notes), class_="faint") if notes else "",
    )


def _lines(selection: Selection) -> list[tuple[int, str, Row]]:
    """Return run, topic and metrics of each row, topic by topic, all topics together first."""
    found = [(index, topic_name(row), row) for index, run in enumerate(selection.runs) for row in run.headlines]
    worst: dict[str, tuple[float, int]] = {}
    for _, topic, row in found:
        worst[topic] = min(worst.get(topic, trouble(row)), trouble(row))
    found.sort(key=lambda line: (worst[line[1]], line[1], line[0]))
    if not selection.overall:
        return found
    overall = [view.headline for run in selection.runs for view in run.views[:1]]
    return [*((index, ALL_TOPICS, row) for index, row in enumerate(overall)), *found]


def _value(value: float | None, form: Form) -> str:
    return _NOT_MEASURED if value is None else shown_number(value, form)


def _figures(selection: Selection, figures: Sequence[Figure]) -> Html:
    cards = [
        tag(
            "figure",
            tag(
                "figcaption",
                tag("h3", each.title),
                tag("p", each.question, class_="question"),
                tag("p", each.remark, class_="question") if each.remark else "",
            ),
            tag("div", tag("p", "The charts need JavaScript.", class_="faint"), class_="chart"),
            _notes(selection, each),
            tag("p", tag("a", "definition", href=f"#definition-{each.source.name}"), class_="links"),
            _preview(selection, each.source, f"table-{each.id}"),
            class_="card wide" if each.wide else "card",
            id=each.id,
        )
        for each in figures
    ]
    return section("Figures", "figures", tag("div", *cards, class_="figures"))


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


def _preview(selection: Selection, table: MetricTable, id_: str) -> Html:
    """Return the first rows of a table for each run."""
    parts: list[Html] = []
    total = 0
    for index, run in enumerate(selection.runs):
        first, rows = run.preview(table, PREVIEW_ROWS)
        total += rows
        shown = f"{count(len(first))} of {plural(rows, 'row')} of metrics/{table.name}"
        parts.append(tag("p", named(selection, index), f": {shown}"))
        if rows:
            columns = [name for name in table.names if name != "run"]
            head = tag("tr", *(tag("th", name, scope="col") for name in columns))
            body = [tag("tr", *(_cell(row[name]) for name in columns)) for row in first.to_pylist()]
            drawn = tag("table", tag("thead", head), tag("tbody", *body))
            parts.append(scrolling(drawn, f"First rows of {table.name}"))
    summary_line = tag("summary", f"Data: {table.name} ({plural(total, 'row')})")
    return tag("details", summary_line, tag("p", f"{capitalized(table.title)}."), *parts, id=id_, class_="data")


def _cell(value: object) -> Html:
    if value is None or value != value:
        return tag("td", "–", class_="faint number")
    if isinstance(value, float):
        return tag("td", figure(value, PREVIEW_DIGITS), class_="number")
    if isinstance(value, int) and not isinstance(value, bool):
        return tag("td", str(value), class_="number")
    return tag("td", name_shown(str(value)))


def _quality(selection: Selection) -> Html:
    meaning = tag("p", definitions()["quality"][1], class_="faint")
    return section("Quality of the traces", "quality", meaning, _preview(selection, QUALITY, "table-quality"))


def _definitions() -> Html:
    entries = [
        part
        for name, (word, text) in definitions().items()
        for part in (tag("dt", word, id=f"definition-{name}"), tag("dd", text))
    ]
    return section("Definitions", "definitions", tag("dl", *entries))


def _data(selection: Selection, figures: Sequence[Figure]) -> Html:
    return json_for_script(
        {
            "runs": [shortened(run.label, 40) for run in selection.runs],
            "figures": [each.to_json() for each in figures],
            "overall": selection.overall,
        }
    )
