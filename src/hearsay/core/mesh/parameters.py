"""Parameters of the mesh and of gossipsub 1.0 to 1.3, and the named choices among their rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from hearsay.core.language.identifiers import Micros
from hearsay.core.scores.declarations import TrackedPromises
from hearsay.core.scores.gater import GaterParameters
from hearsay.core.scores.score_parameters import ScoreSet
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
"""Value of `refuse_from` for a mesh that accepts all GRAFTs; no mesh is that large."""


class PruneTrigger(StrEnum):
    """Size at which upkeep prunes a mesh: above D_high (r1, guide, js), or at D_high (go, rust)."""

    ABOVE_HIGH = "above_high"
    AT_HIGH = "at_high"


class FullMesh(StrEnum):
    """Answer to a GRAFT when the mesh has D_high peers or more: accept it (r1), or refuse it with PRUNE (v1.1)."""

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
    """Time after a PRUNE without GRAFTs from either side (v1.1: 60 000); 0: no backoff."""
    unsubscribe_backoff_ms: int = milliseconds(10_000)
    """Backoff after a PRUNE that a node sends because it leaves the topic."""
    max_backoff_ms: int = milliseconds(3_600_000)
    """Longest backoff that a peer's PRUNE can begin."""
    backoff_slack_heartbeats: int = integer(2, low=0)
    """Heartbeat intervals that the router's own GRAFT waits after the end of a backoff."""
    max_backoffs: int = integer(100_000, low=1)
    """Limit on remembered backoffs; the oldest is removed first."""
    exchange_peers: int = integer(0, low=0, high=1_000)
    """Number of peers that a PRUNE names."""
    accept_exchange: bool = False
    """Dial peers that a received PRUNE names."""
    exchange_dials: int = integer(0, low=0, high=1_000)
    """Limit on dialled peers of one PRUNE; 0: as many as `exchange_peers`."""

    degree: int = integer(6, low=0)
    """D, the mesh degree. Without a mesh, `degree`, `degree_low` and `degree_high` are all 0."""
    degree_low: int = integer(4, low=0)
    """D_low: the heartbeat grafts peers when the mesh has fewer."""
    degree_high: int = integer(12, low=0)
    """D_high: the heartbeat prunes peers when the mesh has more (see `prune_trigger`)."""
    prune_trigger: PruneTrigger = choice(PruneTrigger.ABOVE_HIGH)
    """Size at which the heartbeat prunes a mesh: more than D_high peers, or D_high peers."""
    full_mesh: FullMesh = choice(FullMesh.ACCEPT)
    """Answer to a GRAFT when the mesh has D_high peers or more."""
    unknown_graft: UnknownGraft = choice(UnknownGraft.PRUNE)
    """Answer to a GRAFT for a topic that the node has not joined."""
    heartbeat_interval_ms: int = milliseconds(1000, low=1)
    """Time between heartbeats."""
    first_heartbeat_ms: int = milliseconds(1000)
    """Time until the first heartbeat."""
    first_heartbeat_spread_ms: int = milliseconds(1000)
    """Maximum of a random delay that is added to `first_heartbeat_ms`."""
    places_per_address: int = integer(0, low=0)
    """Mesh members at one IP address that are not pruned in favour of peers at other addresses; 0: all."""

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
        """Return the smallest size of a mesh that upkeep prunes."""
        return self.degree_high + (self.prune_trigger is PruneTrigger.ABOVE_HIGH)

    @property
    def refuse_from(self) -> int:
        """Return the smallest size of a mesh that refuses a GRAFT."""
        return self.degree_high if self.full_mesh is FullMesh.REFUSE else _NEVER_FULL

    @property
    def backoff_slack_us(self) -> Micros:
        """Return the time that the router's own GRAFT waits after the end of a backoff."""
        return self.backoff_slack_heartbeats * self.heartbeat_interval_ms * 1000


