"""The path of a message from its publisher to a node: the hops over the copies that nodes delivered, and the time of
each step of a hop.

Rules:

* The row of a delivery names the sender of the delivered copy. The delivered copy is the earliest copy from this
  sender that arrived since the node's previous delivery and has the hops and the via of the delivery. In a simulation
  without service times, a copy that arrived, or whose validation ended, at the time of the delivery takes precedence.
  For a message in parts, the copy is the part that completed the message.
* A sender has the message from its last delivery before it sent the copy. A publisher has the message from the
  publication, and a node outside of the topic from the arrival of the copy that a script injected.
* The steps of a hop begin when the sender has the message and end when the receiver delivers the message. Each step
  begins when the previous step ends, so the times of the steps add up to the delay of the path. Several steps become
  one if the trace does not separate their times.
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
    """The steps of a hop, in order. The docstring of a step says where the message is, or what is in flight."""

    HELD = "held"
    """At the sender, before the sender sent the copy."""
    ABSENT = "absent"
    """At the sender, before the receiver joined the topic."""
    UNCONNECTED = "unconnected"
    """At the sender, before the sender and the receiver were connected."""
    HEARTBEAT = "heartbeat"
    """At the sender, before the heartbeat that sent the IHAVE."""
    NEXT_IHAVE = "next_ihave"
    """At the sender, before the timer for IHAVEs fired (episub)."""
    ANNOUNCED = "announced"
    """The IHAVE is in flight."""
    ASKING = "asking"
    """At the sender, while the receiver has the IHAVE and has not sent the request."""
    ASKED = "asked"
    """The request is in flight."""
    ANSWERING = "answering"
    """At the sender, from the arrival of the request until the sender sent the copy."""
    QUEUE = "queue"
    """In the sender's queue, behind other messages; the time includes the jitter of the link."""
    UPLINK = "uplink"
    """On the sender's uplink, for the time of the copy's own bytes."""
    LINE = "line"
    """On the link. The time is the latency of the link; without a limit of the uplink, it includes the jitter."""
    FLIGHT = "flight"
    """In the sender's queue, on the uplink or on the link, if the trace does not separate these times."""
    VALIDATION = "validation"
    """At the receiver, until its application accepted the message."""
    HANDLING = "handling"
    """At the receiver, until the message was handled; the time includes the validation."""
    UNKNOWN = "untold"
    """Somewhere between the sender and the delivery: the trace does not show where the message was."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """A step of a hop, with times. If the clocks of two machines differ, a step may end before it begins."""

    step: Step
    from_us: int
    until_us: int

    @property
    def took_us(self) -> int:
        return self.until_us - self.from_us


@dataclass(frozen=True, slots=True)
class Hop:
    """One transfer of the message, from the time at which the sender has it to the delivery at the receiver."""

    sender: int
    receiver: int
    held_us: int
    """Time from which the sender had the message; if it is unknown, the first known time of the hop."""
    delivered_us: int
    copy: Copy | None
    """The copy that the receiver delivered; None if no copy in the trace fits the delivery."""
    times: tuple[StepTime, ...]

    def took(self, *steps: Step) -> int:
        """Return the total time of these steps in microseconds."""
        return sum(each.took_us for each in self.times if each.step in steps)


@dataclass(frozen=True, slots=True)
class Path:
    """The hops of the message to a node, in order of time.

    There are none if the node published the message, or if the trace does not show the sender of the delivered copy.
    """

    node: int
    delivered_us: int
    hops: tuple[Hop, ...]
    complete: bool
    """True if the path begins at the publication. If False, it is unknown how the first node got the message."""

    @property
    def nodes(self) -> tuple[int, ...]:
        """Return the nodes on the path, from the publisher (if `complete`) to `node`."""
        return (self.hops[0].sender, *(hop.receiver for hop in self.hops)) if self.hops else (self.node,)


def path_to(history: History, index: int, model: LinkModel | None, requests: Requests | None = None) -> Path:
    """Return the path to the delivery with this index. Without `requests`, hops have no steps of announcements and
    requests.
    """
    deliveries = history.deliveries
    node, delivered_us = int(deliveries.node[index]), int(deliveries.time_us[index])
    hops: list[Hop] = []

    def add(sender: int, receiver: int, held_us: int, until_us: int, copy: Copy | None) -> None:
        request = requests.before(copy, held_us) if requests is not None and copy is not None else None
        ends = [(Step.UNKNOWN, until_us)] if copy is None else _ends(copy, until_us, model, request)
        hops.insert(0, Hop(sender, receiver, held_us, until_us, copy, tuple(_times(held_us, ends))))

    seen: set[int] = set()
    at: int | None = index
    receiver, until_us, complete = node, delivered_us, True
    while at is not None and not _is_own(history, at):
        seen.add(at)
        complete = False
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
        if delivery in seen:
            break
        at, receiver, until_us, complete = delivery, sender, held_us, True
    return Path(node, delivered_us, tuple(hops), complete)


def copy_of(history: History, index: int, model: LinkModel | None) -> Copy | None:
    """Return the delivered copy of the delivery with this index; None if no copy in the trace fits the delivery."""
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
    """Return True if a delivery is that of the publisher itself. Only real nodes trace such a delivery."""
    node, remote = int(history.deliveries.node[index]), int(history.deliveries.remote[index])
    return node == history.publisher and remote in (NONE, node)


def _holding(history: History, node: int, until_us: int) -> tuple[int | None, int | None, Copy | None]:
    """Return how a node has the message at `until_us`: the index of a delivery, the time from which the node has the
    message, and the copy that a script injected.

    The index is None for the publisher, and for a node outside of the topic to which a script injected a copy. The
    copy is None except for such a node. All three are None if the trace does not show that the node has the message.
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
    """Yield the steps that are not empty. `ends` has all steps with the times of their ends. If the end of a step is
    unknown, its time becomes part of the next step.
    """
    for step, end_us in ends:
        if end_us is not None:
            if end_us != start_us:
                yield StepTime(step, start_us, end_us)
            start_us = end_us


def _ends(
    copy: Copy, delivered_us: int, model: LinkModel | None, request: Request | None
) -> Iterator[tuple[Step, int | None]]:
    """Yield the steps of a hop with the times of their ends; an unknown time is None."""
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
    else:
        if model.uplink_bits_per_s and copy.via != Via.INJECT:
            flight = copy.arrived_us - copy.sent_us
            own = min(model.uplink_us(copy.bytes), flight)
            leaves_us = copy.sent_us + max(0, flight - own - model.latency.base_us(copy.sender, copy.receiver))
            yield Step.QUEUE, leaves_us
            yield Step.UPLINK, leaves_us + own
        yield Step.LINE, copy.arrived_us
    if copy.arrived_us is None:
        yield Step.UNKNOWN, delivered_us
    else:
        yield Step.HANDLING if model is not None and model.service_us else Step.VALIDATION, delivered_us
