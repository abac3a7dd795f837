"""Parameters of gossipsub as implementations other than go ship it, with their scores: what holds when nobody says
otherwise.

libp2p-gossipsub 0.50.1, @libp2p/gossipsub 17.1.1, nim-libp2p 12f25f0af, jvm-libp2p 3d3d3d90. None scores a topic
unasked; the defaults for topics that are scored are in `scores/sets/implementations.py`.
`docs/routers/implementations.md` has the places in the sources, and says what no parameter can.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hearsay.core.mesh.deployed_presets import SPEC
from hearsay.core.scores.score_set import ScoreSet
from hearsay.core.scores.sets import implementations as sets

NO_LIMIT = 1_000_000


def _unasked(score: ScoreSet) -> dict[str, object]:
    """A set without its topics."""
    return replace(score, topics={}).to_mapping()


_SHARED: Mapping[str, object] = {
    **SPEC,
    "first_heartbeat_spread_ms": 0,
    "max_ids_per_idontwant": NO_LIMIT,
    "max_idontwants": NO_LIMIT,
}
"""What these implementations have in common."""

RUST: Mapping[str, object] = {
    **_SHARED,
    "degree_low": 5,
    "prune_trigger": "at_high",
    "median": "mean",
    "backoff_slack_heartbeats": 1,
    "first_heartbeat_ms": 5_000,
    "seen_ttl_ms": 60_000,
    "short_mesh": "top_up",
    "graft_on_subscribe": True,
    "direct_graft": "ignore",
    "unsubscribed_graft": "ignore",
    "backoff_on_unsubscribe": True,
    "tracked_promises": "all",
    "ask_again_heartbeats": 3,
    "skip_senders": True,
    "withdraw_unwanted": True,
    "idontwant_threshold_bytes": 1_000,
    "max_ids_per_idontwant": 10_000,
    "max_subscriptions_per_rpc": 100,
    "max_subscriptions_per_peer": 100,
    "late_extensions": "ignore",
    "supporters_told": "by_all",
    "partial_group_heartbeats": 5,
    "score": _unasked(sets.RUST),
}
"""rust-libp2p, gossipsub 0.50.1. An id that was asked for is asked of nobody else while the promise lasts, 3 s."""

JS: Mapping[str, object] = {
    **_SHARED,
    "outbound_repair": "to_degree",
    "backoff_slack_heartbeats": 1,
    "first_heartbeat_ms": 100,
    "short_mesh": "top_up",
    "graft_on_subscribe": True,
    "accept_exchange": True,
    "exchange_dials": 16,
    "graylisted_subscriptions": False,
    "unsubscribed_graft": "taken_in",
    "max_subscriptions_per_peer": 1_000,
    "ihave_ids_of_rpc": True,
    "max_iwant_messages": 10,
    "idontwant_threshold_bytes": 512,
    "idontwant_ttl_heartbeats": 5,
    "max_idontwant_ids": 512,
    "score": _unasked(sets.JS),
}
"""js-libp2p, @libp2p/gossipsub 17.1.1. A peer may have subscriptions of 1 MiB, each 1,024 bytes and its name."""

NIM: Mapping[str, object] = {
    **_SHARED,
    "degree_out": 3,
    "outbound_when_full": "quota",
    "graft_choice": "best",
    "median": "lower",
    "opportunity_choice": "first_from",
    "direct_graft": "penalise",
    "unsubscribed_graft": "taken_in",
    "backoff_on_unsubscribe": True,
    "max_subscriptions_per_peer": 1_024,
    "graft_on_subscribe": True,
    "unwelcome_graft": "taken_in",
    "early_graft_ms": 4_000,
    "early_graft_penalty": 0.1,
    "graft_flood_ms": 0,
    "opportunistic_graft_ticks": 1,
    "unsubscribe_backoff_ms": 5_000,
    "max_backoff_ms": 86_400_000,
    "first_heartbeat_ms": 0,
    "flood_publish_mbit": 100,
    "iwant_answers_per_id": 1,
    "max_ihave_messages": 0,
    "max_ids_asked": 10,
    "tracked_promises": "none",
    "direct_connect_ticks": 60,
    "skip_senders": True,
    "idontwant_threshold_bytes": 513,
    "idontwant_ttl_heartbeats": 5,
    "max_idontwant_ids": 1_000,
    "extensions": True,
    "max_peer_groups": 1_000,
    "max_groups_per_peer": 100,
    "score": _unasked(sets.NIM),
}
"""nim-libp2p. It says IDONTWANT of what is larger than 512 bytes and than ten of its ids."""

JVM: Mapping[str, object] = {
    **_SHARED,
    "degree_out": 3,
    "median": "mean",
    "opportunity_choice": "first_above",
    "unsubscribed_graft": "taken_in",
    "member_graft_is_judged": True,
    "backoff_when_not_joined": True,
    "exchange_always": True,
    "mesh_before_gossip": True,
    "asked_peer_must_send": True,
    "ihave_parts_count": True,
    "flood_publish": False,
    "unsubscribe_backoff_ms": 60_000,
    "backoff_slack_heartbeats": 0,
    "exchange_peers": 16,
    "first_heartbeat_ms": 1_000,
    "graft_flood_ms": 0,
    "short_mesh": "top_up",
    "direct_connect_ticks": 0,
    "idontwant_threshold_bytes": 16_384,
    "idontwant_on_publish": True,
    "max_idontwant_ids": 50_000,
    "extensions": True,
    "score": _unasked(sets.JVM),
}
"""jvm-libp2p. All weights of its score are 0. Its PRUNEs always name others, whom only the application can dial; its
second penalty for GRAFTs that come much too soon is never due."""
