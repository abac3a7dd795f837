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
    """Parameters of gossip, message caches, fan-out and IDONTWANT."""

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
    """Do not send a peer what its IDONTWANT names (js until August 2026: off)."""
    max_unwanted: int = integer(100_000, low=1)
    """Ids of all peers' IDONTWANTs that are remembered."""
    withdraw_unwanted: bool = False
    """Remove a copy from the peer's send queue when its IDONTWANT arrives (rust)."""
    skip_senders: bool = False
    """Send no copy to a peer that sent one during validation (rust, nim)."""

    @property
    def most_ids_asked(self) -> int:
        """Of one peer per heartbeat."""
        return min(self.max_ids_asked or self.max_ids_per_iwant, self.max_ids_per_iwant)

    def cross_rules(self) -> Iterator[Violation]:
        yield from ExtensionParameters.cross_rules(self)
        if self.history_gossip > self.history_length:
            rule = f"must not be above history_length ({self.history_length})"
            yield Violation("history_gossip", self.history_gossip, rule)
