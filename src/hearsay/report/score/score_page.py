"""A check of scores as one HTML file: findings, curves of scripted peers, what silence and offences cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from hearsay.report.document import asset, document, footer, labelled_table, scrolling
from hearsay.report.markup import Html, tag
from hearsay.report.report_file import write_report_file
from hearsay.report.score.score_curves import cards, legend, overview
from hearsay.score_check.check import Checked
from hearsay.score_check.check_text import (
    OFFENCE_HEAD,
    SILENCE_HEAD,
    not_looked_at,
    offence_rows,
    silence_rows,
    summary,
)
from hearsay.score_check.checks.all_checks import CHECKS
from hearsay.score_check.curves import PARTS, Played, play_all
from hearsay.score_check.findings import ScoreFinding
from hearsay.score_check.stage import traffic_of
from hearsay.text.numbers import count, figure, plural, seconds

_MOST_ROWS = 400


def write_score_page(checked: Checked, out: Path) -> None:
    """Plays the peers, and writes the page; it appears whole or not at all."""
    write_report_file(out, _page(checked, play_all(checked.worth)))


def _page(checked: Checked, played: Played) -> str:
    name = checked.subject.name
    body = [
        tag(
            "header",
            tag("h1", "Score check"),
            tag("p", tag("span", summary(checked), class_="name"), class_="subject"),
            tag("p", _facts(checked), class_="faint"),
            *(tag("p", line, class_="faint") for line in not_looked_at(checked.subject)),
        ),
        tag("main", *_sections(checked, played)),
        footer(),
    ]
    style = asset("page.css") + asset("study.css") + asset("score.css")
    return document(f"{name} – Hearsay score check", body, style=style)


def _facts(checked: Checked) -> str:
    expected, score = checked.subject.expected, checked.subject.score.peer
    topics = sum(group.count for group in checked.subject.topics)
    return (
        f"{plural(topics, 'topic')}, meshes of {expected.degree}, a heartbeat every "
        f"{count(expected.heartbeat_ms)} ms, "
        f"a refresh every {seconds(score.decay_interval_ms / 1000)}; a peer at its best has "
        f"{figure(checked.worth.best)}, one that is first as often as the others {figure(checked.worth.usual)}."
    )


def _sections(checked: Checked, played: Played) -> Iterator[Html]:
    yield _section("What was found", "findings", _findings(checked.findings))
    yield _section(
        "Scores over time",
        "scores",
        tag("div", legend([curve.name for curve in played.curves]),
            scrolling(tag("div", overview(played), class_="chart"), "Scores of scripted peers over time"),
            tag("p", _how_played(checked, played), class_="faint"), class_="card"),
    )  # fmt: skip
    yield _section(
        "What the scores are made of", "parts", legend(PARTS), tag("div", *cards(played), class_="figures")
    )
    yield _section(
        "Silence in one topic",
        "silence",
        tag("p", "Of a peer that is at its best everywhere else.", class_="faint"),
        _table(SILENCE_HEAD, list(silence_rows(checked)), "What silence in one topic costs", (0, 1)),
    )
    yield _section(
        "What it takes",
        "offences",
        tag("p", "How many offences bring a peer that was at its best below each threshold. Broken promises are as "
                 "many at each heartbeat as there can be, all else is at once. Nothing is forgiven that never leads "
                 "below 0; peers at one address count as long as they are there.", class_="faint"),
        _table(OFFENCE_HEAD, list(offence_rows(checked)), "How many offences lead below each threshold", (0,)),
    )  # fmt: skip
    yield _section("Definitions", "definitions", _definitions(checked.findings))


def _section(title: str, id_: str, *content: Html) -> Html:
    return tag("section", tag("h2", title), *content, id=id_)


def _findings(findings: Sequence[ScoreFinding]) -> Html:
    if not findings:
        return tag("p", "Nothing.", class_="card")
    items = [
        tag("li", tag("span", f"{each.severity}: ", class_="severity"), each.words, " ", tag("small", _place(each)),
            class_=f"severity-{each.severity}")
        for each in findings[:_MOST_ROWS]
    ]  # fmt: skip
    return tag("ul", *items, class_="findings card")


def _place(found: ScoreFinding) -> str:
    line = f", line {found.line}" if found.line else ""
    return f"{found.check}{f': {found.place}' if found.place else ''}{line}"


def _how_played(checked: Checked, played: Played) -> str:
    words = (
        "Each peer plays its part before a scorer of its own, from joining all meshes on; offences begin after a "
        "third of the time. Below 0 a peer is pruned, and grafted again after its backoff when it is not. "
    )
    unknown = [topic for topic in played.stage.played if topic.per_refresh is None]
    if unknown:
        rate = traffic_of(checked.worth, unknown[0]) / checked.worth.interval_s
        others = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        words += (
            f"The traffic of {unknown[0].group.name}{others} is not known; it is played with what a usual member "
            f"needs to be at its caps ({figure(rate)} messages per second). "
        )
    if played.stage.left_out:
        words += f"{plural(played.stage.left_out, 'group')} of topics that count least are not played."
    return words


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], label: str, text: Sequence[int]) -> Html:
    more = tag("p", f"{len(rows) - _MOST_ROWS} more are in the output of --json.", class_="faint")
    table = labelled_table(head, rows[:_MOST_ROWS], label, text)
    return tag("div", table, more) if len(rows) > _MOST_ROWS else table


def _definitions(findings: Sequence[ScoreFinding]) -> Html:
    found = {each.check for each in findings}
    entries = [
        part
        for check in CHECKS
        if check.id in found
        for part in (tag("dt", check.id), tag("dd", f"{check.meaning[0].upper()}{check.meaning[1:]}."))
    ]
    return tag("dl", *entries) if entries else tag("p", "No check found anything.")
