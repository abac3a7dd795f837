"""The extensions control of v1.3: the expectations of go-libp2p-pubsub's tests, and which peers it is sent to."""

from __future__ import annotations

import pytest
from judged import TOPIC, Judge, dropped, score, sent

from hearsay.core.language.actions import ExtensionTestReceived, PartDropped, Reason, Send
from hearsay.core.language.events import PeerConnected, PeerDisconnected, RpcReceived
from hearsay.core.language.rpc import (
    FLOODSUB,
    MESHSUB,
    MESHSUB_11,
    MESHSUB_12,
    MESHSUB_13,
    Control,
    ExtensionTest,
    Features,
    PartKind,
    Rpc,
)
from hearsay.core.registry import ROUTERS, create, negotiate
from hearsay.core.rules.randomness import Randomness

PENALTY = score(
    thresholds={"gossip": -100, "publish": -500, "graylist": -1000},
    misbehaviour_weight=-1,
    misbehaviour_decay=0.9,
)
SAYS = Rpc(control=Control(features=(Features(),)))
QUIET = Rpc()


def judge(**given):
    made = Judge(partial_messages=True, **{"score": PENALTY, **given})
    made.connect("p", protocol=MESHSUB_13)
    return made


def of_parameters(**given):
    kind = ROUTERS["gossipsub"]
    return create(kind, "me", kind.parameters.from_mapping({**kind.presets["v1.1"], **given}), Randomness(1))


@pytest.mark.parametrize(
    ("rpcs", "late_extensions", "expected"),
    [
        ([SAYS, QUIET, QUIET], "penalise", 0),
        ([SAYS, SAYS, SAYS], "penalise", -400),
        ([QUIET, QUIET, SAYS], "penalise", -100),
        ([SAYS, SAYS, SAYS], "ignore", 0),
    ],
)
def test_what_is_said_again_or_too_late_is_misbehaviour(rpcs, late_extensions, expected):
    """Rule: EXT-2. go's test: well behaved and not; (2 · 10)² = 400 before it decays."""
    made = judge(late_extensions=late_extensions)
    for rpc in rpcs:
        made.feed(RpcReceived("p", rpc))
    assert made.score("p") == expected


TESTS = Rpc(control=Control(features=(Features(test_extension=True),)))
TEST = Rpc(test=ExtensionTest())


@pytest.mark.parametrize(
    ("ours", "said", "sent_back"), [(True, TESTS, [TEST]), (True, SAYS, []), (True, QUIET, []), (False, TESTS, [])]
)
def test_a_test_message_goes_to_who_has_the_test_extension(ours, said, sent_back):
    """Rule: EXT-5. go: TestTestExtension, in which the first RPC says it and the next is the message."""
    router = of_parameters(test_extension=ours, partial_messages=True)
    hello = router.handle(PeerConnected("p", MESHSUB_13), 0)
    assert [action.rpc.control.features for action in hello if isinstance(action, Send)] == [(Features(True, ours),)]
    answers = [action.rpc for action in router.handle(RpcReceived("p", said), 0) if isinstance(action, Send)]
    assert answers == sent_back
    on = bool(sent_back)
    came = router.handle(RpcReceived("p", TEST), 0)
    assert came == [ExtensionTestReceived("p") if on else PartDropped("p", PartKind.EXTENSION, 1, Reason.UNSUPPORTED)]
    assert router.handle(RpcReceived("p", QUIET), 0) == []


def test_the_test_extension_alone_is_reason_enough_to_speak_1_3():
    """Rule: EXT-1."""
    assert of_parameters(test_extension=True).strategy.protocols[0] == MESHSUB_13


def test_a_peer_that_comes_again_says_it_again():
    """Rules: EXT-1, EXT-2. Nothing is kept of a peer that has gone."""
    made = judge()
    made.feed(RpcReceived("p", SAYS))
    made.feed(PeerDisconnected("p"))
    assert not made.strategy.remembers("p")
    actions = made.feed(PeerConnected("p", MESHSUB_13))
    assert sent(actions, Features) == [("p", Features(partial_messages=True))]
    made.feed(RpcReceived("p", SAYS))
    assert made.score("p") == 0


@pytest.mark.parametrize(
    ("given", "protocol", "said"),
    [
        ({"partial_messages": True}, MESHSUB_13, [Features(partial_messages=True)]),
        ({"partial_messages": True}, MESHSUB_12, []),
        ({"partial_messages": True}, FLOODSUB, []),
        ({"extensions": True}, MESHSUB_13, []),
    ],
)
def test_who_is_sent_what(given, protocol, said):
    """Rule: EXT-1. It is not sent to a peer of an older version, nor when there is nothing to announce (go)."""
    made = of_parameters(**given)
    actions = made.handle(PeerConnected("p", protocol), 0)
    assert [part for _, part in sent(actions, Features)] == said


def test_it_is_in_the_first_rpc_and_in_no_other():
    """Rule: EXT-1."""
    made = judge()
    first = [action for action in made.feed(PeerConnected("q", MESHSUB_13)) if isinstance(action, Send)]
    assert len(first) == 1
    assert first[0].rpc.subscriptions
    assert first[0].rpc.control == Control(features=(Features(partial_messages=True),))
    assert sent(made.graft("q") + made.publish("m1") + made.beat(), Features) == []


@pytest.mark.parametrize(
    ("given", "spoken"),
    [
        ({}, (MESHSUB_11, MESHSUB, FLOODSUB)),
        ({"idontwant_threshold_bytes": 1}, (MESHSUB_12, MESHSUB_11, MESHSUB, FLOODSUB)),
        ({"extensions": True}, (MESHSUB_13, MESHSUB_12, MESHSUB_11, MESHSUB, FLOODSUB)),
        ({"partial_messages": True}, (MESHSUB_13, MESHSUB_12, MESHSUB_11, MESHSUB, FLOODSUB)),
    ],
)
def test_versions_from_the_newest_down(given, spoken):
    """Rule: EXT-1. go: extensions from 1.3."""
    made = of_parameters(**given).strategy
    assert made.protocols == spoken
    assert all(negotiate(made.protocols, (one,)) == one for one in spoken)


def test_a_router_without_extensions_does_not_hear_them():
    """Rule: EXT-3."""
    made = Judge(score=PENALTY)
    made.connect("p")
    for _ in range(3):
        assert dropped(made.feed(RpcReceived("p", SAYS))) == [("p", "FEATURES", 1, Reason.UNSUPPORTED)]
    assert made.score("p") == 0
    assert made.router.connected["p"].topics == {TOPIC}
