"""The path of a first copy from the publisher to a node: its hops, and the time of each step.

Rules:

* A delivery names the sender of its copy. The copy is the earliest one of that sender, with the hops and via of the
  delivery, that arrived since the node's previous delivery. In a simulation without service times, a copy that
  arrived, or whose validation ended, at the time of the delivery takes precedence. For a message in parts, the copy
  is the part that completed it.
* A sender had the message since its last delivery before it sent the copy; a publisher, since the publication; a node
  outside the topic, since the arrival of the copy that a script injected.
* The steps of a hop begin when the sender had the message and end when the receiver delivered it. They follow each
  other, so they add up to the delay of the path. Times that the trace does not separate are one step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from hearsay.core.language.actions import Via
from hearsay.explain.copies import Copy, Fate, History
from hearsay.explain.message import LinkModel
from hearsay.explain.requests import Request, Requests
from hearsay.trace.language.schema import NONE


class Step(StrEnum):
    """The steps of a hop, in order."""

    HELD = "held"
    """At the sender, before it sent the copy."""
    ABSENT = "absent"
    """At the sender, before the receiver joined the topic."""
    UNCONNECTED = "unconnected"
    """At the sender, before the two were connected."""
    HEARTBEAT = "heartbeat"
    """At the sender, before it announced the message."""
    NEXT_IHAVE = "next_ihave"
    """At the sender, before its announcement timer fired (episub)."""
    ANNOUNCED = "announced"
    """The announcement in flight."""
    ASKING = "asking"
    """At the receiver, before it sent the request."""
    ASKED = "asked"
    """The request in flight."""
    ANSWERING = "answering"
    """At the sender, from the request to the send of the copy."""
    QUEUE = "queue"
    """In the sender's queue behind other messages; includes jitter."""
    UPLINK = "uplink"
    """Transmission of the copy's own bytes."""
    LINE = "line"
    """Propagation on the link."""
    FLIGHT = "flight"
    """From sending to receiving, where the trace does not separate queue, uplink and link."""
    VALIDATION = "validation"
    """At the receiver, until the application accepted it."""
    HANDLING = "handling"
    """At the receiver, waiting to be handled; includes validation."""
    UNKNOWN = "untold"
    """From the message at the sender to its delivery at the receiver, if the trace has no times of the copy."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """A step of a hop with its times. With clocks of several machines it may end before it begins."""

    step: Step
    from_us: int
    until_us: int

    @property
    def took_us(self) -> int:
        return self.until_us - self.from_us


@dataclass(frozen=True, slots=True)
class Hop:
    """One transfer of the message, from having it at the sender to delivering it at the receiver."""

    sender: int
    receiver: int
    held_us: int
    """Time from which the sender had the message."""
    delivered_us: int
    copy: Copy | None
    times: tuple[StepTime, ...]

    @property
    def took_us(self) -> int:
        return self.delivered_us - self.held_us

    def took(self, *steps: Step) -> int:
        """Return the total time of these steps."""
        return sum(each.took_us for each in self.times if each.step in steps)


@dataclass(frozen=True, slots=True)
class Path:
    """The hops to a node, in order of time; none if the node published the message."""

    node: int
    delivered_us: int
    hops: tuple[Hop, ...]
    complete: bool
    """True if the path begins at the publication. If not, how the message got to its start is unknown."""

    @property
    def nodes(self) -> tuple[int, ...]:
        return (self.hops[0].sender, *(hop.receiver for hop in self.hops)) if self.hops else (self.node,)


def path_to(history: History, index: int, model: LinkModel | None, requests: Requests | None = None) -> Path:
    """Return the path of the delivery with this index. Without `requests`, the time until a request is not
    separated from other waiting.
    """
    deliveries = history.deliveries
    node, delivered_us = int(deliveries.node[index]), int(deliveries.time_us[index])
    hops: list[Hop] = []

    def add(sender: int, receiver: int, held_us: int, until_us: int, copy: Copy | None) -> None:
        request = requests.before(copy, held_us) if requests is not None and copy is not None else None
        ends = [(Step.UNKNOWN, until_us)] if copy is None else _ends(copy, until_us, model, request)
        hops.insert(0, Hop(sender, receiver, held_us, until_us, copy, tuple(_times(held_us, ends))))

    def found(complete: bool) -> Path:
        return Path(node, delivered_us, tuple(hops), complete)

    seen: set[int] = set()
    at = index
    receiver, until_us = node, delivered_us
    while at not in seen:
        seen.add(at)
        if _is_own(history, at):
            return found(True)
        copy, sender = copy_of(history, at, model), int(deliveries.remote[at])
        if sender == NONE and copy is None:
            break
        sender = sender if copy is None else copy.sender
        sent_us = until_us if copy is None or copy.sent_us is None else copy.sent_us
        delivery, held_us, script = _holding(history, sender, sent_us)
        if held_us is None:
            first_us = sent_us if copy is None or copy.sent_us is not None else copy.arrived_us or until_us
            add(sender, receiver, first_us, until_us, copy)
            break
        add(sender, receiver, held_us, until_us, copy)
        if script is not None:
            add(script.sender, sender, history.published_us, held_us, script)
        if delivery is None:
            return found(True)
        at, receiver, until_us = delivery, sender, held_us
    return found(False)


def copy_of(history: History, index: int, model: LinkModel | None) -> Copy | None:
    """Return the copy of the delivery with this index; None if no copy in the trace fits."""
    deliveries, copies = history.deliveries, history.copies
    node, delivered = int(deliveries.node[index]), int(deliveries.time_us[index])
    remote, hops, via = int(deliveries.remote[index]), int(deliveries.hops[index]), int(deliveries.via[index])
    before = int(deliveries.time_us[index - 1]) if index and deliveries.node[index - 1] == node else NONE
    there = copies.to(node)
    arrived = copies.arrived_us[there]
    fits = (copies.fate[there] == Fate.ARRIVED) & (arrived <= delivered) & (arrived >= before)
    if remote != NONE:
        fits &= copies.sender[there] == remote
    if hops != NONE:
        fits &= (copies.hops[there] == hops) & (copies.via[there] == via)
    found = np.flatnonzero(fits)
    if not len(found):
        return history.last_parts.get(index)
    if model is not None and not model.service_us:
        exact = found[np.isin(arrived[found], (delivered, delivered - model.validation_us))]
        found = exact if len(exact) else found
    return copies.at(there.start + int(found[np.argmin(arrived[found])]))


def _is_own(history: History, index: int) -> bool:
    node, remote = int(history.deliveries.node[index]), int(history.deliveries.remote[index])
    return node == history.publisher and remote in (NONE, node)


def _holding(history: History, node: int, until_us: int) -> tuple[int | None, int | None, Copy | None]:
    """Return how a node had the message until a time: the index of its delivery, the time, and the injected copy.

    The publisher, and a node outside the topic to which a script injected the message, have no delivery; only the
    latter has an injected copy. All are None if the trace does not show that the node had the message.
    """
    latest = history.deliveries.latest(node, until_us)
    if latest is not None and not _is_own(history, latest):
        return latest, int(history.deliveries.time_us[latest]), None
    if node == history.publisher:
        return None, history.published_us, None
    there = history.copies.to(node)
    injected = (history.copies.via[there] == Via.INJECT) & (history.copies.fate[there] == Fate.ARRIVED)
    injected &= history.copies.arrived_us[there] <= until_us
    found = np.flatnonzero(injected)
    if len(found) and history.published:
        copy = history.copies.at(there.start + int(found[-1]))
        return None, copy.arrived_us, copy
    return None, None, None


def _times(start_us: int, ends: Iterable[tuple[Step, int | None]]) -> Iterator[StepTime]:
    """Yield the steps that take time, one after the other; a step whose end is unknown is part of the next one."""
    for step, end_us in ends:
        if end_us is not None:
            if end_us != start_us:
                yield StepTime(step, start_us, end_us)
            start_us = end_us


def _ends(
    copy: Copy, delivered_us: int, model: LinkModel | None, request: Request | None
) -> Iterator[tuple[Step, int | None]]:
    """Yield the steps of a hop with their ends."""
    if request is not None:
        yield Step.ABSENT, request.joined_us
        yield Step.UNCONNECTED, request.connected_us
        yield Step.HEARTBEAT if copy.via == Via.IWANT else Step.NEXT_IHAVE, request.announced_us
        yield Step.ANNOUNCED, request.received_us
        yield Step.ASKING, request.asked_us
        yield Step.ASKED, request.reached_us
    yield Step.HELD if request is None else Step.ANSWERING, copy.sent_us
    if copy.sent_us is None or copy.arrived_us is None:
        yield Step.UNKNOWN, copy.arrived_us
    elif model is None:
        yield Step.FLIGHT, copy.arrived_us
    elif model.uplink_bits_per_s and copy.via != Via.INJECT:
        flight = copy.arrived_us - copy.sent_us
        own = min(model.uplink_us(copy.bytes), flight)
        leaves_us = copy.sent_us + max(0, flight - own - model.latency.base_us(copy.sender, copy.receiver))
        yield Step.QUEUE, leaves_us
        yield Step.UPLINK, leaves_us + own
        yield Step.LINE, copy.arrived_us
    else:
        yield Step.LINE, copy.arrived_us
    if copy.arrived_us is None:
        yield Step.UNKNOWN, delivered_us
    else:
        yield Step.HANDLING if model is not None and model.service_us else Step.VALIDATION, delivered_us
