"""The uplink of a node: RPCs leave one after the other, IDONTWANT overtakes, and waiting copies can be withdrawn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hearsay.core.language.events import RpcReceived
from hearsay.core.language.identifiers import Micros
from hearsay.core.language.rpc import Control, PartKind, Rpc
from hearsay.core.language.sizes import part_sizes
from hearsay.core.language.sizes import rpc_framed_size as framed_size
from hearsay.sim.reference.nodes import Link
from hearsay.sim.results.recorder import Parts
from hearsay.trace.language.event_rows import Part

_PUBLISH = int(PartKind.PUBLISH)
PART_BYTES = 4
"""The index of the size in bytes in a `Part`."""


def is_copy(part: Part, message: Any) -> bool:
    """Return whether a part is a copy of a message."""
    return part[0] == _PUBLISH and part[2] == message


def framed(rpc: Rpc, parts: list[Part]) -> Parts:
    """Return the parts that remain of an RPC, with the bytes of the framing added to the first one."""
    if not parts:
        return ()
    kind, topic, number, hops, size, count, via = parts[0]
    size += framed_size(rpc, part_sizes(rpc)) - sum([part[PART_BYTES] for part in parts])
    return ((kind, topic, number, hops, size, count, via), *parts[1:])


def without(rpc: Rpc, kept: list[int]) -> Rpc:
    """Return an RPC without the messages, partial message and control parts whose positions are not in `kept`."""
    first_message = len(rpc.subscriptions)
    first_partial = first_message + len(rpc.messages)
    after_partial = first_partial + (rpc.partial is not None)
    first_control = after_partial + (rpc.test is not None)
    messages = tuple(rpc.messages[index - first_message] for index in kept if first_message <= index < first_partial)
    partial = rpc.partial if first_partial in kept and first_partial < after_partial else None
    rest = [index - first_control for index in kept if index >= first_control]
    control = None
    if rpc.control is not None and rest:
        control = Control.of(part for index, part in enumerate(rpc.control.parts()) if index in rest)
    return replace(rpc, messages=messages, control=control, partial=partial)


@dataclass(slots=True, eq=False)
class Waiting:
    """An RPC that waits for the uplink."""

    link: Link
    event: RpcReceived
    parts: Parts
    sequence: int
    requested_us: Micros
    """The time at which the router sent the RPC."""
    takes_us: Micros
    """Time for which the RPC occupies the uplink."""
    urgent: bool
    """True if it overtakes RPCs that are not urgent."""


class Uplink:
    """The queue of a node's uplink."""

    __slots__ = ("busy_until_us", "free_us", "in_order", "waiting")

    def __init__(self, now: Micros, in_order: bool) -> None:
        self.in_order = in_order
        """True if no RPC overtakes another or is withdrawn. Then it is known at once when an RPC leaves, so that
        `waiting` stays empty."""
        self.busy_until_us = now
        """The time at which the current RPC has left."""
        self.free_us = now
        """The time at which all RPCs have left."""
        self.waiting: list[Waiting] = []

    def leaves_us(self, takes_us: Micros, now: Micros) -> Micros:
        """Add an RPC after all others and return the time at which it has left."""
        self.busy_until_us = self.free_us = max(self.free_us, now) + takes_us
        return self.free_us

    def queue_up(self, rpc: Waiting, now: Micros) -> None:
        self.free_us = max(self.free_us, now) + rpc.takes_us
        place = len(self.waiting)
        while rpc.urgent and place and not self.waiting[place - 1].urgent:
            place -= 1
        self.waiting.insert(place, rpc)

    def shorten(self, rpc: Waiting, event: RpcReceived, parts: Parts, takes_us: Micros) -> None:
        """Replace the parts of a waiting RPC; without parts it is removed."""
        self.free_us -= rpc.takes_us - takes_us
        rpc.event, rpc.parts, rpc.takes_us = event, parts, takes_us
        if not parts:
            self.waiting.remove(rpc)

    def next(self, now: Micros) -> Waiting:
        """Remove the next RPC from the queue and return it; it occupies the uplink from now on."""
        rpc = self.waiting.pop(0)
        self.busy_until_us = now + rpc.takes_us
        return rpc


def is_only_idontwant(event: RpcReceived) -> bool:
    """Return whether an RPC has nothing but IDONTWANT."""
    rpc = event.rpc
    control = rpc.control
    if control is None or not control.idontwant or rpc.messages or rpc.subscriptions:
        return False
    return control == Control(idontwant=control.idontwant)
