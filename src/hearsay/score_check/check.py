"""The result of the checks of a subject, as JSON and as text: findings, and the costs of silence and of offences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hearsay.number_text import count, figure, plain, plural, seconds
from hearsay.score_check import peer_checks, threshold_checks
from hearsay.score_check.findings import Check, ScoreFinding, Severity, finding
from hearsay.score_check.offences import LEVELS, Offence, Silence, offences, silences
from hearsay.score_check.subject import OtherPopulation, Subject
from hearsay.score_check.worth import Worth, worth_of
from hearsay.text import escape, table_text

_BY_SUBJECT = (peer_checks, threshold_checks)
CHECKS = tuple(each for module in _BY_SUBJECT for each in vars(module).values() if isinstance(each, Check))
"""All checks, in the order of their output."""
IDS = tuple(each.id for each in CHECKS)
_MOST_ROWS = 40
FINDING_HEAD = ("severity", "check", "topic", "what was found")
SILENCE_HEAD = ("topic", "silence in it", "then at", "below 0 after joining", "after stopping")
OFFENCE_HEAD = ("number of", "below 0", *LEVELS[1:], "forgiven after", "forgotten after")


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of checks. Findings are in the order of severity, the most severe first, and then in the order of
    the checks.
    """

    worth: Worth
    findings: Sequence[ScoreFinding]
    silences: Sequence[Silence]
    offences: Sequence[Offence]

    @property
    def subject(self) -> Subject:
        return self.worth.subject

    def at_least(self, severity: str) -> list[ScoreFinding]:
        """Return the findings with at least this severity. Raise `ValueError` for an unknown severity."""
        enough = list(Severity)[list(Severity).index(Severity(severity)) :]
        return [each for each in self.findings if each.severity in enough]

    def counts(self) -> dict[str, int]:
        """Return the number of findings of each severity, the most severe first."""
        found = Counter(each.severity for each in self.findings)
        return {str(severity): found[severity] for severity in reversed(Severity)}

    def to_json(self) -> dict[str, Any]:
        """Return the object that `hearsay score --json` prints."""
        return {
            "subject": self.subject.name,
            "counts": self.counts(),
            "findings": [_finding(each) for each in self.findings],
            "peers": {"at_best": self.worth.best, "usual": self.worth.usual},
            "topics": [_silence(each) for each in self.silences],
            "offences": [_offence(each) for each in self.offences],
            "expected": self.subject.expected.to_mapping(),
            "not_looked_at": [asdict(each) for each in self.subject.others],
            "router_is_run": self.subject.router_is_run,
        }


def chosen(only: Iterable[str] = (), ignored: Iterable[str] = ()) -> tuple[Check, ...]:
    """Return the checks with an id in `only`, or all checks if `only` is empty. Leave out checks with an id in
    `ignored`.
    """
    wanted, unwanted = set(only), set(ignored)
    return tuple(each for each in CHECKS if (not wanted or each.id in wanted) and each.id not in unwanted)


def check_subject(subject: Subject, checks: Sequence[Check] = CHECKS) -> Checked:
    """Run these checks on a subject, and return the result."""
    worth = worth_of(subject)
    findings = [finding(each, remark, worth) for each in checks for remark in each.look(worth)]
    order = list(Severity)
    findings.sort(key=lambda each: order.index(each.severity), reverse=True)
    return Checked(worth, findings, silences(worth), list(offences(worth)))


def _finding(found: ScoreFinding) -> dict[str, Any]:
    said = {"words": plain(found.words), "place": found.place or None, "line": found.line or None}
    return {**asdict(found), **said, "severity": str(found.severity)}


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
    """Return a finding as a line like the warnings of compilers: FILE:LINE, severity, words, and the id of the check.
    `subject` is the name of the subject, which is FILE. Without a known line, `:LINE` is missing.
    """
    place = f"{subject}:{found.line}" if found.line else subject
    return escape(plain(f"{place}: {found.severity}: {found.words} [{found.check}]"))


def finding_cells(checked: Checked) -> list[tuple[str, ...]]:
    """Return the findings as rows below `FINDING_HEAD`."""
    return [(str(each.severity), each.check, each.topic or "", each.words) for each in checked.findings]


def summary(checked: Checked) -> str:
    counts = [plural(many, severity) for severity, many in checked.counts().items() if many]
    return plain(f"{escape(checked.subject.name)}: {', '.join(counts) or 'nothing found'}")


def not_looked_at(subject: Subject) -> Iterator[str]:
    """Yield a line about the populations whose routers are not checked, if there are any; and a line if no node runs
    the checked router.
    """
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
            more = [f"and {len(rows) - _MOST_ROWS} more; --json has all"] if len(rows) > _MOST_ROWS else []
            lines += [table_text(head, shown, left), *more, ""]
    return "\n".join(lines).rstrip()


def silence_rows(checked: Checked) -> Iterator[tuple[str, ...]]:
    """Yield a row below `SILENCE_HEAD` for each group of topics: the cost of silence in one topic of the group for a
    peer that has the best score in all other topics.
    """
    for each in checked.silences:
        times = ("never" if time is None else seconds(time) for time in (each.from_start_s, each.from_stop_s))
        yield (each.group.words, str(each.verdict), figure(each.score), *times)


def offence_rows(checked: Checked) -> Iterator[tuple[str, ...]]:
    """Yield a row below `OFFENCE_HEAD` for each offence: its cost for a peer that starts with the best score."""
    for each in checked.offences:
        needed = ("never" if each.needed[level] is None else count(each.needed[level] or 0) for level in LEVELS)
        times = ("" if time is None else seconds(time) for time in (each.forgiven_s, each.forgotten_s))
        name = each.name if each.topic is None else f"invalid in {each.topic}"
        yield (name, *needed, *times)
