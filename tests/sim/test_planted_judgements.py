"""The checker finds what is broken on purpose in routers that keep scores."""

from __future__ import annotations

import pytest
from test_planted_faults import problems, reported

from hearsay.core.mesh import judging_mesh
from hearsay.core.mesh.judging_mesh import JudgingMesh
from hearsay.core.mesh.standing import Standing

SCORED = {"router__preset": "hardening", "router__score__application_weight": 1, "linger_s": 5}


def rated(rating: int) -> dict[str, object]:
    return {**SCORED, "ratings": f"[{{rating = {rating}, share = 0.3}}]"}


@pytest.mark.parametrize("keys", [SCORED, rated(-1), rated(-4_500), rated(-20_000)])
def test_a_sound_router_is_not_accused(keys):
    """Rules: KEEP-1, KEEP-4, THRESHOLD-1, THRESHOLD-2, THRESHOLD-3."""
    assert problems(**keys) == ()


def test_keeps_who_has_a_negative_score(monkeypatch):
    """Rules: KEEP-1."""
    monkeypatch.setattr(Standing, "is_welcome", lambda self, peer: True)
    monkeypatch.setattr(Standing, "may_be_in_mesh", lambda self, peer: True)
    reported("mesh of 'topic' holds .*, who has the score -1", problems(**rated(-1)))


def test_meshes_with_a_direct_peer(monkeypatch):
    """Rules: STANDING-1."""
    monkeypatch.setattr(Standing, "may_be_in_mesh", lambda self, peer: True)
    monkeypatch.setattr(JudgingMesh, "prune_everywhere", lambda self, peer: None)
    keys = {**SCORED, "router__direct_peers": "[[0, 1], [2, 3], [4, 5]]", "network__topology": "complete"}
    reported("who is direct", problems(**keys, network__nodes=8))


def test_has_no_dialled_peers(monkeypatch):
    """Rules: KEEP-4."""
    monkeypatch.setattr(judging_mesh, "dialled_to_graft", lambda *_: 0)
    reported("dialled peers, and could have", problems(**SCORED))


def test_gossips_with_who_is_below_the_threshold(monkeypatch):
    """Rules: JUDGE-2."""
    monkeypatch.setattr(Standing, "may_gossip", lambda self, peer: True)
    reported("gossip with .*, whose score -4500.0 is below -4000", problems(**rated(-4_500)))


def test_publishes_to_who_is_below_the_threshold(monkeypatch):
    """Rules: JUDGE-3."""
    monkeypatch.setattr(Standing, "gets_published", lambda self, peer: True)
    found = problems(**rated(-6_000), workload__publishers="any")
    reported("own message to .*, whose score -6000.0 is below -5000", found)
