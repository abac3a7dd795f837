"""The verdicts of applications on messages.

Rules:

* A message is valid or invalid at every node: by its publisher (`validation.invalid`; the last entry that matches
  counts), otherwise by chance (`reject_share`).
* With `forwards_invalid` the nodes of an entry accept the messages that the entry makes invalid, and so forward them.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from hearsay.core.language.events import Verdict
from hearsay.core.shell.randomness import Purpose, Randomness, key_of
from hearsay.sim.plan.draws import chosen
from hearsay.sim.plan.plan import Plan

_NO_NODES: Container[int] = ()


class Verdicts:
    """The verdict of each node on each message."""

    def __init__(self, plan: Plan, randomness: Randomness) -> None:
        self._randomness = randomness
        self._reject_millionths = plan.scenario.validation.reject_millionths
        self._invalid: dict[Any, tuple[Verdict, Container[int]]] = {}
        """Verdict, and nodes that accept nevertheless, by message."""
        for number, entry in enumerate(plan.scenario.validation.invalid):
            senders = chosen(entry, plan.router_of, randomness, Purpose.INVALID_SENDERS, number)
            topics = {place for place, name in enumerate(plan.topics) if entry.topics is None or name in entry.topics}
            found = (Verdict(entry.verdict), senders if entry.forwards_invalid else _NO_NODES)
            for publication in plan.publications:
                message = publication.message
                concerned = publication.publisher in senders and publication.topic in topics
                if concerned and randomness.chance(entry.message_millionths, Purpose.INVALID, number, message):
                    self._invalid[message] = found

    def of(self, node: int, message: Any) -> Verdict:
        """Return the verdict of a node's application on a message."""
        found = self._invalid.get(message)
        if found is not None:
            verdict, accepting = found
            return Verdict.ACCEPT if node in accepting else verdict
        rejected = self._randomness.chance(self._reject_millionths, Purpose.REJECT, key_of(message))
        return Verdict.REJECT if rejected else Verdict.ACCEPT
