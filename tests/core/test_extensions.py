"""The extensions control of v1.3: the expectations of go-libp2p-pubsub's tests, and the peers that get it."""

from __future__ import annotations

import pytest
from router_driver import TOPIC, RouterDriver, dropped, score_table, sent

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

PENALTY = score_table(
    thresholds={"gossip": -100, "publish": -500, "graylist": -1000},
    misbehaviour_weight=-1,
    misbehaviour_decay=0.9,
)
FEATURES_RPC = Rpc(control=Control(features=(Features(),)))
EMPTY_RPC = Rpc()


def connected_driver(**given):
    made = RouterDriver(partial_messages=True, **{"score": PENALTY, **given})
    made.connect("p", protocol=MESHSUB_13)
    return made


def create_router(**given):
    kind = ROUTERS["gossipsub"]
    return create(kind, "me", kind.parameters.from_mapping({**kind.presets["v1.1"], **given}), Randomness(1))


@pytest.mark.parametrize(
    ("rpcs", "late_extensions", "expected"),
    [
        ([FEATURES_RPC, EMPTY_RPC, EMPTY_RPC], "penalise", 0),
        ([FEATURES_RPC, FEATURES_RPC, FEATURES_RPC], "penalise", -400),
        ([EMPTY_RPC, EMPTY_RPC, FEATURES_RPC], "penalise", -100),
        ([FEATURES_RPC, FEATURES_RPC, FEATURES_RPC], "ignore", 0),
    ],
)
def test_repeated_or_late_features_are_misbehaviour(rpcs, late_extensions, expected):
    """Rule: EXT-2. Each repeated or late part counts ten times, and the square counts: (2 · 10)² = 400 (go)."""
    made = connected_driver(late_extensions=late_extensions)
    for rpc in rpcs:
        made.feed(RpcReceived("p", rpc))
    assert made.score("p") == expected


TEST_EXTENSION_RPC = Rpc(control=Control(features=(Features(test_extension=True),)))
TEST_MESSAGE_RPC = Rpc(test=ExtensionTest())


@pytest.mark.parametrize(
    ("own_extension", "received", "sent_back"),
    [
        (True, TEST_EXTENSION_RPC, [TEST_MESSAGE_RPC]),
        (True, FEATURES_RPC, []),
        (True, EMPTY_RPC, []),
        (False, TEST_EXTENSION_RPC, []),
    ],
)
def test_a_test_message_goes_to_peers_with_the_test_extension(own_extension, received, sent_back):
    """Rule: EXT-5. go: TestTestExtension. The first RPC has the extension, the next one is the test message."""
    router = create_router(test_extension=own_extension, partial_messages=True)
    hello = router.handle(PeerConnected("p", MESHSUB_13), 0)
    assert [action.rpc.control.features for action in hello if isinstance(action, Send)] == [
        (Features(True, own_extension),)
    ]
    answers = [action.rpc for action in router.handle(RpcReceived("p", received), 0) if isinstance(action, Send)]
    assert answers == sent_back
    enabled = bool(sent_back)
    test_actions = router.handle(RpcReceived("p", TEST_MESSAGE_RPC), 0)
    assert test_actions == [
        ExtensionTestReceived("p") if enabled else PartDropped("p", PartKind.EXTENSION, 1, Reason.UNSUPPORTED)
    ]
    assert router.handle(RpcReceived("p", EMPTY_RPC), 0) == []


def test_the_test_extension_alone_selects_version_1_3():
    """Rule: EXT-1."""
    assert create_router(test_extension=True).strategy.protocols[0] == MESHSUB_13


def test_features_are_exchanged_again_after_a_reconnection():
    """Rules: EXT-1, EXT-2. No state is kept for a disconnected peer."""
    made = connected_driver()
    made.feed(RpcReceived("p", FEATURES_RPC))
    made.feed(PeerDisconnected("p"))
    assert not made.strategy.remembers("p")
    actions = made.feed(PeerConnected("p", MESHSUB_13))
    assert sent(actions, Features) == [("p", Features(partial_messages=True))]
    made.feed(RpcReceived("p", FEATURES_RPC))
    assert made.score("p") == 0


@pytest.mark.parametrize(
    ("given", "protocol", "sent_features"),
    [
        ({"partial_messages": True}, MESHSUB_13, [Features(partial_messages=True)]),
        ({"partial_messages": True}, MESHSUB_12, []),
        ({"partial_messages": True}, FLOODSUB, []),
        ({"extensions": True}, MESHSUB_13, []),
    ],
)
def test_features_go_only_to_peers_of_1_3_and_only_if_there_are_any(given, protocol, sent_features):
    """Rule: EXT-1. As in go."""
    made = create_router(**given)
    actions = made.handle(PeerConnected("p", protocol), 0)
    assert [part for _, part in sent(actions, Features)] == sent_features


def test_features_are_in_the_first_rpc_only():
    """Rule: EXT-1."""
    made = connected_driver()
    first = [action for action in made.feed(PeerConnected("q", MESHSUB_13)) if isinstance(action, Send)]
    assert len(first) == 1
    assert first[0].rpc.subscriptions
    assert first[0].rpc.control == Control(features=(Features(partial_messages=True),))
    assert sent(made.graft("q") + made.publish("m1") + made.beat(), Features) == []


@pytest.mark.parametrize(
    ("given", "protocols"),
    [
        ({}, (MESHSUB_11, MESHSUB, FLOODSUB)),
        ({"idontwant_threshold_bytes": 1}, (MESHSUB_12, MESHSUB_11, MESHSUB, FLOODSUB)),
        ({"extensions": True}, (MESHSUB_13, MESHSUB_12, MESHSUB_11, MESHSUB, FLOODSUB)),
        ({"partial_messages": True}, (MESHSUB_13, MESHSUB_12, MESHSUB_11, MESHSUB, FLOODSUB)),
    ],
)
def test_versions_from_the_newest_down(given, protocols):
    """Rule: EXT-1. go: extensions from 1.3."""
    made = create_router(**given).strategy
    assert made.protocols == protocols
    assert all(negotiate(made.protocols, (one,)) == one for one in protocols)


def test_a_router_without_extensions_drops_features():
    """Rule: EXT-3."""
    made = RouterDriver(score=PENALTY)
    made.connect("p")
    for _ in range(3):
        assert dropped(made.feed(RpcReceived("p", FEATURES_RPC))) == [("p", "FEATURES", 1, Reason.UNSUPPORTED)]
    assert made.score("p") == 0
    assert made.router.connected["p"].topics == {TOPIC}
