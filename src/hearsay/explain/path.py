"""The path of a first copy: from the publisher to a node, hop by hop, and what each step took.

Rules:

* A delivery names who the copy came from. It is the earliest copy of that sender, with the delivery's hops and via,
  that arrived since the node's delivery before; in a simulation without service times, the one whose arrival and
  validation end at the delivery, if there is one. Of a message in parts it is the part that made it whole.
* The sender had the message by its last delivery until it sent the copy; the publisher by the publication; and a node
  outside the topic, to whom a script handed the message, when that came.
* The steps of a hop begin when the sender had the message and end when the receiver delivered it. They follow each
  other, so that the steps of a path add up to the delay. What the trace cannot tell apart is one step.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from hearsay.core.language.actions import Via
from hearsay.explain.announcements import Announcements, Asked
from hearsay.explain.books import Books, Copy, Fate
from hearsay.explain.link_model import LinkModel
from hearsay.trace.language.schema import NONE


class Step(StrEnum):
    """What time goes by with, in the order of a hop."""

    HELD = "held"
    """At the sender, before it sent the copy."""
    ABSENT = "absent"
    """At the sender, before the receiver came to the topic."""
    UNCONNECTED = "unconnected"
    """At the sender, before it was connected with the receiver."""
    HEARTBEAT = "heartbeat"
    """At the sender, before it announced the message."""
    NEXT_IHAVE = "next_ihave"
    """At the sender, before its timer for announcements ran out (episub)."""
    ANNOUNCED = "announced"
    """The announcement was under way."""
    ASKING = "asking"
    """At the receiver, before it asked."""
    ASKED = "asked"
    """The request was under way."""
    ANSWERING = "answering"
    """At the sender, before it answered."""
    QUEUE = "queue"
    """In the sender's queue, behind others; jitter is in it where there is some."""
    UPLINK = "uplink"
    """The copy's own bytes left."""
    LINE = "line"
    """On the line."""
    FLIGHT = "flight"
    """From sending to receiving, where nothing tells them apart."""
    VALIDATION = "validation"
    """At the receiver, before the application took it."""
    HANDLING = "handling"
    """At the receiver, waiting for its turn; validation is in it where there is some."""
    UNTOLD = "untold"
    """From the one having it to the other: the copy itself is not in the trace."""


@dataclass(frozen=True, slots=True)
class Spell:
    """A step of a hop. Clocks of several machines may let it end before it begins."""

    step: Step
    from_us: int
    until_us: int

    @property
    def took_us(self) -> int:
        return self.until_us - self.from_us


@dataclass(frozen=True, slots=True)
class Hop:
    sender: int
    receiver: int
    held_us: int
    """When the sender had the message."""
    delivered_us: int
    copy: Copy | None
    spells: tuple[Spell, ...]

    @property
    def took_us(self) -> int:
        return self.delivered_us - self.held_us

    def took(self, *steps: Step) -> int:
        """How long these steps took."""
        return sum(spell.took_us for spell in self.spells if spell.step in steps)


@dataclass(frozen=True, slots=True)
class Path:
    """`hops` are in the order of time; none where the node published the message itself."""

    node: int
    delivered_us: int
    hops: tuple[Hop, ...]
    whole: bool
    """It begins at the publication; otherwise the trace does not tell how the first sender came by the message."""

    @property
    def nodes(self) -> tuple[int, ...]:
        return (self.hops[0].sender, *(hop.receiver for hop in self.hops)) if self.hops else (self.node,)


def path_to(books: Books, place: int, model: LinkModel | None, announcements: Announcements | None = None) -> Path:
    """The path that led to a delivery; without announcements, waiting for one is not told from other waiting."""
    deliveries = books.deliveries
    node, delivered_us = int(deliveries.node[place]), int(deliveries.time_us[place])
    hops: list[Hop] = []
    seen: set[int] = set()
    at = place
    receiver, until_us = node, delivered_us
    while at not in seen:
        seen.add(at)
        sender = int(deliveries.remote[at])
        if _is_own(books, at):
            return Path(node, delivered_us, tuple(reversed(hops)), whole=True)
        copy = copy_of(books, at, model)
        if sender == NONE and copy is None:
            break
        sender = sender if copy is None else copy.sender
        sent_us = until_us if copy is None or copy.sent_us is None else copy.sent_us
        delivery, held_us, script = _holding(books, sender, sent_us)
        if held_us is None:
            first_us = sent_us if copy is None or copy.sent_us is not None else copy.arrived_us or until_us
            hops.append(_hop(sender, receiver, first_us, until_us, copy, model, announcements))
            break
        hops.append(_hop(sender, receiver, held_us, until_us, copy, model, announcements))
        if script is not None:
            hops.append(_hop(script.sender, sender, books.published_us, held_us, script, model, announcements))
            return Path(node, delivered_us, tuple(reversed(hops)), whole=True)
        if delivery is None:
            return Path(node, delivered_us, tuple(reversed(hops)), whole=True)
        at, receiver, until_us = delivery, sender, held_us
    return Path(node, delivered_us, tuple(reversed(hops)), whole=False)


