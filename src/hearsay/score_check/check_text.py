"""A check of scores for the terminal: a line for each finding, then what silence and offences come to."""

from __future__ import annotations

from collections.abc import Iterator

from hearsay.score_check.check import Checked
from hearsay.score_check.findings import ScoreFinding
from hearsay.score_check.offences import LEVELS
from hearsay.score_check.subject import OtherPopulation, Subject
from hearsay.text.escape import escape
from hearsay.text.numbers import count, figure, plain, plural, seconds
from hearsay.text.tables import table_text

_MOST_ROWS = 40
FINDING_HEAD = ("severity", "check", "topic", "what was found")
SILENCE_HEAD = ("topic", "silence in it", "then at", "below 0 after joining", "after stopping")
OFFENCE_HEAD = ("number of", "below 0", *LEVELS[1:], "forgiven after", "forgotten after")


def finding_line(subject: str, found: ScoreFinding) -> str:
    """As compilers have it: place, severity, what, and which check says so."""
    place = f"{subject}:{found.line}" if found.line else subject
    return escape(plain(f"{place}: {found.severity}: {found.words} [{found.check}]"))


def finding_cells(checked: Checked) -> list[tuple[str, ...]]:
    """The findings as a table."""
    return [(str(each.severity), each.check, each.topic or "", each.words) for each in checked.findings]


def summary(checked: Checked) -> str:
    counts = [plural(many, severity) for severity, many in checked.counts().items() if many]
    return plain(f"{escape(checked.subject.name)}: {', '.join(counts) or 'nothing found'}")


def not_looked_at(subject: Subject) -> Iterator[str]:
    """The routers of a scenario that the check ignores; nothing for other subjects."""
    if subject.others:
        yield plain(f"{escape(subject.name)}: not looked at: {', '.join(map(_other_words, subject.others))}")
    if not subject.router_is_run:
        yield f"{escape(subject.name)}: no node runs [router]: the populations contain all nodes"


def _other_words(other: OtherPopulation) -> str:
    many = f"a share of {figure(other.share or 0.0)}" if other.nodes is None else plural(other.nodes, "node")
    return f"{other.place} ({escape(other.router)}, {many})"


def check_text(checked: Checked) -> str:
    lines = [finding_line(checked.subject.name, each) for each in checked.findings]
    lines += [summary(checked), *not_looked_at(checked.subject), ""]
    for head, rows, left in (
        (SILENCE_HEAD, list(silence_rows(checked)), 2),
        (OFFENCE_HEAD, list(offence_rows(checked)), 1),
    ):
        if rows:
            shown = [[escape(plain(cell)) for cell in row] for row in rows[:_MOST_ROWS]]
            lines += [table_text(head, shown, left), *_more(len(rows)), ""]
    return "\n".join(lines).rstrip()


def silence_rows(checked: Checked) -> Iterator[tuple[str, ...]]:
    """Lines about silence of a peer with the best score elsewhere."""
    for each in checked.silences:
        times = ("never" if time is None else seconds(time) for time in (each.from_start_s, each.from_stop_s))
        yield (each.group.words, str(each.verdict), figure(each.score), *times)


def offence_rows(checked: Checked) -> Iterator[tuple[str, ...]]:
    """Lines about offences of a peer that starts with the best score."""
    for each in checked.offences:
        needed = ("never" if each.needed[level] is None else count(each.needed[level] or 0) for level in LEVELS)
        times = ("" if time is None else seconds(time) for time in (each.forgiven_s, each.forgotten_s))
        name = each.name if each.topic is None else f"invalid in {each.topic}"
        yield (name, *needed, *times)


def _more(rows: int) -> list[str]:
    return [f"and {rows - _MOST_ROWS} more; --json has all"] if rows > _MOST_ROWS else []
