"""Parameters of the mesh and of gossipsub 1.0 to 1.3, and the named choices among their rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from hearsay.core.language.identifiers import Micros
from hearsay.core.scores.declarations import TrackedPromises
from hearsay.core.scores.gater import GaterParameters
from hearsay.core.scores.score_set import ScoreSet
from hearsay.core.shell.parameters import (
    RouterParameters,
    Violation,
    choice,
    integer,
    milliseconds,
    pairs,
    share,
    table,
)

_NEVER_FULL = 1 << 60
"""Size of a mesh that refuses no peer."""


class PruneTrigger(StrEnum):
    """Sizes from which upkeep prunes the mesh: above D_high (r1, guide, js), or at D_high (go, rust)."""

    ABOVE_HIGH = "above_high"
    AT_HIGH = "at_high"


class FullMesh(StrEnum):
    """Answer to a GRAFT when the mesh has D_high peers: accept it (r1), or refuse it with PRUNE (v1.1)."""

    ACCEPT = "accept"
    REFUSE = "refuse"


class UnknownGraft(StrEnum):
    """Answer to a GRAFT for a topic that the node has not joined: PRUNE (r1), or none (v1.1)."""

    PRUNE = "prune"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshParameters(RouterParameters):
    """Parameters of the mesh, its heartbeat, backoffs and peer exchange."""

    prune_backoff_ms: int = milliseconds(0)
    """Time without a GRAFT after a PRUNE (v1.1: 60 000); 0 turns backoff off."""
    unsubscribe_backoff_ms: int = milliseconds(10_000)
    """Time without a GRAFT after a PRUNE that is sent because a node leaves the topic."""
    max_backoff_ms: int = milliseconds(3_600_000)
    """Longest backoff that is accepted from a peer."""
    backoff_slack_heartbeats: int = integer(2, low=0)
    """Heartbeats that the router's own GRAFT waits after the end of a backoff."""
    max_backoffs: int = integer(100_000, low=1)
    """Backoffs that are remembered; the oldest is dropped first."""
    exchange_peers: int = integer(0, low=0, high=1_000)
    """Other peers that a PRUNE names."""
    accept_exchange: bool = False
    """Dial peers that a PRUNE names."""
    exchange_dials: int = integer(0, low=0, high=1_000)
    """Peers of one PRUNE that are dialled; 0: as many as `exchange_peers`."""

    degree: int = integer(6, low=0)
    """D, the mesh degree. Without a mesh, `degree`, `degree_low` and `degree_high` are all 0."""
    degree_low: int = integer(4, low=0)
    """D_low: the heartbeat grafts peers when the mesh has fewer."""
    degree_high: int = integer(12, low=0)
    """D_high: the heartbeat prunes peers when the mesh has more."""
    prune_trigger: PruneTrigger = choice(PruneTrigger.ABOVE_HIGH)
    """Prune when the mesh is larger than D_high, or already when it has D_high peers."""
    full_mesh: FullMesh = choice(FullMesh.ACCEPT)
    """Answer to a GRAFT when the mesh has D_high peers."""
    unknown_graft: UnknownGraft = choice(UnknownGraft.PRUNE)
    """Answer to a GRAFT for a topic that the node has not joined."""
    heartbeat_interval_ms: int = milliseconds(1000, low=1)
    """Time between heartbeats."""
    first_heartbeat_ms: int = milliseconds(1000)
    """Time until the first heartbeat."""
    first_heartbeat_spread_ms: int = milliseconds(1000)
    """Range of a random delay that is added to `first_heartbeat_ms`."""
    places_per_address: int = integer(0, low=0)
    """Mesh members of one IP address that are not pruned in favour of peers with other addresses; 0: all."""

    def cross_rules(self) -> Iterator[Violation]:
        if self.degree_low > self.degree:
            yield Violation("degree_low", self.degree_low, f"must not be above degree ({self.degree})")
        if self.degree > self.degree_high:
            yield Violation("degree_high", self.degree_high, f"must not be below degree ({self.degree})")

    @property
    def dials_per_prune(self) -> int:
        """Return the maximum number of peers of one PRUNE that are dialled."""
        return (self.exchange_dials or self.exchange_peers) if self.accept_exchange else 0

    @property
    def prune_from(self) -> int:
        """Return the size from which upkeep prunes a mesh."""
        return self.degree_high + (self.prune_trigger is PruneTrigger.ABOVE_HIGH)

    @property
    def refuse_from(self) -> int:
        """Return the size from which a mesh refuses a GRAFT."""
        return self.degree_high if self.full_mesh is FullMesh.REFUSE else _NEVER_FULL

    @property
    def backoff_slack_us(self) -> Micros:
        """Time that the router's own GRAFT waits after a backoff."""
        return self.backoff_slack_heartbeats * self.heartbeat_interval_ms * 1000


