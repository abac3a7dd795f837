"""Episub's parameters, and the named choices among its rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from hearsay.core.shell.parameters import RouterParameters, Violation, choice, integer, milliseconds


class Overlay(StrEnum):
    """Who the neighbours are: the seed's views, HyParView's as published, or simply whoever is connected."""

    EPISUB = "episub"
    HYPARVIEW = "hyparview"
    CONNECTIONS = "connections"


class Broadcast(StrEnum):
    """How messages travel: along Plumtree's tree, or to every neighbour."""

    TREE = "tree"
    FLOOD = "flood"


class ViewSizes(StrEnum):
    """C_rand, A and P as given, or computed from the estimated size of the overlay."""

    FIXED = "fixed"
    ESTIMATED = "estimated"


class LeaveBy(StrEnum):
    """What leaving nodes say: DISCONNECT to the neighbours, or a LEAVE that spreads."""

    LEAVE = "leave"
    DISCONNECT = "disconnect"


class Repair(StrEnum):
    """When a tree edge is lost: wait for the next IHAVE (Plumtree), or graft all lazy links at once."""

    LAZY = "lazy"
    EAGER = "eager"


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisubParameters(RouterParameters):
    """Membership, then broadcast. `docs/routers/episub.md` gives the source of each default.

    | field | rule | default |
    |---|---|---|
    | overlay, broadcast | which membership and which broadcast | episub, tree |
    | random_links, near_links | C_rand, C_near; A is their sum | 4, 3 |
    | passive_size | P | 42 |
    | view_sizes | fixed, or C_rand = log10 N, A = C_rand + size_constant and P = passive_factor · A | fixed |
    | active_limit | nobody is taken in beyond this | 28 |
    | join_ttl, passive_ttl | length of JOIN and FORWARDJOIN walks; HyParView's ARWL and PRWL | 6, 3 |
    | reply_timeout_ms | how long an answer is waited for; who leaves a ping unanswered so long has failed | 2000 |
    | stabilise_min_ms, stabilise_max_ms | the randomised period of stabilisation | 1000, 10 000 |
    | alpha_percent | a near link gives way to one with less than this share of its RTT | 75 |
    | shuffle_interval_ms, shuffle_ttl, shuffle_active, shuffle_passive | period, walk, k_a, k_p | 10 000, 6, 3, 4 |
    | probe_interval_ms, probe_count | passive probes | 30 000, 2 |
    | contacts_interval_ms | how often discovery is asked for new passive nodes; 0 is never | 60 000 |
    | leave_by, leave_ttl | LEAVE or DISCONNECT; how far LEAVE goes anyway | leave, 3 |
    | idle_ms | a connection nobody needs is closed after this | 3000 |
    | flush_ms | period of lazy announcements | 100 |
    | announce_recent_ms | a new neighbour is told of messages not older than this; 0 is never | 3000 |
    | missing_tick_ms | the persistent timer that touches missing messages | 300 |
    | graft_attempts | ticks with a GRAFT before a message is given up | 5 |
    | optimisation_threshold | hops by which a lazy path must be shorter; 0 turns it off | 5 |
    | repair | what the loss of an eager link causes | eager |
    | payload_ttl_ms | how long messages can be sent again; ids live for seen_ttl_ms | 30 000 |
    | max_* | bounds on what peers can grow | |
    """

    seen_ttl_ms: int = milliseconds(90_000, low=1)
    overlay: Overlay = choice(Overlay.EPISUB)
    broadcast: Broadcast = choice(Broadcast.TREE)
    random_links: int = integer(4, low=1, high=1000)
    near_links: int = integer(3, low=0, high=1000)
    passive_size: int = integer(42, low=1, high=100_000)
    view_sizes: ViewSizes = choice(ViewSizes.FIXED)
    size_constant: int = integer(3, low=0, high=1000)
    passive_factor: int = integer(6, low=1, high=1000)
    active_limit: int = integer(28, low=1, high=10_000)
    join_ttl: int = integer(6, low=0, high=255)
    passive_ttl: int = integer(3, low=0, high=255)
    reply_timeout_ms: int = milliseconds(2_000, low=1)
    stabilise_min_ms: int = milliseconds(1_000, low=1)
    stabilise_max_ms: int = milliseconds(10_000, low=1)
    alpha_percent: int = integer(75, low=1, high=100)
    shuffle_interval_ms: int = milliseconds(10_000, low=1)
    shuffle_ttl: int = integer(6, low=0, high=255)
    shuffle_active: int = integer(3, low=0, high=1000)
    shuffle_passive: int = integer(4, low=0, high=1000)
    probe_interval_ms: int = milliseconds(30_000, low=1)
    probe_count: int = integer(2, low=0, high=1000)
    contacts_interval_ms: int = milliseconds(60_000)
    leave_by: LeaveBy = choice(LeaveBy.LEAVE)
    leave_ttl: int = integer(3, low=0, high=255)
    idle_ms: int = milliseconds(3_000, low=1)
    flush_ms: int = milliseconds(100, low=1)
    announce_recent_ms: int = milliseconds(3_000)
    missing_tick_ms: int = milliseconds(300, low=1)
    graft_attempts: int = integer(5, low=1, high=1000)
    optimisation_threshold: int = integer(5, low=0, high=255)
    repair: Repair = choice(Repair.EAGER)
    payload_ttl_ms: int = milliseconds(30_000, low=1)
    max_cached_messages: int = integer(20_000, low=1)
    max_cached_bytes: int = integer(0, low=0)
    max_missing: int = integer(20_000, low=1)
    max_announcers: int = integer(16, low=1)
    max_ids_per_part: int = integer(5_000, low=1)
    max_peers_per_part: int = integer(64, low=1)
    max_dials: int = integer(64, low=1)
    graft_answers_per_id: int = integer(3, low=1)

    @property
    def active_size(self) -> int:
        """A, when it is fixed."""
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
            yield Violation("view_sizes", self.view_sizes, 'only with overlay = "episub"')
