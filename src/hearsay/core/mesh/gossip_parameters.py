"""Gossipsub's parameters, and the named choices among its rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from hearsay.core.mesh.extensions.parameters import ExtensionParameters
from hearsay.core.shell.parameters import Violation, choice, integer, milliseconds


class GossipTargets(StrEnum):
    """Draw D_lazy of all topic peers and drop those in the mesh (r1, simsub), or leave it out first (guide, go)."""

    SELECT_THEN_FILTER = "select_then_filter"
    FILTER_THEN_SELECT = "filter_then_select"


class SeenBy(StrEnum):
    """Remember ids for a time (r1), or as long as the message cache keeps them (simsub's actor)."""

    TIME = "time"
    HISTORY = "history"


class FanoutTopUp(StrEnum):
    """Make up for lost fan-out peers in the heartbeat (r1) or at the next publish (guide)."""

    HEARTBEAT = "heartbeat"
    PUBLISH = "publish"


class ShortMesh(StrEnum):
    """Publishing with fewer than D mesh peers: to those alone (r1, go), or to random others up to D (rust, js)."""

    MESH_ONLY = "mesh_only"
    TOP_UP = "top_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class GossipsubParameters(ExtensionParameters):
    """Gossip, caches and fan-out, beside the mesh's parameters.

    | field | rule | r1 | simsub |
    |---|---|---|---|
    | degree_lazy | D_lazy, peers that get gossip | 6 | 6 |
    | gossip_targets | draw before or after leaving out the mesh | select_then_filter | select_then_filter |
    | history_length | windows a message is kept, the open one included | 5 | 121 |
    | history_gossip | windows that are gossiped about, the open one included | 3 | 3 |
    | seen_by | how long ids are remembered | time | history |
    | fanout_ttl_ms | fan-out is forgotten after that long without a publish | 60 000 | 60 000 |
    | fanout_top_up | when lost fan-out peers are replaced | heartbeat | heartbeat |
    | short_mesh | publishing with a small mesh | mesh_only | mesh_only |
    | graft_on_missing | GRAFT a peer after so many IHAVEs with news; 0 is off | 0 | 0 |
    | missing_window_heartbeats | … counted over so many heartbeats | 5 | 5 |
    | max_ids_per_ihave | ids of one IHAVE that are acted on, and sent | 5000 | 5000 |
    | max_ids_per_iwant | ids asked of one peer, and acted on when it asks, per heartbeat | 5000 | 5000 |
    | max_ids_asked | … asked, if these are to be fewer (nim: 10); 0: as many | 0 | 0 |
    | ask_again_heartbeats | an id that was asked for is not asked of others for so many; 0: of all | 0 | 0 |
    | iwant_answers_per_id | how often one message is sent to one peer on request | 3 | 1 000 000 |
    | max_cached_messages | size of the message cache | 200 000 | 200 000 |
    | max_cached_bytes | … in bytes of memory; 0 is off | 0 | 0 |
    | idontwant_threshold_bytes | the mesh is told that one has a message of so many bytes (v1.2); 0 is off | 0 | 0 |
    | idontwant_on_publish | the mesh is told of one's own, too (go) | off | off |
    | idontwant_ttl_heartbeats | how long it is remembered what a peer does not want | 3 | 3 |
    | max_ids_per_idontwant | ids heard of one RPC | 10 | 10 |
    | max_idontwants | RPCs with IDONTWANT heard of one peer per heartbeat | 1000 | 1000 |
    | max_idontwant_ids | ids heard of one peer per heartbeat, in all RPCs (js, nim, jvm); 0: any number | 0 | 0 |
    | heeds_idontwant | what a peer does not want is not sent to it (js until August 2026: it is) | on | on |
    | max_unwanted | ids of all peers that are remembered | 100 000 | 100 000 |
    | withdraw_unwanted | what a peer does not want leaves the queue to it, too (rust) | off | off |
    | skip_senders | no copy to a peer that sent one during validation (rust, nim) | off | off |
    """

    degree_lazy: int = integer(6, low=0)
    gossip_targets: GossipTargets = choice(GossipTargets.SELECT_THEN_FILTER)
    history_length: int = integer(5, low=1, high=100_000)
    history_gossip: int = integer(3, low=0, high=100_000)
    seen_by: SeenBy = choice(SeenBy.TIME)
    fanout_ttl_ms: int = milliseconds(60_000)
    fanout_top_up: FanoutTopUp = choice(FanoutTopUp.HEARTBEAT)
    short_mesh: ShortMesh = choice(ShortMesh.MESH_ONLY)
    graft_on_missing: int = integer(0, low=0)
    missing_window_heartbeats: int = integer(5, low=1)
    max_ids_per_ihave: int = integer(5_000, low=1)
    max_ids_per_iwant: int = integer(5_000, low=1)
    max_ids_asked: int = integer(0, low=0)
    ask_again_heartbeats: int = integer(0, low=0)
    iwant_answers_per_id: int = integer(3, low=0)
    max_cached_messages: int = integer(200_000, low=1)
    max_cached_bytes: int = integer(0, low=0)
    idontwant_threshold_bytes: int = integer(0, low=0)
    idontwant_on_publish: bool = False
    idontwant_ttl_heartbeats: int = integer(3, low=1)
    max_ids_per_idontwant: int = integer(10, low=1)
    max_idontwants: int = integer(1_000, low=1)
    max_idontwant_ids: int = integer(0, low=0)
    heeds_idontwant: bool = True
    max_unwanted: int = integer(100_000, low=1)
    withdraw_unwanted: bool = False
    skip_senders: bool = False

    @property
    def most_ids_asked(self) -> int:
        """Of one peer per heartbeat."""
        return min(self.max_ids_asked or self.max_ids_per_iwant, self.max_ids_per_iwant)

    def cross_rules(self) -> Iterator[Violation]:
        yield from ExtensionParameters.cross_rules(self)
        if self.history_gossip > self.history_length:
            rule = f"must not be above history_length ({self.history_length})"
            yield Violation("history_gossip", self.history_gossip, rule)