def copy_of(books: Books, place: int, model: LinkModel | None) -> Copy | None:
    """The copy that was delivered; None if the trace has none that could be it."""
    deliveries, copies = books.deliveries, books.copies
    node, delivered = int(deliveries.node[place]), int(deliveries.time_us[place])
    remote, hops, via = int(deliveries.remote[place]), int(deliveries.hops[place]), int(deliveries.via[place])
    before = NONE
    if place and deliveries.node[place - 1] == node:
        before = int(deliveries.time_us[place - 1])
    there = copies.to(node)
    arrived = copies.arrived_us[there]
    fits = (copies.fate[there] == Fate.ARRIVED) & (arrived <= delivered) & (arrived >= before)
    if remote != NONE:
        fits &= copies.sender[there] == remote
    if hops != NONE:
        fits &= (copies.hops[there] == hops) & (copies.via[there] == via)
    found = np.flatnonzero(fits)
    if not len(found):
        return books.last_parts.get(place)
    if model is not None and not model.service_us:
        exact = found[np.isin(arrived[found], (delivered, delivered - model.validation_us))]
        found = exact if len(exact) else found
    return copies.at(there.start + int(found[np.argmin(arrived[found])]))


def _is_own(books: Books, place: int) -> bool:
    node, remote = int(books.deliveries.node[place]), int(books.deliveries.remote[place])
    return node == books.publisher and remote in (NONE, node)


def _holding(books: Books, node: int, until_us: int) -> tuple[int | None, int | None, Copy | None]:
    """How a node had the message at a time: the delivery, or none for the publisher; when; and the script's copy of a
    node that delivers nothing. All None if the trace does not tell."""
    latest = books.deliveries.latest(node, until_us)
    if latest is not None and not _is_own(books, latest):
        return latest, int(books.deliveries.time_us[latest]), None
    if node == books.publisher:
        return None, books.published_us, None
    there = books.copies.to(node)
    handed = (books.copies.via[there] == Via.INJECT) & (books.copies.fate[there] == Fate.ARRIVED)
    handed &= books.copies.arrived_us[there] <= until_us
    found = np.flatnonzero(handed)
    if len(found) and books.published:
        copy = books.copies.at(there.start + int(found[-1]))
        return None, copy.arrived_us, copy
    return None, None, None


def _hop(
    sender: int,
    receiver: int,
    held_us: int,
    delivered_us: int,
    copy: Copy | None,
    model: LinkModel | None,
    announcements: Announcements | None,
) -> Hop:
    if copy is None:
        spells = [Spell(Step.UNTOLD, held_us, delivered_us)]
    else:
        asked = announcements.before(copy, held_us) if announcements is not None else None
        spells = [*_waiting(copy, held_us, asked), *_flight(copy, held_us, model)]
        spells += _handling(copy, delivered_us, model)
    return Hop(sender, receiver, held_us, delivered_us, copy, tuple(spell for spell in spells if spell.took_us))


def _waiting(copy: Copy, held_us: int, asked: Asked | None) -> list[Spell]:
    """From having the message to sending the copy."""
    if copy.sent_us is None:
        return []
    if asked is None:
        return [Spell(Step.HELD, held_us, copy.sent_us)]
    edges = (
        (Step.ABSENT, asked.came_us),
        (Step.UNCONNECTED, asked.connected_us),
        (Step.HEARTBEAT if copy.via == Via.IWANT else Step.NEXT_IHAVE, asked.announced_us),
        (Step.ANNOUNCED, asked.heard_us),
        (Step.ASKING, asked.asked_us),
        (Step.ASKED, asked.reached_us),
        (Step.ANSWERING, copy.sent_us),
    )
    spells: list[Spell] = []
    start = held_us
    for step, end in edges:
        if end is not None:
            spells.append(Spell(step, start, end))
            start = end
    return spells


def _flight(copy: Copy, held_us: int, model: LinkModel | None) -> list[Spell]:
    if copy.arrived_us is None:
        return []
    if copy.sent_us is None:
        return [Spell(Step.UNTOLD, held_us, copy.arrived_us)]
    if model is None:
        return [Spell(Step.FLIGHT, copy.sent_us, copy.arrived_us)]
    if not model.uplink_bits_per_s or copy.via == Via.INJECT:
        return [Spell(Step.LINE, copy.sent_us, copy.arrived_us)]
    flight = copy.arrived_us - copy.sent_us
    own = min(model.uplink_us(copy.bytes), flight)
    queue = max(0, flight - own - model.line_us(copy.sender, copy.receiver))
    leaves = copy.sent_us + queue
    return [
        Spell(Step.QUEUE, copy.sent_us, leaves),
        Spell(Step.UPLINK, leaves, leaves + own),
        Spell(Step.LINE, leaves + own, copy.arrived_us),
    ]


def _handling(copy: Copy, delivered_us: int, model: LinkModel | None) -> list[Spell]:
    if copy.arrived_us is None:
        return [Spell(Step.UNTOLD, copy.sent_us or delivered_us, delivered_us)]
    step = Step.HANDLING if model is not None and model.service_us else Step.VALIDATION
    return [Spell(step, copy.arrived_us, delivered_us)]