class OutboundWhenFull(StrEnum):
    """Peers that a full mesh accepts: those that this node dialled (go, js), these while the mesh has fewer than
    D_out of them (nim), or none (rust). The first is v1.1's: an attacker can dial, but cannot make others dial."""

    ALWAYS = "always"
    QUOTA = "quota"
    NEVER = "never"


class OutboundRepair(StrEnum):
    """Dialled peers that stay in a pruned mesh if fewer than D_out would stay otherwise: D_out, or as many as there
    is room for (js)."""

    TO_DEGREE_OUT = "to_degree_out"
    TO_DEGREE = "to_degree"


class Median(StrEnum):
    """Median of an even number of scores: the upper of the middle two (go), the lower (nim), or their mean (rust)."""

    UPPER = "upper"
    LOWER = "lower"
    MEAN = "mean"


class OpportunityChoice(StrEnum):
    """Peers that a mesh with a low median score grafts: random peers above the median, the first in order of ids
    above it (jvm), or the first at or above it (nim)."""

    DRAWN_ABOVE = "drawn_above"
    FIRST_ABOVE = "first_above"
    FIRST_FROM = "first_from"


class GraftChoice(StrEnum):
    """Peers that a mesh with too few grafts: random ones without a negative score, or the best (nim)."""

    RANDOM = "random"
    BEST = "best"


class UnwelcomeGraft(StrEnum):
    """Answer to a GRAFT of a peer with a negative score: PRUNE (v1.1); or the mesh accepts the peer until the next
    heartbeat, and below `publish` there is no answer (nim)."""

    PRUNE = "prune"
    TAKEN_IN = "taken_in"


class DirectGraft(StrEnum):
    """Answer to a GRAFT of a direct peer: PRUNE (go), PRUNE and `early_graft_penalty` (nim), or none (rust)."""

    PRUNE = "prune"
    PENALISE = "penalise"
    IGNORE = "ignore"


class UnsubscribedGraft(StrEnum):
    """Answer to a GRAFT of a peer without a subscription to the topic: PRUNE, none (rust), or the same answer as to a
    subscriber; a peer that is accepted then counts as a subscriber (go, js, nim, jvm)."""

    PRUNE = "prune"
    IGNORE = "ignore"
    TAKEN_IN = "taken_in"


class LateExtensions(StrEnum):
    """Penalty for an extensions control after a peer's first RPC, where it has no effect: ten points of P7 (go, jvm),
    or none (rust)."""

    PENALISE = "penalise"
    IGNORE = "ignore"


class SupportersTold(StrEnum):
    """Routers that send metadata to a peer that supports parts without requesting them: those that request parts and
    so need the peer's parts (go, nim), or all that support parts (rust)."""

    BY_REQUESTERS = "by_requesters"
    BY_ALL = "by_all"


class GossipTargets(StrEnum):
    """Draw D_lazy of all topic peers and then exclude the mesh (r1, simsub), or exclude it first (guide, go)."""

    SELECT_THEN_FILTER = "select_then_filter"
    FILTER_THEN_SELECT = "filter_then_select"


class SeenBy(StrEnum):
    """Remember ids for a time (r1), or as long as the message cache keeps them (simsub's actor)."""

    TIME = "time"
    HISTORY = "history"


class FanoutTopUp(StrEnum):
    """Replace lost fan-out peers in the heartbeat (r1) or at the next publish (guide)."""

    HEARTBEAT = "heartbeat"
    PUBLISH = "publish"


