"""The parameters of gossipsub 1.1 that make a router judge its peers, and where implementations differ in that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from hearsay.core.mesh.mesh_parameters import MeshParameters
from hearsay.core.scores.choices import TrackedPromises
from hearsay.core.scores.gater_parameters import GaterParameters
from hearsay.core.scores.score_set import ScoreSet
from hearsay.core.shell.parameters import Violation, choice, integer, milliseconds, pairs, share, table


class OutboundWhenFull(StrEnum):
    """Whom a full mesh takes in although it is full: who was dialled (go, js), while there are too few of them (nim),
    or nobody (rust). The first is v1.1's: whoever attacks can dial, but cannot make others dial."""

    ALWAYS = "always"
    QUOTA = "quota"
    NEVER = "never"


class OutboundRepair(StrEnum):
    """How many dialled peers stay when a mesh is cut and fewer than D_out would: so many, or as many as have places
    (js)."""

    TO_DEGREE_OUT = "to_degree_out"
    TO_DEGREE = "to_degree"


class Median(StrEnum):
    """Of an even number of scores: the upper of the middle two (go), the lower one (nim), or their mean (rust)."""

    UPPER = "upper"
    LOWER = "lower"
    MEAN = "mean"


class OpportunityChoice(StrEnum):
    """Whom a mesh with a poor median grafts: a draw among the peers above the median, the first of them (jvm), or the
    first of those at or above it (nim)."""

    DRAWN_ABOVE = "drawn_above"
    FIRST_ABOVE = "first_above"
    FIRST_FROM = "first_from"


class GraftChoice(StrEnum):
    """Whom a mesh with too few peers grafts: anybody with a score that is not negative, or the best (nim)."""

    RANDOM = "random"
    BEST = "best"


class UnwelcomeGraft(StrEnum):
    """What the GRAFT of a peer with a negative score gets: a PRUNE (v1.1), or its place until the next heartbeat, and
    nothing at all below `publish` (nim)."""

    PRUNE = "prune"
    TAKEN_IN = "taken_in"


class DirectGraft(StrEnum):
    """What the GRAFT of a direct peer gets: a PRUNE (go), also `early_graft_penalty` (nim), or nothing (rust)."""

    PRUNE = "prune"
    PENALISE = "penalise"
    IGNORE = "ignore"


class UnsubscribedGraft(StrEnum):
    """What the GRAFT of a peer without a subscription to the topic gets: a PRUNE, nothing (rust), or what a
    subscriber gets; then it is taken for one (go, js, nim, jvm)."""

    PRUNE = "prune"
    IGNORE = "ignore"
    TAKEN_IN = "taken_in"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgingParameters(MeshParameters):
    """Parameters of peer scores and of gossipsub 1.1; with all of them off, the router speaks gossipsub 1.0."""

    score: ScoreSet | None = table(ScoreSet)
    """Parameters of peer scores, `[router.score]`; without the table all scores are 0."""
    gater: GaterParameters | None = table(GaterParameters)
    """Parameters of the gater, `[router.gater]`, which drops messages of some peers under load."""
    degree_score: int = integer(0, low=0)
    """D_score: peers with the best scores that stay when the mesh is pruned (v1.1: 4)."""
    degree_out: int = integer(0, low=0)
    """D_out: mesh members that this node has dialled; at most D / 2 and below D_low (v1.1: 2)."""
    outbound_when_full: OutboundWhenFull = choice(OutboundWhenFull.ALWAYS)
    """Peers that a full mesh accepts nevertheless."""
    outbound_repair: OutboundRepair = choice(OutboundRepair.TO_DEGREE_OUT)
    """Dialled peers that stay when the mesh is pruned and too few would."""
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
    """Misbehaviour that a GRAFT during a backoff counts as (nim: 0.1)."""
    flood_publish: bool = False
    """Send the node's own messages to all peers in the topic."""
    flood_publish_mbit: int = integer(0, low=0)
    """Rate that limits `flood_publish` to as many peers as it can serve in a heartbeat, at least D_low (nim:
    100); 0 is unlimited."""
    gossip_factor: float = share(0.0)
    """Share of the topic's other peers that get gossip, when that is more than D_lazy (v1.1: 0.25)."""
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
    """Check the GRAFT of a mesh member as any other; it may then leave the mesh (jvm)."""
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

    @property
    def judges(self) -> bool:
        """Whether any of it is on."""
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
