"""What runs the routers of a simulated network, as faults and connections see it."""

from __future__ import annotations

from typing import Protocol

from hearsay.core.language.events import Event
from hearsay.core.language.identifiers import Micros
from hearsay.sim.reference.nodes import SimNode


class Host(Protocol):
    """Nodes at a time, and events for their routers."""

    now: Micros
    nodes: list[SimNode]

    def feed(self, node: SimNode, event: Event) -> None:
        """Hand an event to a node's router and do what it asks for."""


class HostOfFaults(Host, Protocol):
    """Nodes that can be taken down and brought up, too."""

    def start(self, node: SimNode) -> None:
        """Bring a node up with an empty router."""

    def stop(self, node: SimNode) -> None:
        """Take a node down; its links are the caller's business."""
