"""Parameters of gossipsub as two networks run it, with their scores.

Ethereum's are those of its consensus specifications (phase 0, and deneb's two epochs of memory). Filecoin's are those
of Lotus, August 2026. Topics are scored by what they are for (SET-1).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from hearsay.core.mesh.deployed_presets import GO
from hearsay.core.mesh.implementation_presets import RUST
from hearsay.core.scores.gater_parameters import FILECOIN_BOOTSTRAP as FILECOIN_BOOTSTRAP_GATER
from hearsay.core.scores.gater_parameters import GO as GO_GATER
from hearsay.core.scores.sets.ethereum import lighthouse
from hearsay.core.scores.sets.filecoin import FILECOIN as FILECOIN_SCORE
from hearsay.core.scores.sets.named import FEWEST_VALIDATORS, MOST_VALIDATORS, VALIDATORS
from hearsay.core.scores.sets.prysm import prysm
from hearsay.core.shell.presets import MadePreset

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
