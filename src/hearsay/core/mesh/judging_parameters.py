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
    """Scores, and what the mesh, gossip and publishing do with them; all off is gossipsub 1.0.

    | field | rule | 1.0 | v1.1 |
    |---|---|---|---|
    | score | `[router.score]`; without it all scores are 0 | none | as given |
    | gater | `[router.gater]`: whose messages are looked at when there are too many | none | as given |
    | degree_score | D_score: the best so many stay when a mesh is pruned | 0 | 4 |
    | degree_out | D_out: so many members were dialled by this side, below D_low and D / 2 at most | 0 | 2 |
    | outbound_when_full | whom a full mesh takes in | always | always |
    | outbound_repair | how many dialled peers stay when too few would | to_degree_out | to_degree_out |
    | opportunistic_graft_ticks | heartbeats between two looks at the median of a scored mesh; 0 is off | 0 | 60 |
    | opportunistic_graft_peers | … and so many are grafted | 2 | 2 |
    | median | of an even number of scores | upper | upper |
    | opportunity_choice | which better peers are grafted | drawn_above | drawn_above |
    | graft_choice | whom a mesh with too few grafts | random | random |
    | graft_on_subscribe | who joins a topic is grafted at once if the mesh has too few (rust, js) | off | off |
    | unwelcome_graft | what the GRAFT of a peer with a negative score gets | prune | prune |
    | graft_flood_ms | a GRAFT so soon after a PRUNE counts twice as misbehaviour | 10 000 | 10 000 |
    | early_graft_ms | a GRAFT so shortly before the end of a backoff is none too early (nim: 4 000) | 0 | 0 |
    | early_graft_penalty | what a GRAFT in a backoff counts as misbehaviour (nim: 0.1) | 1 | 1 |
    | flood_publish | one's own messages go to all of the topic | off | on |
    | flood_publish_mbit | … to as many as this rate serves in a heartbeat, or D_low (nim: 100); 0: all | 0 | 0 |
    | gossip_factor | share of the topic's other peers that get gossip, if that is more than D_lazy | 0 | 0.25 |
    | max_ihave_messages | RPCs with IHAVE of one peer that are looked at per heartbeat; 0: all | 0 | 10 |
    | ihave_parts_count | … and not RPCs but the IHAVEs of joined topics are counted (jvm) | off | off |
    | ihave_ids_of_rpc | `max_ids_per_ihave` holds for all IHAVEs of an RPC together (js) | off | off |
    | max_iwant_messages | RPCs with IWANT of one peer that are looked at per heartbeat (js: 10); 0: all | 0 | 0 |
    | iwant_followup_ms | after so long the promise of an IHAVE is broken | 3 000 | 3 000 |
    | tracked_promises | which ids of an IWANT are promises | one | one |
    | direct_connect_ticks | heartbeats between two looks whether direct peers are there; 0: no looks | 0 | 300 |
    | direct_graft | what the GRAFT of a direct peer gets | prune | prune |
    | unsubscribed_graft | what the GRAFT of a peer without a subscription gets | prune | prune |
    | member_graft_is_judged | a member's GRAFT is judged like others, so it may leave the mesh (jvm) | off | off |
    | backoff_on_unsubscribe | a member that unsubscribes is kept apart for `prune_backoff_ms` (rust) | off | off |
    | backoff_when_not_joined | a PRUNE for a topic that is not joined starts a backoff (jvm) | off | off |
    | backoff_until_forgotten | own GRAFTs wait until the backoff is forgotten (go, js: each 15 beats) | off | off |
    | exchange_always | every PRUNE names others, whatever it is for (jvm) | off | off |
    | mesh_before_gossip | GRAFT and PRUNE of an RPC are handled before IHAVE and IWANT (jvm) | off | off |
    | asked_peer_must_send | a promise is kept only by a copy of the peer that was asked (jvm) | off | off |
    | direct_peers | pairs of simulated nodes that are direct to each other | none | none |
    | graylisted_subscriptions | subscriptions count even of the graylisted (go, rust) | on | on |
    """

    score: ScoreSet | None = table(ScoreSet)
    gater: GaterParameters | None = table(GaterParameters)
    degree_score: int = integer(0, low=0)
    degree_out: int = integer(0, low=0)
    outbound_when_full: OutboundWhenFull = choice(OutboundWhenFull.ALWAYS)
    outbound_repair: OutboundRepair = choice(OutboundRepair.TO_DEGREE_OUT)
    opportunistic_graft_ticks: int = integer(0, low=0)
    opportunistic_graft_peers: int = integer(2, low=0)
    median: Median = choice(Median.UPPER)
    opportunity_choice: OpportunityChoice = choice(OpportunityChoice.DRAWN_ABOVE)
    graft_choice: GraftChoice = choice(GraftChoice.RANDOM)
    graft_on_subscribe: bool = False
    unwelcome_graft: UnwelcomeGraft = choice(UnwelcomeGraft.PRUNE)
    graft_flood_ms: int = milliseconds(10_000)
    early_graft_ms: int = milliseconds(0)
    early_graft_penalty: float = share(1.0)
    flood_publish: bool = False
    flood_publish_mbit: int = integer(0, low=0)
    gossip_factor: float = share(0.0)
    max_ihave_messages: int = integer(0, low=0)
    ihave_parts_count: bool = False
    ihave_ids_of_rpc: bool = False
    max_iwant_messages: int = integer(0, low=0)
    iwant_followup_ms: int = milliseconds(3_000, low=1)
    tracked_promises: TrackedPromises = choice(TrackedPromises.ONE)
    direct_connect_ticks: int = integer(0, low=0)
    direct_graft: DirectGraft = choice(DirectGraft.PRUNE)
    unsubscribed_graft: UnsubscribedGraft = choice(UnsubscribedGraft.PRUNE)
    member_graft_is_judged: bool = False
    backoff_on_unsubscribe: bool = False
    backoff_when_not_joined: bool = False
    backoff_until_forgotten: bool = False
    exchange_always: bool = False
    mesh_before_gossip: bool = False
    asked_peer_must_send: bool = False
    direct_peers: tuple[tuple[int, int], ...] = pairs()
    graylisted_subscriptions: bool = True

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
