"""IDONTWANT (v1.2): the expectations and numbers of go-libp2p-pubsub's tests, and the state of unwanted ids."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearsay.core.language.actions import PartDropped, Send, Withdraw
from hearsay.core.language.events import (
    Join,
    MessageValidated,
    PeerConnected,
    PeerDisconnected,
    Publish,
    RpcReceived,
    TimerFired,
    Verdict,
)
from hearsay.core.language.rpc import (
    FLOODSUB,
    MESHSUB,
    MESHSUB_11,
    MESHSUB_12,
    Control,
    Graft,
    IDontWant,
    IWant,
    Message,
    Rpc,
    Subscription,
)
from hearsay.core.mesh.message_memory import Unwanted
from hearsay.core.mesh.parameters import GossipsubParameters
from hearsay.core.registry import ROUTERS, create
from hearsay.core.rules.randomness import Randomness
from hearsay.core.shell.router import Router
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.sim.simulate import Simulation

GO = {"idontwant_threshold_bytes": 1024, "idontwant_on_publish": True}


def create_router(peers: Sequence[tuple[str, str]], **given: object) -> Router:
    """Return a router in the topic `t` with these peers in its mesh."""
    kind = ROUTERS["gossipsub"]
    made = create(kind, "me", kind.parameters.from_mapping({**kind.presets["v1.1"], **GO, **given}), Randomness(1))
    made.handle(Join("t"), 0)
    for peer, protocol in peers:
        made.handle(PeerConnected(peer, protocol), 0)
        made.handle(RpcReceived(peer, Rpc((Subscription("t", True),), (), Control(graft=(Graft("t"),)))), 0)
    return made


def message(name: str, size: int) -> Message:
    return Message(name, "t", bytes(size))


def receive_idontwant(made: Router, peer: str, *ids: str) -> list[object]:
    return list(made.handle(RpcReceived(peer, Rpc(control=Control(idontwant=(IDontWant(ids),)))), made.now))


def receive_messages(made: Router, peer: str, *messages: Message) -> list[object]:
    return list(made.handle(RpcReceived(peer, Rpc((), messages)), made.now))


def idontwants(actions: Sequence[object]) -> list[tuple[object, tuple[object, ...]]]:
    """Return the ids that each peer is sent in IDONTWANT, as pairs of peer and ids."""
    return [
        (action.peer, part.ids)
        for action in actions
        if isinstance(action, Send) and action.rpc.control is not None
        for part in action.rpc.control.idontwant
    ]


def copies(actions: Sequence[object]) -> list[tuple[object, object]]:
    """Return the sent copies of messages as pairs of peer and message id."""
    return [(action.peer, each.id) for action in actions if isinstance(action, Send) for each in action.rpc.messages]


def beat(made: Router) -> None:
    due = made.deadline()
    assert due is not None
    made.handle(TimerFired(), due)


def test_versions_from_the_newest_down_to_floodsub():
    assert create_router(()).strategy.protocols == (MESHSUB_12, MESHSUB_11, MESHSUB, FLOODSUB)
    assert create_router((), idontwant_threshold_bytes=0).strategy.protocols == (MESHSUB_11, MESHSUB, FLOODSUB)


def test_the_mesh_gets_idontwant_before_validation_is_over_and_ids_are_in_order():
    """Rules: IDONTWANT-6, OUT-3. Go's IdontwantSend."""
    made = create_router([("b", MESHSUB_12), ("c", MESHSUB_12)], validate=True)
    assert idontwants(receive_messages(made, "b", message("m1", 1025))) == [("c", ("m1",))]
    assert idontwants(receive_messages(made, "b", message("m3", 2000), message("m2", 2000))) == [("c", ("m3", "m2"))]
    actions = made.handle(MessageValidated("m1", Verdict.ACCEPT), made.now)
    assert (idontwants(actions), copies(actions)) == ([], [("c", "m1")])


def test_the_sender_of_a_message_gets_no_idontwant():
    """Go's NoIDONTWANTToMessageSender."""
    made = create_router([("b", MESHSUB_12)], validate=True)
    assert idontwants(receive_messages(made, "b", message("m1", 1025))) == []


@pytest.mark.parametrize("protocol", [MESHSUB_11, MESHSUB, FLOODSUB])
def test_peers_with_older_versions_get_no_idontwant(protocol):
    """Go's IdontwantIncompat."""
    made = create_router([("b", MESHSUB_12), ("c", protocol)], validate=True)
    assert idontwants(receive_messages(made, "b", message("m1", 1025))) == []


def test_no_peer_gets_idontwant_for_small_messages():
    """Rules: IDONTWANT-1. Go's IdontwantSmallMessage."""
    made = create_router([("b", MESHSUB_12), ("c", MESHSUB_12)], idontwant_threshold_bytes=16)
    assert idontwants(receive_messages(made, "b", message("m1", 8))) == []
    assert idontwants(receive_messages(made, "b", message("m2", 16))) == [("c", ("m2",))]


