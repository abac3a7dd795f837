"""Subscriptions to topics that a router does not allow: cases and numbers of go-libp2p-pubsub.

Rules: SHELL-8.
"""

from __future__ import annotations

from typing import Any

import pytest

from hearsay.core.language.actions import Action, Deliver, PartDropped, Reason, Send
from hearsay.core.language.events import Join, PeerConnected, Publish, RpcReceived
from hearsay.core.language.rpc import FLOODSUB, Control, Graft, Message, PartKind, Rpc, Subscription
from hearsay.core.registry import create, find_router
from hearsay.core.rules.randomness import Randomness
from hearsay.core.shell.contract import UsageError
from hearsay.core.shell.parameters import ParameterError, RouterParameters
from hearsay.core.shell.router import Router

FIRST_TWO = ({"allowed_topics": ["test1", "test2"]}, {"allowed_topics": ["test[1-2]"]})
ALL_THREE = (Subscription("test1", True), Subscription("test2", True), Subscription("test3", True))


def router(name: str = "me", **given: Any) -> Router:
    kind = find_router("gossipsub")
    return create(kind, name, kind.parameters.from_mapping(given), Randomness(1))


def connected(**given: Any) -> Router:
    found = router(**given)
    found.handle(PeerConnected("peer", FLOODSUB), 0)
    return found


def receive(found: Router, *changes: Subscription, **rest: Any) -> list[Action]:
    return found.handle(RpcReceived("peer", Rpc(changes, **rest)), 0)


def topics_of_peer(found: Router) -> set[object]:
    return set(found.connected["peer"].topics)


@pytest.mark.parametrize("chosen", FIRST_TWO)
def test_of_three_topics_two_are_allowed(chosen):
    found = connected(**chosen)
    assert [found.allows(f"test{number}") for number in (1, 2, 3)] == [True, True, False]
    assert receive(found, *ALL_THREE) == [PartDropped("peer", PartKind.SUBSCRIBE, 1, Reason.FILTERED)]
    assert topics_of_peer(found) == {"test1", "test2"}


@pytest.mark.parametrize("chosen", [*FIRST_TWO, {}])
def test_an_rpc_with_too_many_subscriptions_is_dropped(chosen):
    found = connected(**chosen, max_subscriptions_per_rpc=2)
    found.handle(Join("test1"), 0)
    parts = {"messages": (Message("m", "test1", b"", "author"),), "control": Control(graft=(Graft("test1"),))}
    assert receive(found, *ALL_THREE, **parts) == [
        PartDropped("peer", PartKind.SUBSCRIBE, 3, Reason.OVER_LIMIT),
        PartDropped("peer", PartKind.PUBLISH, 1, Reason.OVER_LIMIT),
        PartDropped("peer", PartKind.GRAFT, 1, Reason.OVER_LIMIT),
    ]
    assert topics_of_peer(found) == set()
    assert any(isinstance(action, Deliver) for action in receive(found, *ALL_THREE[:2], **parts))
    assert topics_of_peer(found) == {"test1", "test2"}


def test_repeated_subscriptions_count_once_and_opposites_cancel_out():
    found = connected(allowed_topics=["test1", "test2"])
    once, twice = Subscription("test1", True), Subscription("test2", True)
    receive(found, once, once, twice, Subscription("test2", False), Subscription("test3", True))
    assert topics_of_peer(found) == {"test1"}
    receive(found, once, Subscription("test1", False))
    assert topics_of_peer(found) == {"test1"}
    receive(found, Subscription("test1", False))
    assert topics_of_peer(found) == set()


def test_without_a_filter_each_subscription_counts():
    found = connected()
    receive(found, Subscription("test1", True), Subscription("test1", False), Subscription("test3", True))
    assert topics_of_peer(found) == {"test3"}


def test_two_routers_see_each_other_in_the_topic_that_both_allow():
    routers = {
        "one": router("one", allowed_topics=["test1", "test2"]),
        "other": router("other", allowed_topics=["test2", "test3"]),
    }
    for name, topic in (("one", "test1"), ("one", "test2"), ("other", "test2"), ("other", "test3")):
        routers[name].handle(Join(topic), 0)
    hellos = {
        name: routers[name].handle(PeerConnected(peer, FLOODSUB), 0)
        for name, peer in (("one", "other"), ("other", "one"))
    }
    for name, peer in (("one", "other"), ("other", "one")):
        for action in hellos[name]:
            if isinstance(action, Send):
                routers[peer].handle(RpcReceived(name, action.rpc), 0)
    for name, peer in (("one", "other"), ("other", "one")):
        seen = {topic for topic in ("test1", "test2", "test3") if peer in routers[name].peers.in_topic(topic)}
        assert seen == {"test2"}


@pytest.mark.parametrize("event", [Join("test3"), Publish(Message("m", "test3", b"", "me"))])
def test_other_topics_can_neither_be_joined_nor_published_in(event):
    found = router(allowed_topics=["test1"])
    with pytest.raises(UsageError, match="topic 'test3' is not one of allowed_topics"):
        found.handle(event, 0)
    assert not found.joined


def test_a_glob_matches_the_whole_name_and_only_text():
    found = router(allowed_topics=["blocks/*", "exits/[12]", "a?"])
    assert all(map(found.allows, ("blocks/", "blocks/1/ssz", "exits/2", "ab", "a?")))
    assert not any(map(found.allows, ("my/blocks/1", "exits/3", "a", "BLOCKS/1", b"blocks/1")))


def test_a_name_is_allowed_as_it_stands_whatever_its_characters():
    found = router(allowed_topics=["[x]"])
    assert found.allows("[x]")
    assert found.allows("x")


def test_no_name_makes_a_glob_slow():
    """A matcher with backtracking would not end."""
    found = router(allowed_topics=["*a" * 30 + "b"])
    assert not found.allows("a" * 2_000 + "!")


def test_allowed_topics_are_a_list():
    with pytest.raises(ParameterError, match="allowed_topics = 'test1': must be a list of strings"):
        RouterParameters.from_mapping({"allowed_topics": "test1"})
