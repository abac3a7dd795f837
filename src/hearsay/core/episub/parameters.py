"""The parameters of episub, and the enumerations of their values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from hearsay.core.shell.parameters import RouterParameters, Violation, choice, integer, milliseconds


class Overlay(StrEnum):
    """The neighbours of a node: chosen as in the episub spec, chosen as in HyParView, or all connected peers."""

    EPISUB = "episub"
    HYPARVIEW = "hyparview"
    CONNECTIONS = "connections"


class Broadcast(StrEnum):
    """The neighbours to which a node forwards messages: those in Plumtree's tree, or all."""

    TREE = "tree"
    FLOOD = "flood"


class ViewSizes(StrEnum):
    """The origin of C_rand, A and P: the parameters, or the estimated number of nodes in the overlay (SKETCH-1)."""

    FIXED = "fixed"
    ESTIMATED = "estimated"


class LeaveBy(StrEnum):
    """The message that a leaving node sends: DISCONNECT to the neighbours, or a LEAVE, which spreads farther."""

    LEAVE = "leave"
    DISCONNECT = "disconnect"


class Repair(StrEnum):
    """The reaction to the loss of an eager link (TREE-5): wait for the next IHAVE (Plumtree), or graft lazy links at
    once."""

    LAZY = "lazy"
    EAGER = "eager"


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisubParameters(RouterParameters):
    """Parameters of the membership and of the broadcast, in addition to those of every router."""

    seen_ttl_ms: int = milliseconds(90_000, low=1)
    """Time that a message id is remembered."""
    overlay: Overlay = choice(Overlay.EPISUB)
    """Membership protocol."""
    broadcast: Broadcast = choice(Broadcast.TREE)
    """Broadcast protocol."""
    random_links: int = integer(4, low=1, high=1000)
    """C_rand, the number of random neighbours."""
    near_links: int = integer(3, low=0, high=1000)
    """C_near, the number of near neighbours; A, the size of the active list, is C_rand + C_near."""
    passive_size: int = integer(42, low=1, high=100_000)
    """P, the size of the passive list."""
    view_sizes: ViewSizes = choice(ViewSizes.FIXED)
    """`fixed`, or `estimated`: C_rand = log10 N, A = C_rand + `size_constant`, P = `passive_factor` × A."""
    size_constant: int = integer(3, low=0, high=1000)
    """Neighbours beyond C_rand with `estimated` view sizes."""
    passive_factor: int = integer(6, low=1, high=1000)
    """P / A with `estimated` view sizes."""
    active_limit: int = integer(28, low=1, high=10_000)
    """Number of neighbours at which a node accepts no more."""
    join_ttl: int = integer(6, low=0, high=255)
    """TTL of JOIN and FORWARDJOIN (HyParView: ARWL)."""
    passive_ttl: int = integer(3, low=0, high=255)
    """TTL of a FORWARDJOIN at which its receiver adds the joiner to its passive list (HyParView: PRWL)."""
    reply_timeout_ms: int = milliseconds(2_000, low=1)
    """Longest wait for an answer. A peer that does not answer a ping in this time has failed."""
    stabilise_min_ms: int = milliseconds(1_000, low=1)
    """Shortest time between two stabilisations."""
    stabilise_max_ms: int = milliseconds(10_000, low=1)
    """Longest time between two stabilisations."""
    alpha_percent: int = integer(75, low=1, high=100)
    """A near neighbour is replaced by a peer with less than this percentage of that neighbour's round-trip time."""
    shuffle_interval_ms: int = milliseconds(10_000, low=1)
    """Mean time between two shuffles."""
    shuffle_ttl: int = integer(6, low=0, high=255)
    """TTL of a SHUFFLE."""
    shuffle_active: int = integer(3, low=0, high=1000)
    """k_a, maximum active peers in a shuffle."""
    shuffle_passive: int = integer(4, low=0, high=1000)
    """k_p, maximum passive peers in a shuffle."""
    probe_interval_ms: int = milliseconds(30_000, low=1)
    """Mean time between two probes of the passive list."""
    probe_count: int = integer(2, low=0, high=1000)
    """Passive peers that are probed at a time."""
    contacts_interval_ms: int = milliseconds(60_000)
    """Mean time between two requests to discovery for passive peers; 0 is never."""
    leave_by: LeaveBy = choice(LeaveBy.LEAVE)
    """Message of a node that leaves: DISCONNECT to its neighbours, or a LEAVE that spreads."""
    leave_ttl: int = integer(3, low=0, high=255)
    """Least number of hops that a LEAVE spreads beyond the leaver's neighbours."""
    idle_ms: int = milliseconds(3_000, low=1)
    """Time after which an unused connection is closed."""
    flush_ms: int = milliseconds(100, low=1)
    """Longest time until messages are announced to lazy neighbours."""
    announce_recent_ms: int = milliseconds(3_000)
    """Age up to which messages are announced to a new neighbour; 0 is never."""
    missing_tick_ms: int = milliseconds(300, low=1)
    """Time between two checks for missing messages."""
    graft_attempts: int = integer(5, low=1, high=1000)
    """Number of GRAFTs for a missing message before it is given up."""
    optimisation_threshold: int = integer(5, low=0, high=255)
    """Hops by which a lazy path must be shorter to replace an eager one; 0 is off."""
    repair: Repair = choice(Repair.EAGER)
    """Reaction to the loss of an eager link."""
    payload_ttl_ms: int = milliseconds(30_000, low=1)
    """Time that a message can be sent again."""
    max_cached_messages: int = integer(20_000, low=1)
    """Maximum messages of a topic that are kept to be sent again."""
    max_cached_bytes: int = integer(0, low=0)
    """Maximum bytes of the messages of a topic that are kept to be sent again; 0: no limit."""
    max_missing: int = integer(20_000, low=1)
    """Maximum missing messages of a topic that are tracked."""
    max_announcers: int = integer(16, low=1)
    """Maximum announcers of a missing message that are remembered."""
    max_ids_per_part: int = integer(5_000, low=1)
    """Maximum ids in one IHAVE or GRAFT; more are ignored."""
    max_peers_per_part: int = integer(64, low=1)
    """Maximum peers that one part names; more are ignored."""
    max_dials: int = integer(64, low=1)
    """Maximum dials at a time."""
    graft_answers_per_id: int = integer(3, low=1)
    """Maximum times that a message is sent to one peer on request."""

    @property
    def active_size(self) -> int:
        """A, the target size of the active list, with `fixed` view sizes."""
        return self.random_links + self.near_links

    def cross_rules(self) -> Iterator[Violation]:
        if self.active_limit < self.active_size:
            rule = f"must not be below random_links + near_links ({self.active_size})"
            yield Violation("active_limit", self.active_limit, rule)
        if self.stabilise_min_ms > self.stabilise_max_ms:
            rule = f"must not be above stabilise_max_ms ({self.stabilise_max_ms})"
            yield Violation("stabilise_min_ms", self.stabilise_min_ms, rule)
        if self.passive_ttl > self.join_ttl:
            yield Violation("passive_ttl", self.passive_ttl, f"must not be above join_ttl ({self.join_ttl})")
        if self.view_sizes is ViewSizes.ESTIMATED and self.overlay is not Overlay.EPISUB:
            yield Violation("view_sizes", self.view_sizes, 'needs overlay = "episub"')
