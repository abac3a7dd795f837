"""The state of a router and its guarantees (`Promises`), as checkers and metrics read them.

`RouterState` is the state as a table (guide, "State"). `Inspection` gives access to the state of a strategy.
`ScoreParts` has the parts of a peer's score.

Each class `…Promise` has the numbers of one guarantee. The checker of a simulation (`hearsay.sim.checks`) reports
violations of these guarantees, and of guarantees that all routers give. A live view is an object that changes with
the router.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from hearsay.core.language.identifiers import MessageId, Micros, PeerId, TopicId
from hearsay.core.language.rpc import Message


class Peering(StrEnum):
    """The relation of a router to a peer in one topic (guide, "Types of peering")."""

    FULL_MESSAGE = "full-message"
    METADATA_ONLY = "metadata-only"
    FAN_OUT = "fan-out"


@dataclass(frozen=True, slots=True)
class PeerState:
    peer: PeerId
    protocol: str
    """The protocol id of the connection; empty if the peer is not connected."""
    peerings: tuple[tuple[TopicId, Peering], ...]
    """The topics of the peer, ascending, each with the kind of its peering."""


@dataclass(frozen=True, slots=True)
class OverlayState:
    """The neighbours of a router in one topic, for a router that chooses its neighbours (episub)."""

    active: Set[PeerId]
    passive: Set[PeerId]
    """Known peers that are not neighbours."""
    eager: Set[PeerId]
    """Neighbours to which full messages are sent at once; all other neighbours are `lazy`."""
    lazy: Set[PeerId]
    active_limit: int | None
    passive_limit: int | None
    """Both limits are None if all connected peers of the topic are neighbours."""
    bounded: tuple[tuple[str, int, int], ...]
    """Name, size and limit of each bounded collection that is not a list of peers."""


@dataclass(frozen=True, slots=True)
class SeenState:
    message_id: MessageId
    first_us: Micros
    sender: PeerId | None
    held: bool
    """True while the full message can still be sent on request."""


@dataclass(frozen=True, slots=True)
class RouterState:
    subscriptions: tuple[TopicId, ...]
    fanout: tuple[tuple[TopicId, Micros], ...]
    """Topics with a fan-out, each with the time of the last publication."""
    peers: tuple[PeerState, ...]
    seen: tuple[SeenState, ...]


@dataclass(frozen=True, slots=True)
class StateSize:
    """The size of a router's state: the number of entries, and the bytes of their names, times and messages."""

    entries: int
    bytes: int


class TopicParts(NamedTuple):
    """The parts of a topic's score. Each is multiplied by its own weight, but not by the weight of the topic."""

    time_in_mesh: float
    """P1"""
    first_deliveries: float
    """P2"""
    mesh_deliveries: float
    """P3"""
    mesh_failures: float
    """P3b"""
    invalid_messages: float
    """P4"""


class PeerParts(NamedTuple):
    """The summands of a peer's score, each multiplied by its weight, in the order of the addition."""

    topics: float
    """The sum of all topics; a cap limits the sum."""
    application: float
    """P5"""
    shared_addresses: float
    """P6"""
    misbehaviour: float
    """P7"""
    slow_peer: float


