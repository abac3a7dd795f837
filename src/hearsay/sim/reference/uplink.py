"""The uplink of a node: RPCs leave one after the other, and IDONTWANT overtakes what waits.

Rules:

* What is being sent is sent to its end. An RPC that says nothing but IDONTWANT goes ahead of all that waits, after
  others of its kind (v1.2 asks for priority): it is small, and what it spares is not.
* A node that crashes sends what it had in its queue; a node that starts has an empty one.
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
    """An RPC on its way out."""

    link: Link
    event: RpcReceived
    parts: Parts
    sequence: int
    said_us: Micros
    """When the router asked for it."""
    takes_us: Micros
    urgent: bool


class Uplink:
    __slots__ = ("busy_until_us", "free_us", "in_order", "waiting")

    def __init__(self, now: Micros, in_order: bool) -> None:
        self.in_order = in_order
        """Nothing ever overtakes or is withdrawn: when an RPC leaves is known at once, and nothing has to wait."""
        self.busy_until_us = now
        """When what is being sent has left."""
        self.free_us = now
        """When all that is here now has left."""
        self.waiting: list[Waiting] = []

    def leaves_us(self, takes_us: Micros, now: Micros) -> Micros:
        """When an RPC that comes after all others will have left."""
        self.busy_until_us = self.free_us = max(self.free_us, now) + takes_us
        return self.free_us

    def queue_up(self, rpc: Waiting, now: Micros) -> None:
        self.free_us = max(self.free_us, now) + rpc.takes_us
        place = len(self.waiting)
        while rpc.urgent and place and not self.waiting[place - 1].urgent:
            place -= 1
        self.waiting.insert(place, rpc)

    def shorten(self, rpc: Waiting, event: RpcReceived, parts: Parts, takes_us: Micros) -> None:
        """A part of an RPC that waits need not go; if nothing is left the RPC does not."""
        self.free_us -= rpc.takes_us - takes_us
        rpc.event, rpc.parts, rpc.takes_us = event, parts, takes_us
        if not parts:
            self.waiting.remove(rpc)

    def next(self, now: Micros) -> Waiting:
        """Begin to send what comes next."""
        rpc = self.waiting.pop(0)
        self.busy_until_us = now + rpc.takes_us
        return rpc


def says_only_idontwant(event: RpcReceived) -> bool:
    rpc = event.rpc
    control = rpc.control
    if control is None or not control.idontwant or rpc.messages or rpc.subscriptions:
        return False
    return control == Control(idontwant=control.idontwant)
