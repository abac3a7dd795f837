"""The page: answers in words first, then the runs in a table, then the figures with their data and definitions.

Rules:

* One file, no network: a policy in the page forbids every request; only this page's own script and style run.
* The words are HTML and need no script. Charts are data, drawn by the page's script.
* What belongs to one topic carries `data-topic`; the script shows the chosen one, without a script all are shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from hearsay.pipeline.output.tables import QUALITY
from hearsay.report.answers import QUESTIONS, Question, caveats
from hearsay.report.comparison import lines, metrics
from hearsay.report.definitions import definitions
from hearsay.report.document import asset, document, footer, labelled_row, scrolling
from hearsay.report.figure import Figure
from hearsay.report.figure_cards import figure_cards, preview
from hearsay.report.markup import Html, join, json_for_script, tag, visible
from hearsay.report.run import SCENARIO, Row, Run, Selection, View, topic_name, trouble
from hearsay.report.run_names import marks, name_shown, named, run_key, shortened, topic_words
from hearsay.report.verdict import verdict
from hearsay.report.what_ran import Ran, what_ran
from hearsay.studies.settings import command_of, differing, shared, size_words
from hearsay.text.numbers import Form, count, plural, seconds
from hearsay.text.numbers import shown as shown_number

SCRIPTS = ("dom.js", "lines.js", "bars.js", "pictures.js", "spread.js", "page.js")

_NOT_MEASURED = Html('<span class="faint" title="not measured">n/m</span>')


def page(selection: Selection, figures: Sequence[Figure], explained: Html) -> str:
    script = "\n".join(asset(name) for name in SCRIPTS)
    body = [
        marks(),
        _header(selection),
        _toolbar(selection),
        tag(
            "main",
            _caveats(selection),
            tag("p", verdict(selection), class_="card verdict", id="verdict"),
            _answers(selection, {each.id for each in figures} | {"compared"}),
            _comparison(selection),
            explained,
            _what_ran(selection),
            figure_cards(selection, figures),
            _quality(selection),
            _definitions(),
        ),
        footer(),
        tag("script", _data(selection, figures), type="application/json", id="data"),
    ]
    script = f'"use strict";\n(() => {{\n{script}\n}})();\n'
    return document(_title(selection), body, style=asset("page.css") + asset("explain.css"), script=script)


def _title(selection: Selection) -> str:
    if len(selection.runs) == 1:
        return f"{visible(selection.runs[0].label)} – Hearsay report"
    return f"{len(selection.runs)} runs – Hearsay report"


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
    return tag(
        "header",
        title,
        tag("p", named(selection, 0), tag("span", f" {', '.join(facts)}", class_="faint"), class_="subject"),
    )


def _common_facts(selection: Selection) -> str:
    """What all runs have, and in what they differ."""
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


def _what_ran(selection: Selection) -> Html:
    return what_ran([_ran(selection, index) for index in range(len(selection.runs))])


def _ran(selection: Selection, index: int) -> Ran:
    run = selection.runs[index]
    facts = {title: str(run.summary[key]) for title, key in _RAN if key in run.summary}
    if not facts:
        facts = {"engine": "none: a trace of something else than a simulation"}
    return Ran(named(selection, index), run.settings, facts, _command(run))


def _command(run: Run) -> str | None:
    if run.settings is None:
        return None
    return command_of(["simulate", run.folder / SCENARIO])


_RAN = (("seed", "seed"), ("engine", "engine"), ("trace hash", "trace_hash"))


def _toolbar(selection: Selection) -> Html:
    switches = [
        tag(
            "label",
            Html(f'<input type="checkbox" checked data-run="{index}">'),
            run_key(index),
            " ",
            name_shown(run.label),
        )
        for index, run in enumerate(selection.runs)
    ]
    options = [tag("option", shortened(name, 60), value=place) for place, name in enumerate(selection.topics)]
    picker = tag("label", "Topic ", tag("select", *options, id="topic"), class_="picker")
    left_out = (
        tag("span", f"and {plural(selection.left_out, 'other topic')} in the table only", class_="faint")
        if selection.left_out
        else ""
    )
    shown_runs = tag("div", *switches, class_="switches") if len(switches) > 1 else ""
    shown_topics = join([picker, left_out]) if len(selection.topics) > 1 else ""
    if not shown_runs and not shown_topics:
        return Html("")
    return tag("nav", shown_runs, shown_topics, class_="toolbar", aria_label="What is shown")


def _caveats(selection: Selection) -> Html:
    items: list[Html] = []
    for index, run in enumerate(selection.runs):
        for warning in caveats(run, _findings(run)):
            items.append(tag("li", run_key(index), " ", name_shown(run.label), ": ", warning))
    if not items:
        return Html("")
    return tag("section", tag("h2", "Before you read on"), tag("ul", *items), class_="caveats", id="caveats")


def _answers(selection: Selection, shown: Collection[str]) -> Html:
    """With links to those of their figures that are shown."""
    rows: list[Html] = []
    for question in QUESTIONS:
        links = [tag("a", _LINKS[id_], href=f"#{id_}") for id_ in question.figures if id_ in shown]
        links.append(tag("a", "definition", href=f"#definition-{question.definition}"))
        rows.append(
            tag(
                "article",
                tag("h3", question.word, tag("small", question.question)),
                tag("div", *_sentences(selection, question), class_="words"),
                tag("p", *_between(links, " · "), class_="links"),
                id=f"answer-{question.word.lower().replace(' ', '-')}",
            )
        )
    return tag("section", tag("h2", "Seven answers"), tag("div", *rows, class_="card answers"), id="answers")


def _sentences(selection: Selection, question: Question) -> list[Html]:
    """The answers, topic by topic; runs of which the same is said stand together."""
    said: dict[tuple[int, str], list[int]] = {}
    for run in selection.runs:
        for view in run.views:
            said.setdefault((view.place, _answer(selection, question, view)), []).append(view.run)
    return [
        tag(
            "p",
            tag("span", *_between([named(selection, run) for run in runs], ", "), ":", class_="who")
            if len(selection.runs) > 1
            else "",
            tag("span", topic_words(selection, place), class_="topic"),
            tag("span", text, class_="text"),
            class_="answer",
            data_topic=place,
            data_run=" ".join(map(str, runs)),
        )
        for (place, text), runs in sorted(said.items(), key=lambda item: (item[0][0], item[1]))
    ]


def _answer(selection: Selection, question: Question, view: View) -> str:
    if view.topic is not None or not question.of_one_topic:
        return question.answer(selection.runs, view)
    views = selection.runs[view.run].topic_views
    worst = min(views, key=lambda each: trouble(each.headline))
    alike = len({each.headline["delivery_ratio"] for each in views}) == 1
    chosen = "the topic with most messages" if alike else "the topic in most trouble"
    return f"{topic_name(worst.headline)}, {chosen}: {question.answer(selection.runs, worst)}"


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


def _comparison(selection: Selection) -> Html:
    shown, total = lines(selection)
    several_topics = len({line.topic for line in shown}) > 1
    heads = ["run", *(["topic"] if several_topics else []), "router"]
    columns = metrics(shown)
    text = range(len(heads))
    heads += ["nodes", "messages", *(metric.heading for metric in columns)]
    body: list[Html] = []
    for line in shown:
        cells: list[object] = [join([run_key(line.run), " ", name_shown(selection.runs[line.run].label)])]
        cells += [name_shown(line.topic)] if several_topics else []
        cells.append(line.row["router"] or "unknown")
        cells += [_cell(line.row[name], "count") for name in ("nodes", "messages")]
        cells += [_cell(line.row.get(metric.column), metric.form) for metric in columns]
        body.append(labelled_row(heads, cells, text, data_run=line.run))
    head = [
        tag("th", title, scope="col", class_=None if place in text else "number") for place, title in enumerate(heads)
    ]
    notes: list[str] = []
    if several_topics:
        notes.append("Topics in most trouble first. Bytes of a topic are those of its own parts; IWANT names none.")
    if any(line.row.get(metric.column) is None for line in shown for metric in columns):
        notes.append("n/m: not measured.")
    if total > len(shown):
        notes.append(f"{count(len(shown))} of {count(total)} lines.")
    return tag(
        "section",
        tag("h2", "The runs side by side" if len(selection.runs) > 1 else "The run in figures"),
        scrolling(
            tag("table", tag("thead", tag("tr", *head)), tag("tbody", *body), class_="labelled"),
            "Figures of all runs",
        ),
        tag("p", " ".join(notes), class_="faint") if notes else "",
        id="compared",
    )


def _cell(value: float | None, form: Form) -> str:
    return _NOT_MEASURED if value is None else shown_number(value, form)


def _findings(run: Run) -> list[Row]:
    return [row for row in run.read(QUALITY).to_pylist() if row["rows"]]


def _quality(selection: Selection) -> Html:
    return tag(
        "section",
        tag("h2", "Quality of the traces"),
        tag("p", definitions()["quality"].text, class_="faint"),
        preview(selection, QUALITY, "table-quality"),
        id="quality",
    )


def _definitions() -> Html:
    entries: list[Html] = []
    for key, defined in definitions().items():
        entries += [tag("dt", defined.word, id=f"definition-{key}"), tag("dd", defined.text)]
    return tag("section", tag("h2", "Definitions"), tag("dl", *entries), id="definitions")


def _data(selection: Selection, figures: Sequence[Figure]) -> Html:
    return json_for_script(
        {
            "runs": [shortened(run.label, 40) for run in selection.runs],
            "figures": [each.to_json() for each in figures],
            "overall": selection.overall,
        }
    )


def _between(items: Iterable[Html], separator: str) -> list[object]:
    parts: list[object] = []
    for item in items:
        parts += [separator, item]
    return parts[1:]
