"""The checks of a subject: findings and figures, as JSON and as text with a line for each finding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hearsay.score_check import silence_checks, threshold_checks, traffic_checks
from hearsay.score_check.findings import Check, ScoreFinding, Severity, finding
from hearsay.score_check.offences import LEVELS, Offence, Silence, offences, silences
from hearsay.score_check.subject import OtherPopulation, Subject
from hearsay.score_check.worth import Worth, worth_of
from hearsay.text.escape import escape
from hearsay.text.numbers import count, figure, plain, plural, seconds
from hearsay.text.tables import table_text

_BY_SUBJECT = (silence_checks, traffic_checks, threshold_checks)
CHECKS = tuple(each for module in _BY_SUBJECT for each in vars(module).values() if isinstance(each, Check))
"""All checks, in the order of their output."""
IDS = tuple(each.id for each in CHECKS)
_MOST_ROWS = 40
FINDING_HEAD = ("severity", "check", "topic", "what was found")
SILENCE_HEAD = ("topic", "silence in it", "then at", "below 0 after joining", "after stopping")
OFFENCE_HEAD = ("number of", "below 0", *LEVELS[1:], "forgiven after", "forgotten after")


@dataclass(frozen=True, slots=True)
class Checked:
    """Findings, the most severe first, then in the order of the checks; and the figures behind them."""

    worth: Worth
    findings: Sequence[ScoreFinding]
    silences: Sequence[Silence]
    offences: Sequence[Offence]

    @property
    def subject(self) -> Subject:
        return self.worth.subject

    def at_least(self, severity: str) -> list[ScoreFinding]:
        enough = list(Severity)[list(Severity).index(Severity(severity)) :]
        return [each for each in self.findings if each.severity in enough]

    def counts(self) -> dict[str, int]:
        """Return the number of findings of each severity, the most severe first."""
        found = Counter(each.severity for each in self.findings)
        return {str(severity): found[severity] for severity in reversed(Severity)}

    def to_json(self) -> dict[str, Any]:
        expected = self.subject.expected
        return {
            "subject": self.subject.name,
            "counts": self.counts(),
            "findings": [_finding(each) for each in self.findings],
            "peers": {"at_best": self.worth.best, "usual": self.worth.usual},
            "topics": [_silence(each) for each in self.silences],
            "offences": [_offence(each) for each in self.offences],
            "expected": expected.to_mapping(),
            "not_looked_at": [asdict(each) for each in self.subject.others],
            "router_is_run": self.subject.router_is_run,
        }


def chosen(only: Iterable[str] = (), ignored: Iterable[str] = ()) -> tuple[Check, ...]:
    """Return the checks to make: those in `only`, or all, without those in `ignored`."""
    wanted, unwanted = set(only), set(ignored)
    return tuple(each for each in CHECKS if (not wanted or each.id in wanted) and each.id not in unwanted)


def check(subject: Subject, checks: Sequence[Check] | None = None) -> Checked:
    worth = worth_of(subject)
    made = chosen() if checks is None else checks
    findings = [finding(each, remark, worth) for each in made for remark in each.look(worth)]
    order = list(Severity)
    findings.sort(key=lambda each: order.index(each.severity), reverse=True)
    return Checked(worth, findings, silences(worth), list(offences(worth)))


def _finding(found: ScoreFinding) -> dict[str, Any]:
    return {
        "check": found.check,
        "severity": str(found.severity),
        "topic": found.topic,
        "place": found.place or None,
        "line": found.line or None,
        "words": plain(found.words),
        "figures": dict(found.figures),
    }


def _silence(silence: Silence) -> dict[str, Any]:
    group = silence.group
    return {
        "topic": group.name,
        "count": group.count,
        "messages_per_s": group.messages_per_s,
        "silence": str(silence.verdict),
        "score": silence.score,
        "from_start_s": silence.from_start_s,
        "from_stop_s": silence.from_stop_s,
    }


def _offence(offence: Offence) -> dict[str, Any]:
    return {
        "offence": offence.name,
        "topic": offence.topic,
        **offence.needed,
        "forgiven_s": offence.forgiven_s,
        "forgotten_s": offence.forgotten_s,
    }


def finding_line(subject: str, found: ScoreFinding) -> str:
    """Return a finding in the form of compilers: place, severity, text, and the id of the check."""
    place = f"{subject}:{found.line}" if found.line else subject
    return escape(plain(f"{place}: {found.severity}: {found.words} [{found.check}]"))


def finding_cells(checked: Checked) -> list[tuple[str, ...]]:
    """Return the findings as rows of a table."""
    return [(str(each.severity), each.check, each.topic or "", each.words) for each in checked.findings]


def summary(checked: Checked) -> str:
    counts = [plural(many, severity) for severity, many in checked.counts().items() if many]
    return plain(f"{escape(checked.subject.name)}: {', '.join(counts) or 'nothing found'}")


def not_looked_at(subject: Subject) -> Iterator[str]:
    """Yield a line for each router of a scenario that is not checked; none for subjects that are no scenarios."""
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
    """Yield a row for each group of topics, about a peer that is silent in one of them and at its best elsewhere."""
    for each in checked.silences:
        times = ("never" if time is None else seconds(time) for time in (each.from_start_s, each.from_stop_s))
        yield (each.group.words, str(each.verdict), figure(each.score), *times)


def offence_rows(checked: Checked) -> Iterator[tuple[str, ...]]:
    """Yield rows about offences of a peer that starts with the best score."""
    for each in checked.offences:
        needed = ("never" if each.needed[level] is None else count(each.needed[level] or 0) for level in LEVELS)
        times = ("" if time is None else seconds(time) for time in (each.forgiven_s, each.forgotten_s))
        name = each.name if each.topic is None else f"invalid in {each.topic}"
        yield (name, *needed, *times)


def _more(rows: int) -> list[str]:
    return [f"and {rows - _MOST_ROWS} more; --json has all"] if rows > _MOST_ROWS else []