class OutboundWhenFull(StrEnum):
    """Peers whose GRAFT a full mesh accepts: all that this node dialled (v1.1, go, js), such peers while fewer than
    D_out members are dialled (nim), or none (unreleased rust). An attacker can dial this node, but cannot make this
    node dial."""

    ALWAYS = "always"
    QUOTA = "quota"
    NEVER = "never"


class OutboundRepair(StrEnum):
    """Number of dialled peers that stay in a pruned mesh if fewer than D_out would stay otherwise: D_out, or up to D
    (js)."""

    TO_DEGREE_OUT = "to_degree_out"
    TO_DEGREE = "to_degree"


class Median(StrEnum):
    """Median of an even number of scores: the upper of the middle two (go), the lower (nim), or their mean (rust)."""

    UPPER = "upper"
    LOWER = "lower"
    MEAN = "mean"


class OpportunityChoice(StrEnum):
    """Peers that a mesh with a low median score grafts: random peers above the median, the first above it in the
    order of ids (jvm), or the first at or above it (nim)."""

    DRAWN_ABOVE = "drawn_above"
    FIRST_ABOVE = "first_above"
    FIRST_FROM = "first_from"


class GraftChoice(StrEnum):
    """Peers that the heartbeat grafts into a mesh below D_low: random peers without a negative score, or those with
    the best scores (nim)."""

    RANDOM = "random"
    BEST = "best"


class UnwelcomeGraft(StrEnum):
    """Answer to a GRAFT of a peer with a negative score: PRUNE (v1.1), or none (nim): the peer enters the mesh until
    the next heartbeat, unless its score is below `publish`."""

    PRUNE = "prune"
    TAKEN_IN = "taken_in"


class DirectGraft(StrEnum):
    """Answer to a GRAFT of a direct peer: PRUNE (go), PRUNE and `early_graft_penalty` (nim), or none (rust)."""

    PRUNE = "prune"
    PENALISE = "penalise"
    IGNORE = "ignore"


class UnsubscribedGraft(StrEnum):
    """Answer to a GRAFT of a peer without a subscription to the topic: PRUNE, none (rust), or the answer that a
    subscriber would get; if this peer enters the mesh, it counts as a subscriber (go, js, nim, jvm). With `ignore`, a
    GRAFT that is also refused for another reason, such as a backoff, gets a PRUNE."""

    PRUNE = "prune"
    IGNORE = "ignore"
    TAKEN_IN = "taken_in"


class LateExtensions(StrEnum):
    """Penalty for an extensions control after a peer's first RPC, where it has no effect: ten points of P7 (go, jvm),
    or none (rust)."""

    PENALISE = "penalise"
    IGNORE = "ignore"


class SupportersTold(StrEnum):
    """Routers that send metadata to a peer that only supports parts: routers that request parts (go, nim), or all
    routers that support parts (rust)."""

    BY_REQUESTERS = "by_requesters"
    BY_ALL = "by_all"


class GossipTargets(StrEnum):
    """Order of two steps of gossip: draw D_lazy peers and then exclude the mesh (r1, simsub), or the reverse (guide,
    go)."""

    SELECT_THEN_FILTER = "select_then_filter"
    FILTER_THEN_SELECT = "filter_then_select"


class SeenBy(StrEnum):
    """Time that message ids are remembered: `seen_ttl_ms` (r1), or `history_length` heartbeats (simsub's actor)."""

    TIME = "time"
    HISTORY = "history"


class FanoutTopUp(StrEnum):
    """Time to replace lost fan-out peers: the heartbeat (r1), or the next publication (guide)."""

    HEARTBEAT = "heartbeat"
    PUBLISH = "publish"