@dataclass(frozen=True, slots=True)
class ScoreParts:
    """A peer's score, its summands, and the parts for each topic in which the peer has counters, topics ascending."""

    score: float
    peer: PeerParts
    topics: tuple[tuple[TopicId, TopicParts], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshPromise:
    """Bounds on the size of each joined topic's mesh after a heartbeat. In addition, mesh links are mutual, except
    while a GRAFT or PRUNE between the two nodes is on its way."""

    lowest: int
    """Minimum number of members. If fewer native peers of the topic are free of a backoff, the mesh has at least that
    number of members."""
    highest: int
    """Maximum number of members."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackoffPromise:
    """A PRUNE of the router that names a backoff, and each PRUNE of a peer in a joined topic, begin a backoff. Before
    its end, the router sends the peer no GRAFT, and accepts no GRAFT from the peer. All times are in microseconds."""

    unnamed_us: Micros
    """Length of the backoff that begins with a peer's PRUNE that names no backoff."""
    longest_us: Micros
    """Maximum length of the backoff that begins with a peer's PRUNE; a longer one is cut."""
    own_longest_us: Micros
    """Maximum length of the backoff that the router's own PRUNE names."""
    slack_us: Micros
    """Time after the end of a backoff in which the router still sends no GRAFT."""
    removal_delay_us: Micros = 0
    """Maximum time after the slack until the router removes a backoff. Until then the router sends no GRAFT."""
    remembered: int
    """Maximum number of backoffs that the router remembers. With more, the guarantee does not hold."""
    early_us: Micros = 0
    """Time before the end of a backoff in which the router accepts a peer's GRAFT nevertheless."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingPromise:
    """Waits for messages that the router requested with an IWANT. A wait is for one message from one peer."""

    waited_for: Mapping[tuple[PeerId, MessageId], Micros]
    """The end of each wait, by peer and message; a live view. A heartbeat removes the waits that are over."""
    answer_us: Micros
    """Length of a wait in microseconds."""
    one_wait_per_iwant: bool
    """True if the router waits for at most one of the messages that an IWANT requests."""
    only_asked_peer_ends_wait: bool
    """True if only a copy from the peer that got the IWANT ends a wait; False if a copy from any peer does."""
    max_waits: int
    """Maximum number of waits at a time."""
    max_waits_for_peer: int
    """Maximum number of waits at a time for messages from the same peer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingPromise:
    """Treatment of peers by their scores (`Inspection.scores`). Four fields are thresholds of the score."""

    gossip: float
    """A peer with a lower score gets no IHAVE, and no answer to its IWANT."""
    publish: float
    """A peer with a lower score gets none of the router's own messages, unless it is a mesh member, or in a fan-out
    until the next heartbeat."""
    graylist: float
    """From a peer with a lower score, the router handles at most subscriptions. Since it ignores the peer's GRAFTs
    and PRUNEs, one of the two nodes may assume a mesh link that does not exist."""
    accept_graft: float
    """The router refuses a GRAFT of a peer with a lower score. The next heartbeat prunes members with a negative
    score."""
    names_peers_to_all: bool
    """True if a PRUNE to a peer with a negative score may name other peers."""
    degree_low: int
    degree_out: int
    """After a heartbeat, a mesh of `degree_low` or more members has at least `degree_out` members that this node
    dialled, unless no other dialled peer may be grafted."""
    direct: Set[PeerId]
    """The direct peers, a live view. They are in no mesh, and the thresholds above do not apply to them."""
    asking: AskingPromise


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlayPromise:
    """Guarantees of a router that chooses its neighbours: its lists of peers are bounded, and links are mutual."""

    one_tree: bool
    """True if the eager links of a topic become a spanning tree of all nodes in the topic."""
    only_tried_leave: bool
    """True if the router removes a peer from the passive list only after an attempt to reach the peer, or because the
    peer becomes a neighbour, leaves the topic, or makes room for another peer. When the router itself leaves the
    topic, it removes all peers."""
    ping_answer_us: Micros
    """Maximum time in microseconds that a neighbour remains one after a ping that it does not answer."""
    recovery_us: Micros
    """Maximum time in microseconds from the announcement of a message until the message arrives, or the router stops
    requesting it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialPromise:
    """Bounds on the groups of partial messages that peers open (PARTIAL-9). In addition, the router follows PARTIAL-2
    and PARTIAL-3."""

    opened: Callable[[TopicId], int]
    """Returns the number of groups of a topic that count as opened by peers."""
    opened_by: Callable[[TopicId, PeerId], int]
    """Returns the number of groups of a topic that count as opened by one peer."""
    max_opened: int
    """Maximum number of groups of a topic that count as opened by peers."""
    max_opened_by_peer: int
    """Maximum number of groups of a topic that count as opened by the same peer."""
    between_supporters: bool
    """True if two routers that both support partial messages, but do not request them, exchange metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    """The guarantees of a router. A field is None if the router does not give that guarantee."""

    mesh: MeshPromise | None = None
    backoff: BackoffPromise | None = None
    overlay: OverlayPromise | None = None
    standing: StandingPromise | None = None
    partial: PartialPromise | None = None
    gossip_heartbeats: int | None = None
    """IHAVE names only messages that the router accepted fewer heartbeats ago than this."""
    kept_heartbeats: int | None = None
    """IWANT is answered only with messages that the router accepted fewer heartbeats ago than this."""
    seen_heartbeats: int | None = None
    """Number of heartbeats for which an id stays in the seen cache; None if it stays for a time (`seen_ttl_ms`)."""


class Inspection:
    """Read access to the state of a strategy. By default there is no state, and no guarantee beyond those of all
    routers."""

    def peerings(self) -> Iterable[tuple[TopicId, PeerId, Peering]]:
        """Return topic, peer and kind of each full-message and fan-out peering. All other subscribers of a topic have
        a metadata-only peering, which is not in the result."""
        return ()

    def mesh_peers(self, topic: TopicId) -> list[PeerId]:
        """Return the peers with a full-message peering in a topic: the mesh, or the eager neighbours of episub. Other
        routers have none."""
        return [
            peer for known, peer, peering in self.peerings() if known == topic and peering is Peering.FULL_MESSAGE
        ]

    def overlays(self) -> Mapping[TopicId, OverlayState]:
        """Return the `OverlayState` of each joined topic; empty for all routers except episub."""
        return {}

    def promises(self) -> Promises:
        """Return the guarantees that this router gives in addition to those of all routers."""
        return Promises()

    def remembers(self, peer: PeerId) -> bool:
        """Return whether the router has state about a peer that must end when the peer disconnects. State in the
        state table does not count."""
        return False

    def fanout_topics(self) -> Iterable[tuple[TopicId, Micros]]:
        """Return each topic with a fan-out, ascending, and the time of the last publication in it."""
        return ()

    def holds(self, message_id: MessageId) -> bool:
        """Return whether the router still stores the full message."""
        return False

    def held_messages(self) -> Iterable[Message]:
        """Return the full messages that the router stores."""
        return ()

    def scores(self) -> Iterable[tuple[PeerId, ScoreParts]]:
        """Return the scores of connected peers, ascending by peer; empty for routers without scores."""
        return ()

    def other_state(self) -> Iterable[PeerId]:
        """Return the peers in lists that are no peerings, once for each list: in episub the passive and the lazy
        peers."""
        return ()