class ShortMesh(StrEnum):
    """Peers that get a publish if the mesh has fewer than D: the mesh only (r1, go), or also random others up to D
    (rust, js)."""

    MESH_ONLY = "mesh_only"
    TOP_UP = "top_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class GossipsubParameters(MeshParameters):
    """Parameters of gossipsub 1.0 to 1.3."""

    score: ScoreSet | None = table(ScoreSet)
    """Parameters of peer scores, `[router.score]`; without the table all scores are 0."""
    gater: GaterParameters | None = table(GaterParameters)
    """Parameters of the gater, `[router.gater]`, which drops messages of some peers under load."""
    degree_score: int = integer(0, low=0)
    """D_score: peers with the best scores that stay when the mesh is pruned (v1.1: 4)."""
    degree_out: int = integer(0, low=0)
    """D_out: least number of mesh members that this node has dialled; at most D / 2 and below D_low (v1.1: 2)."""
    outbound_when_full: OutboundWhenFull = choice(OutboundWhenFull.ALWAYS)
    """Peers whose GRAFT is accepted although the mesh is full."""
    outbound_repair: OutboundRepair = choice(OutboundRepair.TO_DEGREE_OUT)
    """Dialled peers that stay in a pruned mesh if fewer than D_out would stay otherwise."""
    opportunistic_graft_ticks: int = integer(0, low=0)
    """Heartbeats between two checks of the mesh's median score (v1.1: 60); 0 is off."""
    opportunistic_graft_peers: int = integer(2, low=0)
    """Peers that are grafted after a check with a low median."""
    median: Median = choice(Median.UPPER)
    """Median of an even number of scores."""
    opportunity_choice: OpportunityChoice = choice(OpportunityChoice.DRAWN_ABOVE)
    """Better peers that are grafted after a check with a low median."""
    graft_choice: GraftChoice = choice(GraftChoice.RANDOM)
    """Peers that are grafted when the mesh has too few."""
    graft_on_subscribe: bool = False
    """Graft a peer at once when it subscribes and the mesh has too few (rust, js)."""
    unwelcome_graft: UnwelcomeGraft = choice(UnwelcomeGraft.PRUNE)
    """Answer to a GRAFT of a peer with a negative score."""
    graft_flood_ms: int = milliseconds(10_000)
    """A GRAFT within this time after a PRUNE counts twice as misbehaviour."""
    early_graft_ms: int = milliseconds(0)
    """A GRAFT within this time before the end of a backoff is accepted (nim: 4 000)."""
    early_graft_penalty: float = share(1.0)
    """Misbehaviour that is counted for a GRAFT during a backoff (nim: 0.1)."""
    flood_publish: bool = False
    """Send the node's own messages to all peers in the topic."""
    flood_publish_mbit: int = integer(0, low=0)
    """Rate that limits `flood_publish` to as many peers as it can serve in a heartbeat, at least D_low (nim:
    100); 0 is unlimited."""
    gossip_factor: float = share(0.0)
    """Share of the topic's other peers that get gossip, if this share is more than D_lazy peers (v1.1: 0.25)."""
    max_ihave_messages: int = integer(0, low=0)
    """RPCs with IHAVE of one peer that are handled in a heartbeat (v1.1: 10); 0 is unlimited."""
    ihave_parts_count: bool = False
    """Count the IHAVEs of joined topics for `max_ihave_messages`, not RPCs (jvm)."""
    ihave_ids_of_rpc: bool = False
    """Apply `max_ids_per_ihave` to all IHAVEs of an RPC together (js)."""
    max_iwant_messages: int = integer(0, low=0)
    """RPCs with IWANT of one peer that are handled in a heartbeat (js: 10); 0 is unlimited."""
    iwant_followup_ms: int = milliseconds(3_000, low=1)
    """Time in which a peer must send a message that was requested after its IHAVE."""
    tracked_promises: TrackedPromises = choice(TrackedPromises.ONE)
    """Ids of an IWANT whose messages are awaited."""
    direct_connect_ticks: int = integer(0, low=0)
    """Heartbeats between two checks that direct peers are connected (v1.1: 300); 0 is off."""
    direct_graft: DirectGraft = choice(DirectGraft.PRUNE)
    """Answer to a GRAFT of a direct peer."""
    unsubscribed_graft: UnsubscribedGraft = choice(UnsubscribedGraft.PRUNE)
    """Answer to a GRAFT of a peer without a subscription to the topic."""
    member_graft_is_judged: bool = False
    """Check the GRAFT of a mesh member like that of any other peer; the member may then leave the mesh (jvm)."""
    backoff_on_unsubscribe: bool = False
    """Begin a backoff of `prune_backoff_ms` when a mesh member unsubscribes (rust)."""
    backoff_when_not_joined: bool = False
    """Begin a backoff for a PRUNE of a topic that the node has not joined (jvm)."""
    backoff_until_forgotten: bool = False
    """Send no GRAFT until a purge, every 15 heartbeats, has removed the expired backoff (go, js)."""
    exchange_always: bool = False
    """Name other peers in every PRUNE (jvm)."""
    mesh_before_gossip: bool = False
    """Handle GRAFT and PRUNE of an RPC before IHAVE and IWANT (jvm)."""
    asked_peer_must_send: bool = False
    """Only a copy from the peer that was asked counts as its answer to an IWANT (jvm)."""
    direct_peers: tuple[tuple[int, int], ...] = pairs()
    """Pairs of simulated nodes that are direct peers of each other, `[[1, 5], [2, 7]]`; they are connected from
    the start."""
    graylisted_subscriptions: bool = True
    """Accept subscriptions of graylisted peers (go, rust)."""

    extensions: bool = False
    """Speak 1.3 even without an extension."""
    partial_messages: bool = False
    """Support partial messages; the router then speaks 1.3."""
    test_extension: bool = False
    """Support the test extension, for tests; the router then speaks 1.3."""
    late_extensions: LateExtensions = choice(LateExtensions.PENALISE)
    """Reaction to an extensions control after a peer's first RPC."""
    supporters_told: SupportersTold = choice(SupportersTold.BY_REQUESTERS)
    """Routers that send metadata to a peer that supports parts without requesting them."""
    partial_group_heartbeats: int = integer(3, low=1)
    """Heartbeats that a group is kept after it was published or received (rust: 5)."""
    max_peer_groups: int = integer(255, low=0)
    """Groups of a topic that peers may open."""
    max_groups_per_peer: int = integer(8, low=0)
    """Groups of a topic that one peer may open."""
    max_metadata_bytes: int = integer(1_000, low=1)
    """Largest size of metadata that is accepted (go: unlimited)."""

    degree_lazy: int = integer(6, low=0)
    """D_lazy: peers that get gossip in a heartbeat."""
    gossip_targets: GossipTargets = choice(GossipTargets.SELECT_THEN_FILTER)
    """Draw the peers that get gossip before or after the mesh is excluded."""
    history_length: int = integer(5, low=1, high=100_000)
    """Windows that a message is kept in the cache, the current one included (simsub: 121)."""
    history_gossip: int = integer(3, low=0, high=100_000)
    """Windows whose messages are gossiped, the current one included."""
    seen_by: SeenBy = choice(SeenBy.TIME)
    """Rule for how long message ids are remembered."""
    fanout_ttl_ms: int = milliseconds(60_000)
    """Time without a publish after which the fan-out peers of a topic are dropped."""
    fanout_top_up: FanoutTopUp = choice(FanoutTopUp.HEARTBEAT)
    """Time at which lost fan-out peers are replaced."""
    short_mesh: ShortMesh = choice(ShortMesh.MESH_ONLY)
    """Peers that get the node's own messages when the mesh has fewer than D."""
    graft_on_missing: int = integer(0, low=0)
    """IHAVEs with unknown messages after which a peer is grafted; 0 is off."""
    missing_window_heartbeats: int = integer(5, low=1)
    """Heartbeats over which `graft_on_missing` counts."""
    max_ids_per_ihave: int = integer(5_000, low=1)
    """Ids of one IHAVE that are sent, and that are handled."""
    max_ids_per_iwant: int = integer(5_000, low=1)
    """Ids that are requested of one peer in a heartbeat, and that are answered."""
    max_ids_asked: int = integer(0, low=0)
    """Ids that are requested of one peer in a heartbeat, if fewer than `max_ids_per_iwant` (nim: 10); 0: no
    further limit."""
    ask_again_heartbeats: int = integer(0, low=0)
    """Heartbeats in which a requested id is not requested of another peer; 0 is off."""
    iwant_answers_per_id: int = integer(3, low=0)
    """Times that one message is sent to one peer on request (simsub: 1 000 000)."""
    max_cached_messages: int = integer(200_000, low=1)
    """Messages in the cache."""
    max_cached_bytes: int = integer(0, low=0)
    """Memory of the message cache; 0 is unlimited."""
    idontwant_threshold_bytes: int = integer(0, low=0)
    """Size from which the mesh gets an IDONTWANT for a received message (v1.2); 0 is off."""
    idontwant_on_publish: bool = False
    """Send IDONTWANT for the node's own messages too (go)."""
    idontwant_ttl_heartbeats: int = integer(3, low=1)
    """Heartbeats that a peer's IDONTWANT is remembered."""
    max_ids_per_idontwant: int = integer(10, low=1)
    """Ids of IDONTWANTs that are accepted from one RPC."""
    max_idontwants: int = integer(1_000, low=1)
    """RPCs with IDONTWANT that are accepted from one peer in a heartbeat."""
    max_idontwant_ids: int = integer(0, low=0)
    """Ids that are accepted from one peer in a heartbeat, in all RPCs (js, nim, jvm); 0 is unlimited."""
    heeds_idontwant: bool = True
    """Do not send a peer the messages that its IDONTWANT names (js until August 2026: off)."""
    max_unwanted: int = integer(100_000, low=1)
    """Ids of all peers' IDONTWANTs that are remembered."""
    withdraw_unwanted: bool = False
    """Remove a copy from the peer's send queue when its IDONTWANT arrives (rust)."""
    skip_senders: bool = False
    """Send no copy to a peer that sent one during validation (rust, nim)."""

    @property
    def uses_11(self) -> bool:
        """True if any parameter of gossipsub 1.1 is set."""
        return (
            self.score is not None
            or self.gater is not None
            or self.graft_on_subscribe
            or self.unsubscribed_graft is not UnsubscribedGraft.PRUNE
            or self.member_graft_is_judged + self.backoff_on_unsubscribe + self.backoff_when_not_joined > 0
            or self.exchange_always + self.mesh_before_gossip + self.ihave_ids_of_rpc > 0
            or self.backoff_until_forgotten
            or self.flood_publish
            or self.gossip_factor > 0
            or self.degree_score + self.degree_out + self.direct_connect_ticks + self.early_graft_ms > 0
            or self.max_ihave_messages + self.max_iwant_messages > 0
        )

    @property
    def speaks_13(self) -> bool:
        """True if any extension of gossipsub 1.3 is on."""
        return self.extensions or self.partial_messages or self.test_extension

    @property
    def max_ids_asked_per_peer(self) -> int:
        """Return the maximum number of ids that are requested of one peer in a heartbeat."""
        return min(self.max_ids_asked or self.max_ids_per_iwant, self.max_ids_per_iwant)

    def cross_rules(self) -> Iterator[Violation]:
        yield from MeshParameters.cross_rules(self)
        if self.degree_score > self.degree_high:
            yield Violation("degree_score", self.degree_score, f"must not be above degree_high ({self.degree_high})")
        if self.degree_out and not (self.degree_out < self.degree_low and 2 * self.degree_out <= self.degree):
            limits = f"must be below degree_low ({self.degree_low}) and at most half of degree ({self.degree})"
            yield Violation("degree_out", self.degree_out, limits)
        if self.direct_peers and not self.direct_connect_ticks:
            yield Violation("direct_peers", self.direct_peers, "only with direct_connect_ticks above 0")
        if self.score is not None and self.places_per_address:
            rule = "must be 0 with a score, whose part P6 is about addresses"
            yield Violation("places_per_address", self.places_per_address, rule)
        if self.history_gossip > self.history_length:
            rule = f"must not be above history_length ({self.history_length})"
            yield Violation("history_gossip", self.history_gossip, rule)