class ShortMesh(StrEnum):
    """Peers that get the node's own messages if the mesh has fewer than D peers: the mesh (r1, go), or also random
    others up to D (rust, js)."""

    MESH_ONLY = "mesh_only"
    TOP_UP = "top_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class GossipsubParameters(MeshParameters):
    """Parameters of gossipsub 1.0 to 1.3."""

    score: ScoreSet | None = table(ScoreSet)
    """Parameters of peer scores, `[router.score]`; without the table all scores are 0."""
    gater: GaterParameters | None = table(GaterParameters)
    """Parameters of the gater, `[router.gater]`, which drops messages of some peers while validation is
    overloaded."""
    degree_score: int = integer(0, low=0)
    """D_score: number of best-scored peers that stay when the mesh is pruned (v1.1: 4)."""
    degree_out: int = integer(0, low=0)
    """D_out: least number of mesh members that this node dialled; at most D / 2 and below D_low (v1.1: 2)."""
    outbound_when_full: OutboundWhenFull = choice(OutboundWhenFull.ALWAYS)
    """Peers whose GRAFT is accepted although the mesh is full."""
    outbound_repair: OutboundRepair = choice(OutboundRepair.TO_DEGREE_OUT)
    """Number of dialled peers that stay in a pruned mesh if fewer than D_out would stay otherwise."""
    opportunistic_graft_ticks: int = integer(0, low=0)
    """Heartbeats between two checks of the mesh's median score (v1.1: 60); 0: no checks."""
    opportunistic_graft_peers: int = integer(2, low=0)
    """Peers that are grafted if a check finds a low median."""
    median: Median = choice(Median.UPPER)
    """Median of an even number of scores."""
    opportunity_choice: OpportunityChoice = choice(OpportunityChoice.DRAWN_ABOVE)
    """Peers with better scores that are grafted if the median is low."""
    graft_choice: GraftChoice = choice(GraftChoice.RANDOM)
    """Peers that the heartbeat grafts into a mesh below D_low."""
    graft_on_subscribe: bool = False
    """Graft a peer at once when it subscribes and the mesh is below D_low (rust, js)."""
    unwelcome_graft: UnwelcomeGraft = choice(UnwelcomeGraft.PRUNE)
    """Answer to a GRAFT of a peer with a negative score."""
    graft_flood_ms: int = milliseconds(10_000)
    """Time after a PRUNE in which a GRAFT counts twice as misbehaviour."""
    early_graft_ms: int = milliseconds(0)
    """Time before the end of a backoff in which a GRAFT is accepted (nim: 4 000)."""
    early_graft_penalty: float = share(1.0)
    """Misbehaviour that a GRAFT during a backoff adds (nim: 0.1)."""
    flood_publish: bool = False
    """Send the node's own messages to all topic peers whose scores allow it."""
    flood_publish_mbit: int = integer(0, low=0)
    """Uplink rate that limits `flood_publish` to the peers served in a heartbeat interval, at least D_low (nim: 100);
    0 is unlimited."""
    gossip_factor: float = share(0.0)
    """Share of the eligible peers that get gossip, if this share is more than D_lazy peers (v1.1: 0.25)."""
    max_ihave_messages: int = integer(0, low=0)
    """Limit on RPCs with IHAVE of one peer between two heartbeats (v1.1: 10); 0 is unlimited."""
    ihave_parts_count: bool = False
    """Apply `max_ihave_messages` to IHAVEs of joined topics, not to RPCs (jvm)."""
    ihave_ids_of_rpc: bool = False
    """Apply `max_ids_per_ihave` to all IHAVEs of an RPC together (js)."""
    max_iwant_messages: int = integer(0, low=0)
    """Limit on RPCs with IWANT of one peer between two heartbeats (js: 10); 0 is unlimited."""
    iwant_followup_ms: int = milliseconds(3_000, low=1)
    """Time after an IWANT in which the peer must send the requested message."""
    tracked_promises: TrackedPromises = choice(TrackedPromises.ONE)
    """Ids of an IWANT that count as promises."""
    direct_connect_ticks: int = integer(0, low=0)
    """Heartbeats between two dials of missing direct peers (v1.1: 300); 0: no dials."""
    direct_graft: DirectGraft = choice(DirectGraft.PRUNE)
    """Answer to a GRAFT of a direct peer."""
    unsubscribed_graft: UnsubscribedGraft = choice(UnsubscribedGraft.PRUNE)
    """Answer to a GRAFT of a peer without a subscription to the topic."""
    member_graft_is_judged: bool = False
    """Check the GRAFT of a mesh member like a GRAFT of any other peer; the member may then be pruned (jvm)."""
    backoff_on_unsubscribe: bool = False
    """Begin a backoff of `prune_backoff_ms` when a mesh member unsubscribes (rust)."""
    backoff_when_not_joined: bool = False
    """Begin a backoff for a PRUNE of a topic that the node has not joined (jvm)."""
    backoff_until_forgotten: bool = False
    """Send no GRAFT until the backoff is removed; ended backoffs are removed every 15 heartbeats (go, js)."""
    exchange_always: bool = False
    """Name peers in every PRUNE (jvm)."""
    mesh_before_gossip: bool = False
    """Handle GRAFT and PRUNE of an RPC before IHAVE and IWANT (jvm)."""
    asked_peer_must_send: bool = False
    """A promise is kept only by a copy from the peer that got the IWANT (jvm)."""
    direct_peers: tuple[tuple[int, int], ...] = pairs()
    """Pairs of simulated nodes that are direct peers, `[[1, 5], [2, 7]]`, and are connected from the start."""
    graylisted_subscriptions: bool = True
    """Accept subscriptions of graylisted peers (go, rust)."""

    extensions: bool = False
    """Speak 1.3 even if no extension is supported."""
    partial_messages: bool = False
    """Support partial messages; the router then speaks 1.3."""
    test_extension: bool = False
    """Support the test extension, for tests; the router then speaks 1.3."""
    late_extensions: LateExtensions = choice(LateExtensions.PENALISE)
    """Reaction to an extensions control after a peer's first RPC."""
    supporters_told: SupportersTold = choice(SupportersTold.BY_REQUESTERS)
    """Routers that send metadata to a peer that only supports parts."""
    partial_group_heartbeats: int = integer(3, low=1)
    """Heartbeats for which a group is kept after a publication, or after a peer opened it (rust: 5)."""
    max_peer_groups: int = integer(255, low=0)
    """Limit on a topic's groups that peers opened."""
    max_groups_per_peer: int = integer(8, low=0)
    """Limit on a topic's groups that one peer opened."""
    max_metadata_bytes: int = integer(1_000, low=1)
    """Limit on the size of accepted metadata (go: unlimited)."""

    degree_lazy: int = integer(6, low=0)
    """D_lazy: number of peers that get gossip in a heartbeat."""
    gossip_targets: GossipTargets = choice(GossipTargets.SELECT_THEN_FILTER)
    """Order of two steps: draw the peers that get gossip, and exclude the mesh."""
    history_length: int = integer(5, low=1, high=100_000)
    """Windows for which a message stays in the cache, the current one included (simsub: 121)."""
    history_gossip: int = integer(3, low=0, high=100_000)
    """Windows whose messages are announced in gossip, the current one included."""
    seen_by: SeenBy = choice(SeenBy.TIME)
    """Time that message ids are remembered: `seen_ttl_ms`, or `history_length` heartbeats."""
    fanout_ttl_ms: int = milliseconds(60_000)
    """Time without a publication after which the fan-out of a topic ends."""
    fanout_top_up: FanoutTopUp = choice(FanoutTopUp.HEARTBEAT)
    """Time at which lost fan-out peers are replaced."""
    short_mesh: ShortMesh = choice(ShortMesh.MESH_ONLY)
    """Peers that get the node's own messages if the mesh has fewer than D peers."""
    graft_on_missing: int = integer(0, low=0)
    """Number of IHAVEs with unknown messages after which their sender is grafted; 0: never."""
    missing_window_heartbeats: int = integer(5, low=1)
    """Heartbeats between two resets of the counts for `graft_on_missing`."""
    max_ids_per_ihave: int = integer(5_000, low=1)
    """Limit on the ids of an IHAVE that is sent or handled."""
    max_ids_per_iwant: int = integer(5_000, low=1)
    """Limit between two heartbeats on the ids requested of one peer, and on the ids that one peer requests."""
    max_ids_asked: int = integer(0, low=0)
    """Further limit on the ids requested of one peer between two heartbeats (nim: 10); 0: none."""
    ask_again_heartbeats: int = integer(0, low=0)
    """Heartbeats in which a requested id is not requested again; 0: none."""
    iwant_answers_per_id: int = integer(3, low=0)
    """Limit on copies of one message to one peer on request (simsub: 1 000 000)."""
    max_cached_messages: int = integer(200_000, low=1)
    """Limit on messages in the cache."""
    max_cached_bytes: int = integer(0, low=0)
    """Limit on memory of the message cache; 0 is unlimited."""
    idontwant_threshold_bytes: int = integer(0, low=0)
    """Smallest size of a message for which the mesh gets an IDONTWANT (v1.2); 0 is off."""
    idontwant_on_publish: bool = False
    """Send IDONTWANT also for the node's own messages (go)."""
    idontwant_ttl_heartbeats: int = integer(3, low=1)
    """Heartbeats for which an IDONTWANT is remembered."""
    max_ids_per_idontwant: int = integer(10, low=1)
    """Limit on the ids in the IDONTWANTs of one RPC."""
    max_idontwants: int = integer(1_000, low=1)
    """Limit on RPCs with IDONTWANT of one peer between two heartbeats."""
    max_idontwant_ids: int = integer(0, low=0)
    """Limit on the ids in the IDONTWANTs of one peer between two heartbeats (js, nim, jvm); 0 is unlimited."""
    heeds_idontwant: bool = True
    """Do not send a peer the messages that its IDONTWANT names (js until August 2026: off)."""
    max_unwanted: int = integer(100_000, low=1)
    """Limit on remembered ids of all IDONTWANTs."""
    withdraw_unwanted: bool = False
    """Remove copies from a peer's send queue when its IDONTWANT names them (rust)."""
    skip_senders: bool = False
    """Send no copy to a peer that sent one during the validation (rust, nim)."""

    @property
    def uses_11(self) -> bool:
        """True if a parameter is set that needs the rules of gossipsub 1.1. Backoffs and peer exchange do not need
        these rules."""
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
        """True if the router speaks gossipsub 1.3: an extension is supported, or `extensions` is set."""
        return self.extensions or self.partial_messages or self.test_extension

    @property
    def max_ids_asked_per_peer(self) -> int:
        """Return the maximum number of ids that are requested of one peer between two heartbeats."""
        return min(self.max_ids_asked or self.max_ids_per_iwant, self.max_ids_per_iwant)

    def cross_rules(self) -> Iterator[Violation]:
        yield from MeshParameters.cross_rules(self)
        if self.degree_score > self.degree_high:
            yield Violation("degree_score", self.degree_score, f"must not be above degree_high ({self.degree_high})")
        if self.degree_out and not (self.degree_out < self.degree_low and 2 * self.degree_out <= self.degree):
            limits = f"must be below degree_low ({self.degree_low}) and at most half of degree ({self.degree})"
            yield Violation("degree_out", self.degree_out, limits)
        if self.direct_peers and not self.direct_connect_ticks:
            yield Violation("direct_peers", self.direct_peers, "needs direct_connect_ticks above 0")
        if self.score is not None and self.places_per_address:
            rule = "must be 0 with a score, since its part P6 counts the peers of an address"
            yield Violation("places_per_address", self.places_per_address, rule)
        if self.history_gossip > self.history_length:
            rule = f"must not be above history_length ({self.history_length})"
            yield Violation("history_gossip", self.history_gossip, rule)
