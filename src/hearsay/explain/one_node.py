"""Why one node got the message when it did: the path, who else sent it, and what became of each copy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hearsay.explain import reasons
from hearsay.explain.announcements import ON_REQUEST, announcements_between
from hearsay.explain.books import Copy, Fate
from hearsay.explain.path import Path, path_to
from hearsay.explain.reasons import Cause
from hearsay.explain.refused_parts import RefusedParts, refused_parts
from hearsay.explain.story import Story

FIRST = Cause("the first copy", None)
DUPLICATE = Cause("a duplicate", None)
UNTOLD = Cause("arrived; what became of it is not told", None)


@dataclass(frozen=True, slots=True)
class Sent:
    """A copy, and what became of it."""

    copy: Copy
    outcome: Cause

    @property
    def is_first(self) -> bool:
        return self.outcome is FIRST

    @property
    def failed(self) -> bool:
        """Lost, refused or never sent."""
        return self.outcome not in (FIRST, DUPLICATE, UNTOLD)


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    node: int
    path: Path
    copies: tuple[Sent, ...]
    """All that were sent to the node, or were to be, in the order of time."""
    deliveries: int
    """How often the node delivered it; more than once if it had forgotten it meanwhile."""
    joined_us: int | None
    """When the node came to the topic, if that was after the publication and before it got the message."""


def explain_node(story: Story, node: int) -> NodeAnswer | None:
    """None if the node never got the message."""
    books = story.books
    there = books.deliveries.of(node)
    if not there:
        return None
    path = asked_path(story, there.start)
    copies = story.books.copies.to(node)
    sent = [books.copies.at(place) for place in range(copies.start, copies.stop)]
    last_us = max((copy.arrived_us or 0 for copy in sent), default=0)
    unread = refused_parts(story.run, [node], books.start_us(), last_us)
    first = path.hops[-1].copy if path.hops else None
    found = tuple(outcomes(story, sent, first, path.delivered_us, unread))
    return NodeAnswer(node, path, found, len(there), _joined_us(story, node, path.delivered_us))


def _joined_us(story: Story, node: int, delivered_us: int) -> int | None:
    members = story.members
    since = members.since_us[(members.node == node) & (members.since_us <= delivered_us)]
    joined_us = int(since.max()) if len(since) else None
    return joined_us if joined_us is not None and joined_us > story.books.start_us() else None


def asked_path(story: Story, place: int) -> Path:
    """The path to a delivery, with what led to the copies that somebody asked for."""
    path = path_to(story.books, place, story.model)
    asked = {(hop.sender, hop.receiver) for hop in path.hops if hop.copy is not None and hop.copy.via in ON_REQUEST}
    if not asked:
        return path
    announcements = announcements_between(story.run, asked, story.members, story.books.start_us(), path.delivered_us)
    return path_to(story.books, place, story.model, announcements)


def outcomes(
    story: Story, sent: list[Copy], first: Copy | None, delivered_us: int | None, unread: RefusedParts
) -> list[Sent]:
    """What became of the copies to one node. `first` is the one that it delivered."""
    return [Sent(copy, _outcome(story, copy, first, delivered_us, unread)) for copy in sent]


def _outcome(story: Story, copy: Copy, first: Copy | None, delivered_us: int | None, unread: RefusedParts) -> Cause:
    if copy == first:
        return FIRST
    if copy.fate is not Fate.ARRIVED:
        return reasons.of_fate(copy.fate)
    refusal = _refusal(story, copy)
    if refusal is not None:
        return reasons.of_reason(refusal)
    not_looked_at = unread.reason_of(copy)
    if not_looked_at is not None:
        return reasons.of_reason(not_looked_at)
    begun_us = None if first is None else first.arrived_us
    had_us = begun_us if begun_us is not None else delivered_us
    return DUPLICATE if had_us is not None and copy.arrived_us is not None and copy.arrived_us >= had_us else UNTOLD


def _refusal(story: Story, copy: Copy) -> int | None:
    """The reason of the row that says that this copy was refused, at once or by the application."""
    rejects = story.books.rejects
    there = rejects.of(copy.receiver)
    times, remotes = rejects.time_us[there.start : there.stop], rejects.remote[there.start : there.stop]
    if copy.arrived_us is None or not len(times):
        return None
    mine = remotes == copy.sender
    if story.model is not None and not story.model.service_us:
        found = np.flatnonzero(mine & np.isin(times, (copy.arrived_us, copy.arrived_us + story.model.validation_us)))
    else:
        found = np.flatnonzero(mine & (times >= copy.arrived_us))
    return int(rejects.reason[there.start + int(found[0])]) if len(found) else None
