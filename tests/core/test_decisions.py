"""Decisions about meshes and messages, called directly, case by case."""

from __future__ import annotations

import pytest

from hearsay.core.language.actions import Reason
from hearsay.core.rules import mesh_rules
from hearsay.core.rules.mesh_rules import (
    MEMBER,
    graft_answer,
    has_room_for_one,
    mesh_change,
    next_heartbeat,
    received_backoff,
    seconds_to_name,
)
from hearsay.core.rules.message_rules import ACCEPTED, ASKED, DUPLICATE, first_copy


@pytest.mark.parametrize(
    ("due", "now", "following"), [(1000, 1000, 2000), (1000, 1999, 2000), (1000, 2000, 3000), (1000, 7500, 8500)]
)
def test_heartbeats_do_not_drift_and_late_heartbeats_are_skipped(due, now, following):
    """Rules: BEAT-2."""
    assert next_heartbeat(due, 1000, now) == following


@pytest.mark.parametrize(
    ("size", "own", "change"), [(3, 3, (3, 0)), (4, 4, (0, 0)), (12, 12, (0, 0)), (13, 13, (0, 7)), (13, 3, (3, 7))]
)
def test_a_mesh_goes_back_to_its_degree(size, own, change):
    """Rules: SIZE-1, SIZE-2."""
    assert mesh_change(size, own, low=4, degree=6, prune_from=13) == change


def test_a_peer_is_grafted_between_heartbeats_only_if_the_next_heartbeat_keeps_it():
    assert [has_room_for_one(size, prune_from=13) for size in (11, 12)] == [True, False]


NO_CONDITION = dict.fromkeys(
    ("native", "joined", "unknown_is_pruned", "subscribed", "member", "direct", "early", "unwelcome", "full"), False
)
ABLE = {**NO_CONDITION, "native": True, "joined": True, "subscribed": True}


@pytest.mark.parametrize(
    ("asked", "reason", "prune"),
    [
        ({**ABLE, "native": False, "early": True}, Reason.UNSUPPORTED, "NO_PRUNE"),
        ({**NO_CONDITION, "native": True}, Reason.NOT_SUBSCRIBED, "NO_PRUNE"),
        ({**NO_CONDITION, "native": True, "unknown_is_pruned": True}, Reason.NOT_SUBSCRIBED, "BARE_PRUNE"),
        ({**ABLE, "subscribed": False, "full": True}, Reason.NOT_A_SUBSCRIBER, "BARE_PRUNE"),
        ({**ABLE, "member": True, "early": True, "full": True}, MEMBER, "NO_PRUNE"),
        ({**ABLE, "direct": True, "early": True, "full": True}, Reason.DIRECT_PEER, "BACKOFF_PRUNE"),
        ({**ABLE, "early": True, "unwelcome": True, "full": True}, Reason.BACKOFF, "BACKOFF_PRUNE"),
        ({**ABLE, "unwelcome": True, "full": True}, Reason.LOW_SCORE, "BACKOFF_PRUNE"),
        ({**ABLE, "full": True}, Reason.OVER_LIMIT, "EXCHANGE_PRUNE"),
        (ABLE, mesh_rules.ACCEPTED, "NO_PRUNE"),
    ],
)
def test_a_graft_gets_the_first_answer_that_fits(asked, reason, prune):
    """Rules: GRAFT-1, GRAFT-2, GRAFT-3, GRAFT-4, GRAFT-5, GRAFT-6, GRAFT-7, GRAFT-8, GRAFT-9."""
    assert graft_answer(**asked) == (reason, getattr(mesh_rules, prune))


@pytest.mark.parametrize(
    ("joined", "own", "asked", "trusted", "waiting", "becomes"),
    [
        (False, True, True, True, 9, Reason.NOT_SUBSCRIBED),
        (True, True, True, True, 9, Reason.SELF_ORIGIN),
        (True, False, True, True, 9, DUPLICATE),
        (True, False, False, True, 9, ACCEPTED),
        (True, False, False, False, 8, Reason.THROTTLED),
        (True, False, False, False, 7, ASKED),
    ],
)
def test_a_first_copy_gets_the_first_outcome_that_fits(joined, own, asked, trusted, waiting, becomes):
    """Rules: COPY-1, COPY-2, COPY-3, COPY-4, COPY-5, COPY-6."""
    assert first_copy(joined, own, asked, trusted, waiting, most_waiting=8) == becomes


def test_a_prune_has_whole_seconds_and_a_received_backoff_is_bounded():
    """Rules: BACKOFF-3, BACKOFF-4."""
    assert [seconds_to_name(time) for time in (1, 1_000_000, 1_000_001)] == [1, 1, 2]
    assert received_backoff(True, 5, own=60_000_000, most=3_600_000_000) == 5_000_000
    assert received_backoff(True, 0, own=60_000_000, most=3_600_000_000) == 60_000_000
    assert received_backoff(False, 0, own=60_000_000, most=3_600_000_000) == 60_000_000
    assert received_backoff(True, 9_999, own=60_000_000, most=3_600_000_000) == 3_600_000_000
