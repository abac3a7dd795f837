"""What applications answer when a router asks about a message.

Rules:

* A message is valid or not for everybody: by who publishes it (`validation.invalid`; of entries that fit the last one
  holds), else by chance (`reject_share`).
* With `forwards_invalid` the nodes of an entry accept what the entry makes invalid, and so forward it.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from hearsay.core.language.events import Verdict
from hearsay.core.shell.randomness import Purpose, Randomness, key_of
from hearsay.sim.plan.plan import Plan
from hearsay.sim.plan.some_nodes import chosen

_NOBODY: Container[int] = ()


class Verdicts:
    def __init__(self, plan: Plan, randomness: Randomness) -> None:
        self._randomness = randomness
        self._reject_millionths = plan.scenario.validation.reject_millionths
        self._invalid: dict[Any, tuple[Verdict, Container[int]]] = {}
        """By message what is answered, and who accepts it nevertheless."""
        for number, entry in enumerate(plan.scenario.validation.invalid):
            senders = chosen(entry, plan.router_of, randomness, Purpose.INVALID_SENDERS, number)
            topics = {place for place, name in enumerate(plan.topics) if entry.topics is None or name in entry.topics}
            found = (Verdict(entry.verdict), senders if entry.forwards_invalid else _NOBODY)
            for publication in plan.publications:
                message = publication.message
                concerned = publication.publisher in senders and publication.topic in topics
                if concerned and randomness.chance(entry.message_millionths, Purpose.INVALID, number, message):
                    self._invalid[message] = found

    def of(self, node: int, message: Any) -> Verdict:
        """What the application of a node says of a message."""
        found = self._invalid.get(message)
        if found is not None:
            verdict, accomplices = found
            return Verdict.ACCEPT if node in accomplices else verdict
        rejected = self._randomness.chance(self._reject_millionths, Purpose.REJECT, key_of(message))
        return Verdict.REJECT if rejected else Verdict.ACCEPT
