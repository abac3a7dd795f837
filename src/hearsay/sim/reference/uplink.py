"""The uplink of a node: RPCs leave one after the other, and IDONTWANT overtakes waiting ones.

Rules:

* An RPC that is being sent is sent to its end. An RPC with nothing but IDONTWANT goes ahead of all waiting RPCs,
  after others of its kind: v1.2 asks for priority.
* A node that crashes still sends its queue. A node that starts has an empty one.
"""

from __future__ import annotations

from dataclasses import dataclass

from hearsay.core.language.events import RpcReceived
from hearsay.core.language.identifiers import Micros
from hearsay.core.language.rpc import Control
from hearsay.sim.reference.nodes import Link
from hearsay.sim.results.recorder import Parts


@dataclass(slots=True, eq=False)
class Waiting:
    """An RPC that waits for the uplink."""

    link: Link
    event: RpcReceived
    parts: Parts
    sequence: int
    requested_us: Micros
    """The time at which the router sent it."""
    takes_us: Micros
    urgent: bool


class Uplink:
    """The queue of a node's uplink."""

    __slots__ = ("busy_until_us", "free_us", "in_order", "waiting")

    def __init__(self, now: Micros, in_order: bool) -> None:
        self.in_order = in_order
        """No RPC overtakes or is withdrawn, so the time at which it leaves is known at once, and the queue stays
        empty."""
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
        """Begin to send the next RPC."""
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
