"""What the parts of one topic's membership share."""

from __future__ import annotations

from dataclasses import dataclass

from hearsay.core.episub.agenda import Agenda, Task
from hearsay.core.episub.connections import Connections
from hearsay.core.episub.parameters import EpisubParameters
from hearsay.core.episub.sizing import Sizing
from hearsay.core.episub.views import Views
from hearsay.core.identifiers import Micros, TopicId
from hearsay.core.shell import Router


@dataclass(slots=True)
class Context:
    shell: Router
    parameters: EpisubParameters
    topic: TopicId
    views: Views
    sizing: Sizing
    connections: Connections
    agenda: Agenda
    sequence: int = 0

    def next_sequence(self) -> int:
        """Numbers of what this node sends on walks."""
        self.sequence += 1
        return self.sequence

    def reply_due(self) -> Micros:
        """Until when an answer is waited for; the membership is reminded then."""
        due = self.shell.now + self.parameters.reply_timeout_ms * 1000
        self.agenda.set_earliest(Task.EXPIRE, self.topic, due)
        return due
