"""Access of checkers and metrics to a router: to its state (`Inspection`) and to its guarantees (`Promises`).

A router without guarantees of its own is checked for those of all routers only (`hearsay.sim.checks.checker`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass

from hearsay.core.language.identifiers import MessageId, Micros, PeerId, TopicId
from hearsay.core.language.rpc import Message
from hearsay.core.language.state import OverlayState, Peering, ScoreParts


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshPromise:
    """Mesh of every joined topic after a heartbeat: links are mutual, and their number is within bounds."""

    lowest: int
    """Minimum number of links, if the topic has that many native peers without a backoff."""
    highest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BackoffPromise:
    """No GRAFT is sent to a peer before the end of a backoff that a PRUNE to the peer or from it named."""

    unnamed_us: Micros
    """Backoff after a PRUNE of a peer that names none."""
    longest_us: Micros
    """Longest backoff that a peer's PRUNE can name."""
    own_longest_us: Micros
    """Longest backoff that the router's own PRUNE names."""
    slack_us: Micros
    """Time after the end of a backoff in which the router still waits."""
    kept_us: Micros = 0
    """Time after the slack in which a backoff that is not removed yet still forbids the router's GRAFT."""
    remembered: int
    """Minimum number of backoffs that the router can remember."""
    early_us: Micros = 0
    """Time before the end of a backoff in which a peer's GRAFT is accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingPromise:
    """Messages that are awaited after an IWANT."""

    waited_for: Mapping[tuple[PeerId, MessageId], Micros]
    """Ends of the waits, a live view; a heartbeat removes those that are over."""
    answer_us: Micros
    """Length of a wait."""
    one_of_each: bool
    """True if at most one message of each IWANT is awaited."""
    of_the_asked: bool
    """True if only a copy from the peer that was asked ends the wait."""
    most: int
    most_of_one: int
    """Maximum number of waits for one peer; `most` is the maximum for all peers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingPromise:
    """Treatment of peers by their scores (`Inspection.scores`)."""

    gossip: float
    """Below it a peer gets no IHAVE, and its IWANT no answer."""
    publish: float
    """Below it a peer gets none of the router's own messages, except in a mesh."""
    graylist: float
    """Below it only a peer's subscriptions are handled, so it may assume a mesh link that does not exist."""
    enters: float
    """Below it a peer's GRAFT is refused; below 0 the next heartbeat removes it from the mesh."""
    names_to_all: bool
    """True if a PRUNE to a peer with a negative score may name other peers, too."""
    degree_low: int
    degree_out: int
    """A mesh of `degree_low` or more members has this number of dialled ones, if more can be grafted."""
    direct: Set[PeerId]
    """Peers that are exempt and in no mesh; a live view."""
    asking: AskingPromise


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlayPromise:
    """Neighbours that the router chooses: lists are bounded, links mutual, and announced messages arrive."""

    one_tree: bool
    """True if the eager links of a topic become a spanning tree of all its nodes."""
    only_tried_leave: bool
    """True if a peer leaves the passive list only after an attempt to reach it."""
    ping_answer_us: Micros
    """A neighbour whose answer to a ping takes longer is dropped."""
    recovery_us: Micros
    """Time in which an announced message arrives, or requests for it fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialPromise:
    """Partial messages: the groups that peers open are bounded. Sends follow PARTIAL-2 and PARTIAL-3."""

    opened: Callable[[TopicId], int]
    """Returns the number of groups of a topic that peers have opened."""
    opened_by: Callable[[TopicId, PeerId], int]
    most: int
    most_of_one: int
    tells_supporters: bool
    """True if two routers that only support parts also exchange metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    mesh: MeshPromise | None = None
    backoff: BackoffPromise | None = None
    overlay: OverlayPromise | None = None
    standing: StandingPromise | None = None
    partial: PartialPromise | None = None
    gossip_heartbeats: int | None = None
    """IHAVE names messages accepted fewer heartbeats ago than this."""
    kept_heartbeats: int | None = None
    """IWANT is answered with messages accepted fewer heartbeats ago than this."""
    seen_heartbeats: int | None = None
    """Heartbeats for which a message counts as seen; None if a time bounds that (`seen_ttl_s`)."""


class Inspection:
    """Read access to the state of a strategy. The defaults show no state, and only the guarantees of all routers."""

    def peerings(self) -> Iterable[tuple[TopicId, PeerId, Peering]]:
        """Yield full-message and fan-out peerings; all others are metadata-only."""
        return ()

    def mesh_peers(self, topic: TopicId) -> list[PeerId]:
        """Return the peers with which full messages of a topic are exchanged; none for routers without a mesh."""
        return [
            peer for known, peer, peering in self.peerings() if known == topic and peering is Peering.FULL_MESSAGE
        ]

    def overlays(self) -> Mapping[TopicId, OverlayState]:
        """Return the neighbours of each joined topic, for routers that choose them."""
        return {}

    def promises(self) -> Promises:
        """Return the guarantees of this router in addition to those of all routers."""
        return Promises()

    def remembers(self, peer: PeerId) -> bool:
        """Return whether a disconnected peer still has state that the state table does not show."""
        return False

    def fanout_topics(self) -> Iterable[tuple[TopicId, Micros]]:
        """Yield the topics with a fan-out, ascending, with the time of the last publish."""
        return ()

    def holds(self, message_id: MessageId) -> bool:
        """Return whether the full message is still kept."""
        return False

    def held_messages(self) -> Iterable[Message]:
        """Yield the messages that are kept."""
        return ()

    def scores(self) -> Iterable[tuple[PeerId, ScoreParts]]:
        """Yield the scores of connected peers, ascending; none for routers without scores."""
        return ()

    def other_state(self) -> Iterable[PeerId]:
        """Yield remembered peers without connection and without peering, once for each list that has them."""
        return ()
