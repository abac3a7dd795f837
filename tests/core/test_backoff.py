"""Backoffs: their bounds and slack, and the presets v1.1 and r1 when many peers send GRAFT."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearsay.core.language.actions import PartDropped, Send
from hearsay.core.language.events import Join, PeerConnected, RpcReceived, TimerFired
from hearsay.core.language.rpc import FLOODSUB, MESHSUB, MESHSUB_11, Control, Graft, Prune, Rpc, Subscription
from hearsay.core.mesh.graft_bounds import Backoffs
from hearsay.core.registry import ROUTERS, create
from hearsay.core.rules.randomness import Randomness


def router(preset):
    kind = ROUTERS["gossipsub"]
    return create(kind, "me", kind.parameters.from_mapping(kind.presets[preset]), Randomness(1))


def test_own_grafts_wait_for_the_slack_and_those_of_others_do_not():
    backoffs = Backoffs(10, slack_us=5)
    backoffs.start("t", "p", 0, 100)
    assert backoffs.holds("t", "p", 99)
    assert not backoffs.holds("t", "p", 100)
    assert backoffs.forbids_graft("t", "p", 104)
    assert not backoffs.forbids_graft("t", "p", 105)
    backoffs.expire(104)
    assert len(backoffs) == 1
    backoffs.expire(105)
    assert len(backoffs) == 0


def test_a_shorter_backoff_does_not_end_a_longer_one():
    """Rules: BACKOFF-1."""
    backoffs = Backoffs(10, 0)
    backoffs.start("t", "p", 0, 100)
    backoffs.start("t", "p", 0, 50)
    assert backoffs.holds("t", "p", 99)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 100)), max_size=60))
def test_entries_are_bounded_and_the_oldest_goes_first(starts):
    """Rules: BACKOFF-6."""
    backoffs = Backoffs(5, 0)
    for topic, peer, until in starts:
        backoffs.start(topic, peer, 0, until)
        assert len(backoffs) <= 5
        assert list(backoffs)[-1] == (topic, peer)


def test_only_v11_speaks_meshsub_11():
    assert router("r1").strategy.protocols == (MESHSUB, FLOODSUB)
    assert router("v1.1").strategy.protocols == (MESHSUB_11, MESHSUB, FLOODSUB)


def test_an_r1_router_ignores_the_backoff_of_a_prune():
    old = router("r1")
    old.handle(PeerConnected("peer", MESHSUB), 0)
    old.handle(RpcReceived("peer", Rpc((Subscription("t", True),))), 0)
    old.handle(Join("t"), 0)
    old.handle(RpcReceived("peer", Rpc(control=Control(prune=(Prune("t", 3600),)))), 0)
    sends = [action for action in old.handle(TimerFired(), old.deadline()) if isinstance(action, Send)]
    assert any(send.rpc.control is not None and send.rpc.control.graft for send in sends)


def grafted(member, peers, time):
    """Connect peers that subscribe to t and send GRAFT; return the actions of the router."""
    actions = []
    for peer in peers:
        member.handle(PeerConnected(peer, member.strategy.protocols[0]), time)
        rpc = Rpc((Subscription("t", True),), control=Control(graft=(Graft("t"),)))
        actions += member.handle(RpcReceived(peer, rpc), time)
    return actions


@pytest.mark.parametrize("preset", ["v1.1", "r1"])
def test_two_hundred_grafts_between_two_heartbeats(preset):
    """With v1.1 former members stay. With r1 the router accepts all GRAFTs, and its heartbeat draws the members."""
    member = router(preset)
    member.handle(Join("t"), 0)
    former = {f"former {number}" for number in range(6)}
    grafted(member, sorted(former), 0)
    refused = grafted(member, [f"late {number}" for number in range(200)], 1)
    assert sum(isinstance(action, PartDropped) for action in refused) == (194 if preset == "v1.1" else 0)
    member.handle(TimerFired(), member.deadline())
    mesh = member.strategy.mesh.topics["t"]
    assert len(mesh) == (12 if preset == "v1.1" else 6)
    assert (former < mesh.members) == (preset == "v1.1")


def test_protocols_of_a_router_follow_from_its_parameters():
    kind = ROUTERS["meshsub"]
    with_backoffs = kind.parameters.from_mapping({"prune_backoff_ms": 1})
    assert kind.protocols(kind.parameters()) == (MESHSUB, FLOODSUB)
    assert kind.protocols(with_backoffs) == (MESHSUB_11, MESHSUB, FLOODSUB)
