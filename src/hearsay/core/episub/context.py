"""What the parts of one topic's membership share."""

from __future__ import annotations

from dataclasses import dataclass

from hearsay.core.episub.agenda import Agenda, Task
from hearsay.core.episub.connections import Connections
from hearsay.core.episub.parameters import EpisubParameters
from hearsay.core.episub.target_sizes import TargetSizes
from hearsay.core.episub.views import Views
from hearsay.core.language.identifiers import Micros, TopicId
from hearsay.core.shell.shell import Shell


class Sequence:
    """Numbers of what one node sends on walks: they only grow, also when it leaves and joins or is started again.

    So they are the time in microseconds, or one more than the last.
    """

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = 0

    def next(self, now: Micros) -> int:
        self._last = max(self._last + 1, now)
        return self._last


@dataclass(slots=True)
class Context:
    shell: Shell
    parameters: EpisubParameters
    topic: TopicId
    views: Views
    target_sizes: TargetSizes
    connections: Connections
    agenda: Agenda
    sequence: Sequence
    """One of the node, for all its topics."""

    def next_sequence(self) -> int:
        return self.sequence.next(self.shell.now)

    def reply_due(self) -> Micros:
        """Until when an answer is waited for; the membership is reminded then."""
        due = self.shell.now + self.parameters.reply_timeout_ms * 1000
        self.agenda.set_earliest(Task.EXPIRE, self.topic, due)
        return due