def test_peers_outside_the_mesh_get_no_idontwant():
    """Go's IdontwantNonMesh."""
    made = create_router([("b", MESHSUB_12)])
    made.handle(PeerConnected("c", MESHSUB_12), 0)
    made.handle(RpcReceived("c", Rpc((Subscription("t", True),))), 0)
    assert idontwants(receive_messages(made, "b", message("m1", 1025))) == []


def test_the_mesh_gets_idontwant_before_an_own_message():
    """Go's IDONTWANTBeforeFirstPublish."""
    made = create_router([("b", MESHSUB_12)])
    actions = made.handle(Publish(message("m1", 1025)), made.now)
    sent = [action for action in actions if isinstance(action, Send)]
    assert idontwants(sent[:1]) == [("b", ("m1",))]
    assert copies(sent[1:]) == [("b", "m1")]


def test_unwanted_messages_are_not_sent():
    """Rules: IDONTWANT-4. Go's IdontwantReceive and IdontwantBeforeIwant."""
    made = create_router([("b", MESHSUB_12), ("c", MESHSUB_12)])
    receive_idontwant(made, "c", "m1")
    assert copies(receive_messages(made, "b", message("m1", 2000))) == []
    asked = made.handle(RpcReceived("c", Rpc(control=Control(iwant=(IWant(("m1",)),)))), made.now)
    assert copies(asked) == []


def test_unwanted_ids_are_forgotten_after_three_heartbeats():
    """Rules: IDONTWANT-3. Go's IdontwantClear and IDontWantUnwantedCleanup."""
    made = create_router([("b", MESHSUB_12), ("c", MESHSUB_12)])
    receive_idontwant(made, "c", "m1")
    for _ in range(2):
        beat(made)
    assert made.strategy.remembers("c")
    beat(made)
    assert not made.strategy.remembers("c")
    assert copies(receive_messages(made, "b", message("m1", 2000))) == [("c", "m1")]


def test_no_state_is_kept_for_an_empty_idontwant_or_a_disconnected_peer():
    """Go's IDontWantUnwantedCleanup."""
    made = create_router([("c", MESHSUB_12)])
    receive_idontwant(made, "c")
    assert not made.strategy.remembers("c")
    receive_idontwant(made, "c", "m1")
    made.handle(PeerDisconnected("c"), made.now)
    assert not made.strategy.remembers("c")


def test_withdraw_unwanted_withdraws_waiting_copies():
    """Rules: IDONTWANT-4. Ids beyond the limit are left out."""
    for withdraw in (True, False):
        made = create_router([("b", MESHSUB_12)], withdraw_unwanted=withdraw, max_ids_per_idontwant=2)
        asked = [action for action in receive_idontwant(made, "b", "m1", "m2", "m3") if isinstance(action, Withdraw)]
        assert asked == ([Withdraw("b", "m1"), Withdraw("b", "m2")] if withdraw else [])


def test_ten_of_eleven_ids_are_accepted():
    """Rules: IDONTWANT-2. Go's HandleIDontwantSpam."""
    unwanted = Unwanted(GossipsubParameters())
    ids = [f"m{number}" for number in range(11)]
    assert unwanted.receive("p", [IDontWant(tuple(ids[:5])), IDontWant(tuple(ids[5:]))]) == (ids[:10], 1)
    assert unwanted.holds("p", ids[9])
    assert not unwanted.holds("p", ids[10])


def test_1000_of_1001_rpcs_are_accepted_until_the_next_heartbeat():
    """Go's AttackSpamIDONTWANT."""
    made = create_router([("b", MESHSUB_12), ("c", MESHSUB_12)])
    counted = [receive_idontwant(made, "c", f"m{number}") for number in range(1_001)]
    assert not any(counted[:1_000])
    assert [type(action) for action in counted[1_000]] == [PartDropped]
    assert copies(receive_messages(made, "b", message("m1000", 2000))) == [("c", "m1000")]
    beat(made)
    receive_idontwant(made, "c", "late")
    assert copies(receive_messages(made, "b", message("late", 2000))) == []


def test_ids_of_one_peer_are_bounded_until_the_next_heartbeat():
    """Rules: IDONTWANT-2. In all RPCs together (js: 512, nim: 1 000, jvm: 50 000)."""
    made = create_router([("b", MESHSUB_12), ("c", MESHSUB_12)], max_idontwant_ids=3)
    receive_idontwant(made, "c", "m1", "m2")
    [dropped] = receive_idontwant(made, "c", "m3", "m4")
    assert isinstance(dropped, PartDropped)
    assert dropped.count == 1
    wanted = [copies(receive_messages(made, "b", message(name, 2000))) for name in ("m3", "m4")]
    assert wanted == [[], [("c", "m4")]]
    beat(made)
    assert receive_idontwant(made, "c", "m5") == []


