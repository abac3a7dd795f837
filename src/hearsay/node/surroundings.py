"""The interface of a node to the driver of its router: its clock, and facts about peers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic_ns, time_ns

from hearsay.core.language.actions import Deliver, DeliverPartial, Dial, FindContacts, Ping, RemindOfPartial
from hearsay.core.language.identifiers import Micros
from hearsay.core.shell.contract import RouterFailed
from hearsay.libp2p.limits.resources import Budget
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.node.fairness.conduct import Offence


class Clock:
    def __init__(self) -> None:
        self._offset_ns = time_ns() - monotonic_ns()

    def __call__(self) -> Micros:
        return (monotonic_ns() + self._offset_ns) // 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    deliver: Callable[[Deliver], None]
    """A message, to the application."""
    partial: Callable[[DeliverPartial | RemindOfPartial], None]
    """What came of a partial message, or that time has passed, likewise."""
    ask: Callable[[Dial | Ping | FindContacts], None]
    """Do what the router may ask for beside sending."""
    disconnect: Callable[[PeerId], None]
    learn: Callable[[bytes, PeerId, PeerId | None], None]
    """A signed address, who sent it, and whose it is said to be."""
    record_of: Callable[[PeerId], bytes | None]
    """The signed address of a peer."""
    address_of: Callable[[PeerId], str]
    """For the router."""
    group_of: Callable[[PeerId], str]
    """The address group of a connected peer, for shares and offences."""
    dialled: Callable[[PeerId], bool]
    """Whether the connection with a peer was made by this side."""
    budget_of: Callable[[PeerId], Budget]
    """Of the memory that a peer may take."""
    reachable: Callable[[], None]
    """Somebody may have become reachable."""
    offence: Callable[[PeerId, Offence, int], None]
    """A peer has done something so often that no honest one does."""
    failed: Callable[[RouterFailed], None]
