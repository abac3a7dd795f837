"""Holding a subject against the checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hearsay.score_check.checks.all_checks import chosen
from hearsay.score_check.findings import Check, ScoreFinding, Severity, finding
from hearsay.score_check.offences import Offence, offences
from hearsay.score_check.silence import Silence, silences
from hearsay.score_check.subject import Subject
from hearsay.score_check.worth import Worth, worth_of
from hearsay.text.numbers import plain


@dataclass(frozen=True, slots=True)
class Checked:
    """Findings, the heaviest first, else in the order of the checks; and the figures behind them."""

    worth: Worth
    findings: Sequence[ScoreFinding]
    silences: Sequence[Silence]
    offences: Sequence[Offence]

    @property
    def subject(self) -> Subject:
        return self.worth.subject

    def at_least(self, severity: Severity) -> list[ScoreFinding]:
        enough = list(Severity)[list(Severity).index(severity) :]
        return [each for each in self.findings if each.severity in enough]

    def counts(self) -> dict[str, int]:
        """How many findings there are of each severity, the heaviest first."""
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
