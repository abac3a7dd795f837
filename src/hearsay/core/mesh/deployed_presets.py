"""Parameters of gossipsub as it is deployed: what the specification of 1.1 and 1.2 says, what go does, what the
evaluation of 2020 ran, and what nodes run from which others start.

Only these last ones name others in their PRUNEs, since that is an option everywhere; go dials whom others name, asked
or not. Scores are the network's own: `go` and `spec` have none until `[router.score]` says how.
"""

from __future__ import annotations

from collections.abc import Mapping

from hearsay.core.scores.sets.hardening import HARDENING as HARDENING_SCORE

SPEC: Mapping[str, object] = {
    "prune_backoff_ms": 60_000,
    "unsubscribe_backoff_ms": 10_000,
    "unknown_graft": "ignore",
    "full_mesh": "refuse",
    "gossip_targets": "filter_then_select",
    "degree_score": 4,
    "degree_out": 2,
    "flood_publish": True,
    "gossip_factor": 0.25,
    "max_ihave_messages": 10,
    "opportunistic_graft_ticks": 60,
    "direct_connect_ticks": 300,
    "idontwant_threshold_bytes": 1024,
}
"""D is 6, D_low 4, as in 1.0. The size from which IDONTWANT is said is left open; this is go's."""

GO: Mapping[str, object] = {
    **SPEC,
    "degree_low": 5,
    "prune_trigger": "at_high",
    "first_heartbeat_ms": 100,
    "first_heartbeat_spread_ms": 0,
    "flood_publish": False,
    "idontwant_on_publish": True,
    "accept_exchange": True,
    "exchange_dials": 16,
    "unsubscribed_graft": "taken_in",
    "backoff_until_forgotten": True,
    "extensions": True,
    "max_metadata_bytes": 1_000_000,
}
"""go-libp2p-pubsub v0.19, which speaks 1.3 with nothing switched on."""

HARDENING: Mapping[str, object] = {
    **GO,
    "degree": 8,
    "degree_low": 6,
    "degree_high": 12,
    "degree_score": 6,
    "degree_lazy": 12,
    "flood_publish": True,
    "idontwant_threshold_bytes": 0,
    "idontwant_on_publish": False,
    "extensions": False,
    "score": HARDENING_SCORE.to_mapping(),
}
"""libp2p/gossipsub-hardening, `scripts/configs`; IDONTWANT and extensions came later."""

BOOTSTRAPPER: Mapping[str, object] = {
    **GO,
    "degree": 0,
    "degree_low": 0,
    "degree_high": 0,
    "degree_score": 0,
    "degree_out": 0,
    "degree_lazy": 64,
    "prune_backoff_ms": 300_000,
    "exchange_peers": 16,
}
"""A node that others know from the start: it is in no mesh, and whoever wants to be in its own is named others of the
topic (v1.1, "Peer exchange"). D_lazy and the backoff are those of Filecoin's bootstrap nodes (Lotus)."""
