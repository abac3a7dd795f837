"""A check of scores as one HTML file: findings, curves of scripted peers, cost of silence and offences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from hearsay.report import svg
from hearsay.report.files import write_report_file
from hearsay.report.html import Html, asset, capitalized, document, footer, labelled_table, scrolling, section, tag
from hearsay.report.score_curves import cards, overview
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
from hearsay.score_check.curves import PARTS, Played, play_all, traffic_of
from hearsay.score_check.findings import ScoreFinding
from hearsay.text.numbers import count, figure, plural, seconds

_MAX_ROWS = 400


def write_score_page(checked: Checked, out: Path) -> None:
    """Play the scripted peers, and write the page."""
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
        f"a decay every {seconds(score.decay_interval_ms / 1000)}; the best score is "
        f"{figure(checked.worth.best)}, that of an average peer {figure(checked.worth.usual)}."
    )


def _sections(checked: Checked, played: Played) -> Iterator[Html]:
    yield section("Findings", "findings", _findings(checked.findings))
    yield section(
        "Scores over time",
        "scores",
        tag("div", svg.legend(dict(enumerate(curve.name for curve in played.curves))),
            scrolling(tag("div", overview(played), class_="chart"), "Scores of scripted peers over time"),
            tag("p", _how_played(checked, played), class_="faint"), class_="card"),
    )  # fmt: skip
    yield section(
        "Parts of the scores",
        "parts",
        svg.legend(dict(enumerate(PARTS))),
        tag("div", *cards(played), class_="figures"),
    )
    yield section(
        "Silence in one topic",
        "silence",
        tag("p", "For a peer with the best score in all other topics.", class_="faint"),
        _table(SILENCE_HEAD, list(silence_rows(checked)), "Cost of silence in one topic", (0, 1)),
    )
    yield section(
        "Offences",
        "offences",
        tag("p", "Number of offences that bring a peer with the best score below each threshold. Promises are broken "
                 "at the highest rate per heartbeat; all other offences happen at once. Offences that never lead "
                 "below 0 are not counted; peers at one address count while they are connected.", class_="faint"),
        _table(OFFENCE_HEAD, list(offence_rows(checked)), "Number of offences to fall below each threshold", (0,)),
    )  # fmt: skip
    yield section("Definitions", "definitions", _definitions(checked.findings))


def _findings(findings: Sequence[ScoreFinding]) -> Html:
    if not findings:
        return tag("p", "Nothing.", class_="card")
    items = [
        tag("li", tag("span", f"{each.severity}: ", class_="severity"), each.words, " ", tag("small", _place(each)),
            class_=f"severity-{each.severity}")
        for each in findings[:_MAX_ROWS]
    ]  # fmt: skip
    return tag("ul", *items, class_="findings card")


def _place(found: ScoreFinding) -> str:
    line = f", line {found.line}" if found.line else ""
    return f"{found.check}{f': {found.place}' if found.place else ''}{line}"


def _how_played(checked: Checked, played: Played) -> str:
    words = (
        "Each scripted peer has its own scorer, from the moment it joins all meshes; offences begin after a third of "
        "the time. A peer below 0 is pruned; when its score recovers, it is grafted again after its backoff. "
    )
    unknown = [topic for topic in played.stage.played if topic.per_refresh is None]
    if unknown:
        rate = traffic_of(checked.worth, unknown[0]) / checked.worth.interval_s
        others = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        words += (
            f"The traffic of {unknown[0].group.name}{others} is unknown; the rate is what an average member needs to "
            f"reach its caps ({figure(rate)} messages per second). "
        )
    if played.stage.left_out:
        words += f"{plural(played.stage.left_out, 'group')} of topics with the lowest weight are not played."
    return words


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], label: str, text: Sequence[int]) -> Html:
    more = tag("p", f"{len(rows) - _MAX_ROWS} more are in the output of --json.", class_="faint")
    table = labelled_table(head, rows[:_MAX_ROWS], label, text)
    return tag("div", table, more) if len(rows) > _MAX_ROWS else table


def _definitions(findings: Sequence[ScoreFinding]) -> Html:
    found = {each.check for each in findings}
    entries = [
        part
        for check in CHECKS
        if check.id in found
        for part in (tag("dt", check.id), tag("dd", f"{capitalized(check.meaning)}."))
    ]
    return tag("dl", *entries) if entries else tag("p", "No check found anything.")
