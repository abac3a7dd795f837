"""What runs the routers of a simulated network, as faults and connections see it."""

from __future__ import annotations

from typing import Protocol

from hearsay.core.language.events import Event
from hearsay.core.language.identifiers import Micros
from hearsay.sim.reference.nodes import Link, SimNode


class Host(Protocol):
    """Nodes at a time, events for their routers, and links that are lost."""

    now: Micros
    nodes: list[SimNode]

    def feed(self, node: SimNode, event: Event) -> None:
        """Hand an event to a node's router and do what it asks for."""

    def notice_loss(self, link: Link, time: Micros) -> None:
        """The source of a link that is gone notices at `time`."""

    def last_arrival_us(self, link: Link) -> Micros:
        """When the last of all that was sent on a link arrives."""
        ...


class HostOfFaults(Host, Protocol):
    """Nodes that can be taken down and brought up, too."""

    def start(self, node: SimNode) -> None:
        """Bring a node up with an empty router."""

    def stop(self, node: SimNode) -> None:
        """Take a node down; its links are the caller's business."""

    def dial(self, node: SimNode, target: int) -> None:
        """`node` opens a connection."""
