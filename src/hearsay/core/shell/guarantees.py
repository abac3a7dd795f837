"""What a router guarantees, so that a checker can hold a run to it.

A router without guarantees of its own is held to what all routers owe each other (`hearsay.sim.checks.checker`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass

from hearsay.core.language.identifiers import MessageId, Micros, PeerId, TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshPromise:
    """Of the mesh of every joined topic, when a heartbeat is over: mutual links, and their number."""

    lowest: int
    """If the topic has so many native peers that no backoff keeps away."""
    highest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BackoffPromise:
    """No GRAFT to a peer before the time that a PRUNE to it or from it named."""

    unnamed_us: Micros
    """For a PRUNE of a peer that names no time."""
    longest_us: Micros
    """However long a peer asks for."""
    own_longest_us: Micros
    """For a PRUNE of one's own that names no time."""
    slack_us: Micros
    """So much later a peer is grafted at the latest."""
    remembered: int
    """Beyond so many some may be forgotten."""
    early_us: Micros = 0
    """A peer's own GRAFT is taken so much earlier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingPromise:
    """Of messages that peers were asked for with IWANT and that are waited for."""

    waited_for: Mapping[tuple[PeerId, MessageId], Micros]
    """Until when, as it is at any time; a heartbeat ends what is over."""
    answer_us: Micros
    """So long after the IWANT."""
    one_of_each: bool
    """Of each IWANT one message at most."""
    of_the_asked: bool
    """Only a copy of the peer that was asked ends the waiting."""
    most: int
    most_of_one: int
    """Of all peers, and of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingPromise:
    """Of peers that are judged by their scores (`Strategy.scores`)."""

    gossip: float
    """Below it a peer gets no IHAVE, and its IWANT no answer."""
    publish: float
    """Below it a peer gets none of one's own messages, but in a mesh."""
    graylist: float
    """Below it nothing is heard of a peer but its subscriptions; so it may believe in a mesh link that is none."""
    enters: float
    """Below it a peer's GRAFT is not taken; below 0 it is out of the mesh with the next heartbeat."""
    names_to_all: bool
    """A PRUNE to a peer below 0 may name others, too."""
    degree_low: int
    degree_out: int
    """A mesh of D_low has so many dialled peers, if there are any left to graft."""
    direct: Set[PeerId]
    """Who is exempt, and in no mesh; as it is at any time."""
    asking: AskingPromise


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlayPromise:
    """Of neighbours that the router chooses: bounded lists, mutual links, and nothing announced that stays
    missing."""

    one_tree: bool
    """The eager links of a topic become a spanning tree that all its nodes share."""
    only_tried_leave: bool
    """Nobody leaves the passive list untried."""
    ping_answer_us: Micros
    """A neighbour whose answer takes longer is none any more."""
    recovery_us: Micros
    """An announced message is here after so long, or was asked for in vain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialPromise:
    """Of partial messages: what peers open is bounded. Who is sent what is the rules' (PARTIAL-2, PARTIAL-3)."""

    opened: Callable[[TopicId], int]
    """Groups of a topic that peers have opened."""
    opened_by: Callable[[TopicId, PeerId], int]
    most: int
    most_of_one: int
    tells_supporters: bool
    """Metadata goes to who only supports parts from who only supports them, too."""


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
    """A message counts as seen for so many heartbeats; None when a time bounds that (`seen_ttl_s`)."""
