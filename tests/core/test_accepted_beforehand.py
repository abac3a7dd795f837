"""RPCs with `accepted`: the application has accepted their messages before the router gets them."""

from __future__ import annotations

import pytest

from hearsay.core.language.actions import Deliver, DuplicateReceived, Validate
from hearsay.core.language.events import Join, MessageValidated, PeerConnected, RpcReceived, Verdict
from hearsay.core.language.rpc import Message, Rpc, Subscription
from hearsay.core.registry import ROUTERS, create
from hearsay.core.rules.randomness import Randomness

MESSAGES = (Message(7, "news", b"one", 50), Message(8, "news", b"two", 51))


def create_router(kind, **parameters):
    router = create(kind, 1, kind.parameters.from_mapping({"validate": True, **parameters}), Randomness(1), 0)
    router.handle(Join("news"), 0)
    for peer in range(2, 9):
        router.handle(PeerConnected(peer, router.strategy.protocols[0]), 0)
        router.handle(RpcReceived(peer, Rpc((Subscription("news", True),))), 0)
    return router


@pytest.mark.parametrize("kind", ROUTERS.values(), ids=ROUTERS)
def test_accepted_messages_are_delivered_and_forwarded_without_validation(kind):
    accepted_actions = create_router(kind).handle(RpcReceived(3, Rpc(messages=MESSAGES[:1]), accepted=True), 1)
    validating = create_router(kind)
    validate, *others = validating.handle(RpcReceived(3, Rpc(messages=MESSAGES[:1])), 1)
    assert isinstance(validate, Validate)
    assert accepted_actions == others + validating.handle(MessageValidated(7, Verdict.ACCEPT), 1)
    assert any(isinstance(action, Deliver) for action in accepted_actions)


@pytest.mark.parametrize("kind", ROUTERS.values(), ids=ROUTERS)
def test_a_copy_of_a_message_in_validation_is_a_duplicate_although_its_id_was_forgotten(kind):
    router = create_router(kind, max_seen=1)
    router.handle(RpcReceived(3, Rpc(messages=MESSAGES)), 1)
    assert 7 not in router.known
    again = router.handle(RpcReceived(4, Rpc(messages=MESSAGES[:1]), accepted=True), 2)
    assert not any(isinstance(action, Deliver) for action in again)
    assert any(isinstance(action, DuplicateReceived) for action in again)
    verdict = router.handle(MessageValidated(7, Verdict.ACCEPT), 3)
    assert sum(isinstance(action, Deliver) for action in verdict) == 1
