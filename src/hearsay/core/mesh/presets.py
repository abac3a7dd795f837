"""Named parameters of gossipsub: the specification, implementations and networks, with their scores.

Sources: go-libp2p-pubsub v0.19; libp2p-gossipsub 0.50.1; @libp2p/gossipsub 17.1.1; nim-libp2p 12f25f0af; jvm-libp2p
3d3d3d90; Ethereum's consensus specifications (phase 0, and deneb's two epochs of memory); Lotus, August 2026; the
evaluation of 2020. `docs/routers/implementations.md` has the places in the sources, and says what no parameter can.
`go` and `spec` have no scores until `[router.score]` says how; no implementation scores a topic by default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from hearsay.core.scores import fixed_sets as sets
from hearsay.core.scores.fixed_sets import FILECOIN as FILECOIN_SCORE
from hearsay.core.scores.fixed_sets import HARDENING as HARDENING_SCORE
from hearsay.core.scores.gater import FILECOIN_BOOTSTRAP as FILECOIN_BOOTSTRAP_GATER
from hearsay.core.scores.gater import GO as GO_GATER
from hearsay.core.scores.named_sets import FEWEST_VALIDATORS, MOST_VALIDATORS, VALIDATORS, lighthouse, prysm
from hearsay.core.scores.score_set import ScoreSet
from hearsay.core.shell.parameters import MadePreset

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
    "first_heartbeat_ms": 6_000,
    "seen_ttl_ms": 60_000,
    "short_mesh": "top_up",
    "graft_on_subscribe": True,
    "direct_graft": "ignore",
    "unsubscribed_graft": "ignore",
    "backoff_on_unsubscribe": True,
    "tracked_promises": "all",
    "ask_again_heartbeats": 4,
    "skip_senders": True,
    "withdraw_unwanted": True,
    "idontwant_threshold_bytes": 1_000,
    "idontwant_ttl_heartbeats": 4,
    "max_ids_per_idontwant": 10_000,
    "max_subscriptions_per_rpc": 100,
    "max_subscriptions_per_peer": 100,
    "extensions": True,
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
    "backoff_until_forgotten": True,
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


_CONSENSUS: Mapping[str, object] = {
    "degree": 8,
    "degree_low": 6,
    "degree_high": 12,
    "degree_lazy": 6,
    "heartbeat_interval_ms": 700,
    "history_length": 6,
    "history_gossip": 3,
    "seen_ttl_ms": 768_000,
}

_THREE_SECONDS = 5
"""Heartbeats: rust's clocks, none of which is over before its time."""


@lru_cache(maxsize=4)
def _lighthouse(validators: int) -> Mapping[str, object]:
    clocks = dict.fromkeys(("ask_again_heartbeats", "idontwant_ttl_heartbeats"), _THREE_SECONDS)
    own = {"first_heartbeat_ms": 5_700, "flood_publish": False, "score": lighthouse(validators).to_mapping()}
    return {**RUST, **_CONSENSUS, **clocks, **own}


@lru_cache(maxsize=4)
def _prysm(validators: int) -> Mapping[str, object]:
    return {**GO, **_CONSENSUS, "score": prysm(validators).to_mapping()}


ETHEREUM = MadePreset("validators", FEWEST_VALIDATORS, MOST_VALIDATORS, VALIDATORS, _lighthouse)
"""Lighthouse's score, as it is today, and rust underneath, without flooding. The mesh is the specification's:
Lighthouse makes its own by how much load it is told to take."""

ETHEREUM_PRYSM = MadePreset("validators", FEWEST_VALIDATORS, MOST_VALIDATORS, VALIDATORS, _prysm)
"""Prysm's score, and go underneath."""

FILECOIN: Mapping[str, object] = {
    **GO,
    "degree": 8,
    "degree_low": 6,
    "degree_high": 12,
    "degree_score": 6,
    "degree_out": 3,
    "degree_lazy": 12,
    "gossip_factor": 0.1,
    "history_length": 10,
    "iwant_followup_ms": 5_000,
    "flood_publish": True,
    "score": FILECOIN_SCORE.to_mapping(),
    "gater": GO_GATER.to_mapping(),
}
"""Lotus, and go underneath. Bootstrap and drand peers are rated 2500 and 1500 by the application."""

FILECOIN_BOOTSTRAP: Mapping[str, object] = {
    **FILECOIN,
    "degree": 0,
    "degree_low": 0,
    "degree_high": 0,
    "degree_score": 0,
    "degree_out": 0,
    "degree_lazy": 64,
    "gossip_factor": 0.25,
    "prune_backoff_ms": 300_000,
    "exchange_peers": 16,
    "gater": FILECOIN_BOOTSTRAP_GATER.to_mapping(),
}
"""Lotus as a bootstrap node: it is in no mesh, and names others to whoever wants to be in its own."""
