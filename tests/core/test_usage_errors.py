"""Errors of calls that a router does not allow: they name the kind of the event and its subject, without its data."""

from __future__ import annotations

import pytest

from hearsay.core.language.actions import Reason
from hearsay.core.language.events import (
    DirectPeerChosen,
    Join,
    Leave,
    MessageRefused,
    MessageValidated,
    PartialFeedback,
    PeerDisconnected,
    PeerRated,
    Publish,
    PublishPartial,
    TopicScored,
    Verdict,
)
from hearsay.core.language.rpc import Message
from hearsay.core.registry import create, find_router
from hearsay.core.rules.randomness import Randomness
from hearsay.core.shell.contract import UsageError

DATA = b"data" * 1000
LONG = "t" * 1000


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (MessageRefused("p", Message("m", "news", DATA, "a"), Reason.BAD_SIGNATURE), "MessageRefused of 'p': "),
        (DirectPeerChosen("p"), "DirectPeerChosen of 'p': this router has neither scores nor direct peers"),
        (PeerRated("p", 1.0), "PeerRated of 'p': this router keeps no scores"),
        (TopicScored("news", [DATA]), "TopicScored of 'news': this router keeps no scores"),
        (PublishPartial("news", DATA, ("p",)), "PublishPartial of 'news': this router has no partial messages"),
        (PartialFeedback("p", LONG, True), "PartialFeedback of 'ttt"),
        (MessageValidated(DATA, Verdict.ACCEPT), "verdict on message b'data"),
        (PeerDisconnected(DATA), "b'data"),
        (Leave(LONG), "topic 'ttt"),
        (Join(LONG), "topic 'ttt"),
        (Publish(Message("m", LONG, DATA, "me")), "topic 'ttt"),
    ],
)
def test_an_error_names_the_event_and_its_peer_or_topic_in_a_short_text(event, text):
    kind = find_router("floodsub")
    router = create(kind, "me", kind.parameters.from_mapping({"allowed_topics": ["news"]}), Randomness(1))
    with pytest.raises(UsageError) as caught:
        router.handle(event, 0)
    assert str(caught.value).startswith(text)
    assert len(str(caught.value)) < 200