def test_without_heeds_idontwant_unwanted_messages_are_sent():
    """Rules: IDONTWANT-4. js before August 2026."""
    made = create_router([("b", MESHSUB_12), ("c", MESHSUB_12)], heeds_idontwant=False)
    assert receive_idontwant(made, "c", "m1") == []
    assert copies(receive_messages(made, "b", message("m1", 2000))) == [("c", "m1")]


def test_without_a_threshold_idontwant_is_dropped():
    made = create_router([("b", MESHSUB_11), ("c", MESHSUB_11)], idontwant_threshold_bytes=0)
    assert [type(action) for action in receive_idontwant(made, "c", "m1")] == [PartDropped]
    assert copies(receive_messages(made, "b", message("m1", 2000))) == [("c", "m1")]


@pytest.mark.parametrize("protocol", [MESHSUB_12, FLOODSUB])
def test_with_skip_senders_peers_that_sent_a_copy_during_validation_get_none(protocol):
    """Rules: IDONTWANT-7."""
    for skip, expected in ((True, ["d"]), (False, ["c", "d"])):
        made = create_router([(name, protocol) for name in "bcd"], validate=True, skip_senders=skip)
        receive_messages(made, "b", message("m1", 10))
        receive_messages(made, "c", message("m1", 10))
        accepted = made.handle(MessageValidated("m1", Verdict.ACCEPT), made.now)
        assert [peer for peer, _ in copies(accepted)] == expected


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("receive"), st.integers(0, 2), st.lists(st.integers(0, 5), max_size=5)),
            st.tuples(st.just("beat"), st.just(0), st.just([])),
            st.tuples(st.just("leave"), st.integers(0, 2), st.just([])),
        ),
        max_size=60,
    )
)
def test_unwanted_ids_equal_those_of_a_plain_list(calls):
    """Rules: IDONTWANT-2, IDONTWANT-3, IDONTWANT-5."""
    ttl, most_rpcs, most_ids, most_of_peer, limit = 2, 3, 3, 5, 7
    unwanted = Unwanted(
        GossipsubParameters(
            idontwant_ttl_heartbeats=ttl,
            max_idontwants=most_rpcs,
            max_ids_per_idontwant=most_ids,
            max_idontwant_ids=most_of_peer,
            max_unwanted=limit,
        )
    )
    model: list[tuple[int, int, int]] = []  # peer, id, heartbeat; the oldest first
    rpcs: dict[int, int] = {}
    counted: dict[int, int] = {}
    tick = 0
    for call, peer, ids in calls:
        if call == "receive":
            unwanted.receive(peer, [IDontWant(tuple(ids))] if ids else [])
            if ids:
                rpcs[peer] = rpcs.get(peer, 0) + 1
                left = min(most_ids, most_of_peer - counted.get(peer, 0))
                now = ids[:left] if rpcs[peer] <= most_rpcs else []
                counted[peer] = counted.get(peer, 0) + len(now)
                for each in now:
                    model = [known for known in model if known[:2] != (peer, each)] + [(peer, each, tick)]
            model = model[-limit:]
        elif call == "beat":
            tick += 1
            unwanted.beat(tick)
            rpcs.clear()
            counted.clear()
            model = [known for known in model if tick - known[2] < ttl]
        else:
            unwanted.remove_peer(peer)
            rpcs.pop(peer, None)
            counted.pop(peer, None)
            model = [known for known in model if known[0] != peer]
        held = {(peer, each) for peer in range(3) for each in range(6) if unwanted.holds(peer, each)}
        assert held == {known[:2] for known in model}
        assert len(unwanted) == len(model)


def test_beyond_the_limit_the_oldest_unwanted_ids_are_forgotten():
    """Rules: IDONTWANT-5."""
    unwanted = Unwanted(GossipsubParameters(max_unwanted=7))
    unwanted.receive(1, [IDontWant((1, 2, 3, 4, 5))])
    unwanted.receive(2, [IDontWant((1, 2, 3, 4, 5))])
    assert [each for each in range(1, 6) if unwanted.holds(1, each)] == [4, 5]
    assert [each for each in range(1, 6) if unwanted.holds(2, each)] == [1, 2, 3, 4, 5]


def test_simulated_large_messages_cost_fewer_copies_and_none_is_lost():
    """During validation the mesh gets IDONTWANT, so its members do not send the message back."""
    given = [("network.nodes", "60"), ("workload.messages", "10"), ("workload.size_bytes", "4096"),
             ("router.preset", "v1.1"), ("router.validate", "true"), ("validation.delay_ms", "300")]  # fmt: skip
    with_idontwant, without_idontwant = (
        Simulation(load_scenario(None, "r1", [*given, ("router.idontwant_threshold_bytes", threshold)])).run().summary
        for threshold in ("1024", "0")
    )
    assert with_idontwant.delivery_ratio == without_idontwant.delivery_ratio == 1
    assert with_idontwant.sent["idontwant"] > 0
    assert with_idontwant.duplicates < without_idontwant.duplicates / 2
