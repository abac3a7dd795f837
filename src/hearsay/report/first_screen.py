"""The first screen of a report: what the runs have in common, caveats, and a table with a column per question.

Rules:

* The table has a row per run and topic; on a narrow screen it becomes a list per question. Values are compared within
  a column and a topic. The largest value has the longest bar. Bars begin at 0, or at the value `bars_from` of
  `assets/overview.toml`.
* The best and the worst of the compared values are marked if they differ as displayed. Only values of complete runs
  are marked, because a run that ended early sent less. A mark compares single runs and so proves no difference; the
  header has the number of seeds.
* Settings that differ are listed above the table. If the runs have different routers, the settings of the routers
  are not in the list. If only the router differs, the header says so. Incomplete runs have a badge in the table.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from math import ceil
from typing import Any

from hearsay.metrics import BY_NAME, Metric
from hearsay.number_text import count, plural, seconds, text_of
from hearsay.report.html import Html, asset, between, join, name_shown, scrolling, shortened, tag
from hearsay.report.runs import Row, Run, Selection, View
from hearsay.report.svg import key
from hearsay.report.what_ran import setting_words
from hearsay.studies.settings import differing, shared, size_words

BAR_STEPS = 50
"""Number of widths of bars; the style sheet has a class for each."""
MAX_DIFFERENCES = 5
_WORDS: dict[str, dict[str, Any]] = tomllib.loads(asset("overview.toml"))
_COLUMNS = _WORDS["columns"]
_OF_SIZE = ("network.nodes", "workload.messages")
_NO_CAVEATS = ("rows", "incomplete")


def named(selection: Selection, run: int) -> Html:
    """Return the mark and the name of a run."""
    return join([key(selection.colours[run]), " ", name_shown(selection.runs[run].label)])


def header(selection: Selection) -> Html:
    """Return the title of the page, and the facts that all runs share."""
    runs = selection.runs
    facts: list[object] = [named(selection, 0)] if len(runs) == 1 else [f"{len(runs)} runs"]
    known = [run.settings for run in runs if run.settings is not None]
    if len(runs) == 1:
        row = runs[0].headlines[0] if runs[0].headlines else {"router": None, "nodes": None, "seconds": None}
        facts += [
            "router unknown" if row["router"] in (None, "unknown") else str(row["router"]),
            "nodes unknown" if row["nodes"] is None else plural(row["nodes"], "node"),
            "length unknown" if row["seconds"] is None else seconds(row["seconds"]),
            *(size_words(known[0])[1:] if known else ()),
        ]
    elif len(known) == len(runs):
        alike = len(set(selection.routers)) == len(runs) and not any(_differences(selection))
        facts += [*(["only the router differs"] if alike else []), *size_words(shared(known))]
    seeds = {run.summary.get("seed") for run in runs}
    if None not in seeds:
        facts.append(f"one seed: {seeds.pop()}" if len(seeds) == 1 else f"{len(seeds)} seeds")
    return tag("header", tag("h1", "Hearsay report"), tag("ul", *(tag("li", fact) for fact in facts), class_="facts"))


def differences(selection: Selection) -> Html:
    """Return a list of at most `MAX_DIFFERENCES` settings, sizes and seeds in which runs differ, with the number of
    further ones; empty HTML if there are none. If runs have different routers, leave out settings of routers.
    """
    found = list(_differences(selection))
    if not found:
        return Html("")
    more = [tag("li", f"{len(found) - MAX_DIFFERENCES} more")] if len(found) > MAX_DIFFERENCES else []
    items = [tag("li", tag("b", name), " ", words) for name, words in found[:MAX_DIFFERENCES]]
    title = "Not only the router differs:" if len(set(selection.routers)) > 1 else "The runs differ in:"
    return tag("div", tag("strong", title), tag("ul", *items, *more, class_="facts"), class_="differ", id="differ")


def _differences(selection: Selection) -> Iterator[tuple[str, Html]]:
    """Yield the name of each setting, size or seed that differs, and its values, each with the runs that have it."""
    runs = selection.runs
    rows = [run.headlines[0] if run.headlines else {"nodes": None, "messages": None, "seconds": None} for run in runs]
    values = {
        "nodes": ["unknown" if row["nodes"] is None else count(row["nodes"]) for row in rows],
        "messages": [str(sum(row["messages"] or 0 for row in run.headlines)) for run in runs],
        "length": ["unknown" if row["seconds"] is None else seconds(row["seconds"]) for row in rows],
        "seed": [str(run.summary.get("seed", "unknown")) for run in runs],
    }
    known = [run.settings for run in runs if run.settings is not None]
    if len(known) == len(runs):
        skipped = ("router",) if len(set(selection.routers)) > 1 else ()
        for name in differing(known):
            if name not in _OF_SIZE and name.partition(".")[0] not in skipped:
                values[name] = [setting_words(settings, name) for settings in known]
    for name, own in values.items():
        distinct = list(dict.fromkeys(own))
        if len(distinct) > 1:
            parts = [
                join([each, " (", *between([name_shown(run.label) for run, value in zip(runs, own, strict=True)
                                           if value == each], ", "), ")"])
                for each in distinct
            ]  # fmt: skip
            yield name, join(between(parts, " · "))


def overview(selection: Selection) -> Html:
    """Return the table with a row per run and topic, and a column per question."""
    heads = [tag("th", each["title"], tag("small", each["question"]), scope="col") for each in _COLUMNS.values()]
    rows: list[Html] = []
    for place in range(len(selection.topics)):
        views = [view for run in selection.runs for view in run.views if view.place == place]
        cells = [_cells(selection, views, BY_NAME[name]) for name in _COLUMNS]
        for number, view in enumerate(views):
            row = [_row_head(selection, view), *(column[number] for column in cells)]
            rows.append(tag("tr", *row, data_run=view.run, data_topic=place))
    rows_are = "router" if selection.routers == [run.label for run in selection.runs] else "run"
    head = tag("thead", tag("tr", tag("th", rows_are, scope="col"), *heads))
    table = tag("table", head, tag("tbody", *rows), class_="overview")
    return tag("div", scrolling(table, "A row per run, a column per question"), class_="card", id="compared")


def _row_head(selection: Selection, view: View) -> Html:
    run = selection.runs[view.run]
    parts: list[object] = [named(selection, view.run)]
    router = str(view.headline["router"] or "unknown")
    if router != run.label and len(selection.runs) > 1:
        parts.append(tag("small", f"router {router}" if router == "unknown" else router))
    if len(selection.topics) > 1:
        parts.append(tag("small", name_shown(selection.topics[view.place]), class_="topic"))
    if not is_complete(run):
        parts.append(tag("small", tag("a", "incomplete", href="#caveats"), class_="badge"))
    return tag("th", *parts, scope="row")


def _label(selection: Selection, view: View) -> str:
    """Return the text before a value on a narrow screen, which has no heads of rows: run, topic and "incomplete"."""
    run = selection.runs[view.run]
    topic = [shortened(selection.topics[view.place], 40)] if len(selection.topics) > 1 else []
    return ", ".join([shortened(run.label, 40), *topic, *([] if is_complete(run) else ["incomplete"])])


def _cells(selection: Selection, views: Sequence[View], metric: Metric) -> list[Html]:
    """Return a column of the table for views of one topic: for each view a cell with a value and a bar. Mark the best
    and the worst value of complete runs.
    """
    values = [view.headline.get(metric.column) for view in views]
    least = _COLUMNS[metric.name].get("bars_from", 0)
    largest = max((value for value in values if value is not None), default=0)
    whole = [value for view, value in zip(views, values, strict=True)
             if value is not None and is_complete(selection.runs[view.run])]  # fmt: skip
    best, worst = (text_of(end, metric.form) for end in (min(whole, default=0), max(whole, default=0)))
    if metric.better != "less":
        best, worst = worst, best
    marks = {} if best == worst else {best: "best", worst: "worst"}
    cells: list[Html] = []
    for view, value in zip(views, values, strict=True):
        content = [key(selection.colours[view.run])]
        if value is None:
            content.append(not_measured(selection.runs[view.run], metric))
        else:
            words = text_of(value, metric.form)
            mark = marks.get(words) if is_complete(selection.runs[view.run]) else None
            marked = tag("small", mark, class_=mark) if mark else ""
            content.append(tag("span", tag("span", words, class_="value"), marked))
            if value > least:
                width = f"w-{ceil(BAR_STEPS * (value - least) / (largest - least))} run-{selection.colour(view.run)}"
                content.append(tag("i", class_=f"amount {width}", aria_hidden="true"))
        cells.append(tag("td", *content, class_="number", data_label=_label(selection, view)))
    return cells


def not_measured(run: Run, metric: Metric) -> Html:
    """Return "n/m" for a metric that a run lacks; the reason appears when the reader hovers over it."""
    measured_as = _COLUMNS.get(metric.name, {}).get("measured_as") or _WORDS["measured_as"].get(metric.name, "")
    reason = run.why_unmeasured(measured_as)
    return tag("span", "n/m", class_="faint", title=f"not measured: {reason}" if reason else "not measured")


def is_complete(run: Run) -> bool:
    """Return False if a run was interrupted."""
    return not any(row["complete"] is False for row in run.headlines)


def caveats_section(selection: Selection) -> Html:
    """Return the section with the caveats of all runs; empty HTML if there are none."""
    items = [
        tag("li", named(selection, place), ": ", warning)
        for place, run in enumerate(selection.runs)
        for warning in caveats(run, [row for row in run.read("quality").to_pylist() if row["rows"]])
    ]
    if not items:
        return Html("")
    title = tag("summary", tag("strong", f"Caveats ({len(items)})"))
    return tag("details", title, tag("ul", *items), class_="caveats", id="caveats")


def caveats(run: Run, checks: Sequence[Row]) -> Iterator[str]:
    """Yield reasons not to rely on some metrics of a run, as sentences. `checks` are rows of its table `quality`."""
    if not is_complete(run):
        details = [row["detail"] for row in checks if row["check"] == "incomplete"]
        ended = "was interrupted" if details in ([], [None]) else f"is {details[0]}"
        yield f"the run {ended}, so the figures end there."
    if damaged := run.damaged_files:
        more = f", and {plural(len(damaged) - 1, 'other file')}" if len(damaged) > 1 else ""
        yield f"the trace differs from its manifest: {damaged[0]}{more}."
    for row in checks:
        check = str(row["check"])
        if check not in _NO_CAVEATS and not check.startswith("drop_"):
            yield f"{_WORDS['checks'].get(check, check)}: {count(row['rows'])}. {row['detail'] or ''}".strip()
