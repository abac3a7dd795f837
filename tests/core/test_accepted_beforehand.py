"""Messages that the application has accepted before the router gets them."""

from __future__ import annotations

import pytest

from hearsay.core.language.actions import Deliver, DuplicateReceived, Validate
from hearsay.core.language.events import Join, MessageValidated, PeerConnected, RpcReceived, Verdict
from hearsay.core.language.rpc import Message, Rpc, Subscription
from hearsay.core.registry import ROUTERS, create
from hearsay.core.rules.randomness import Randomness

MESSAGES = (Message(7, "news", b"one", 50), Message(8, "news", b"two", 51))


def router_of(kind, **parameters):
    router = create(kind, 1, kind.parameters.from_mapping({"validate": True, **parameters}), Randomness(1), 0)
    router.handle(Join("news"), 0)
    for peer in range(2, 9):
        router.handle(PeerConnected(peer, router.strategy.protocols[0]), 0)
        router.handle(RpcReceived(peer, Rpc((Subscription("news", True),))), 0)
    return router


@pytest.mark.parametrize("kind", ROUTERS.values(), ids=ROUTERS)
def test_they_are_delivered_and_forwarded_without_a_question(kind):
    at_once = router_of(kind).handle(RpcReceived(3, Rpc(messages=MESSAGES[:1]), accepted=True), 1)
    asking = router_of(kind)
    question, *others = asking.handle(RpcReceived(3, Rpc(messages=MESSAGES[:1])), 1)
    assert isinstance(question, Validate)
    assert at_once == others + asking.handle(MessageValidated(7, Verdict.ACCEPT), 1)
    assert any(isinstance(action, Deliver) for action in at_once)


@pytest.mark.parametrize("kind", ROUTERS.values(), ids=ROUTERS)
def test_one_that_is_being_looked_at_is_a_duplicate_even_when_it_was_forgotten(kind):
    router = router_of(kind, max_seen=1)
    router.handle(RpcReceived(3, Rpc(messages=MESSAGES)), 1)
    assert 7 not in router.known
    again = router.handle(RpcReceived(4, Rpc(messages=MESSAGES[:1]), accepted=True), 2)
    assert not any(isinstance(action, Deliver) for action in again)
    assert any(isinstance(action, DuplicateReceived) for action in again)
    verdict = router.handle(MessageValidated(7, Verdict.ACCEPT), 3)
    assert sum(isinstance(action, Deliver) for action in verdict) == 1
