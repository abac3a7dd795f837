"""An application of partial messages as a node and the simulator drive it.

The router asks it what each peer is sent (`PartialApplication`); the driver hands it what came, feeds the router with
the events that it answers, and publishes the whole message when there is one.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

from hearsay.core.language.events import PartialApplication, PartialFeedback, PublishPartial
from hearsay.core.language.identifiers import PeerId, TopicId
from hearsay.core.language.rpc import Partial


class Outcome(NamedTuple):
    """What follows from something that came, or that was added."""

    events: tuple[PartialFeedback | PublishPartial, ...] = ()
    """For the router, in this order."""
    whole: bytes | None = None
    """The full message, when this was the last of its parts: said once."""


class DrivenApplication(PartialApplication, Protocol):
    """It never raises for what a peer sent."""

    def received(self, partial: Partial, sender: PeerId) -> Outcome:
        """A peer sent parts, or said what it has."""
        ...

    def message_received(self, topic: TopicId, data: bytes) -> Outcome:
        """A full message came from a peer without partial messages, and was delivered."""
        ...


@runtime_checkable
class RemindedApplication(DrivenApplication, Protocol):
    """One that does something when time has passed; heartbeats of the router are its clock."""

    def reminded(self, topic: TopicId, group: bytes) -> Outcome:
        """A heartbeat has passed, and the router remembers the group still."""
        ...
