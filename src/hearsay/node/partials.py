"""Partial messages of a node. The application of each topic gets the received parts and decides what to send."""

from __future__ import annotations

from collections.abc import Callable

from hearsay.core.language.actions import Deliver, DeliverPartial, RemindOfPartial
from hearsay.core.language.events import PartialFeedback, PartialsChosen
from hearsay.core.language.rpc import PartialUse
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.node.conduct import Offence
from hearsay.node.driver import Driver
from hearsay.partial.exchange import DrivenApplication, Outcome, RemindedApplication
from hearsay.wire.signing import SignaturePolicy


class Partials:
    def __init__(
        self,
        driver: Callable[[], Driver],
        publish: Callable[[str, bytes], None],
        blame: Callable[[PeerId, Offence, int], None],
    ) -> None:
        self._driver = driver
        self._publish = publish
        """A function that publishes a full message, for peers without partial messages and for the node itself."""
        self._blame = blame
        self._applications: dict[str, DrivenApplication] = {}

    def check(self, topic: str, policy: SignaturePolicy) -> None:
        """Raise `ValueError` if a topic cannot have partial messages."""
        if self._driver().router.strategy.partial_messages is None:
            raise ValueError(f"topic {topic!r}: the router has no partial messages (gossipsub: partial_messages)")
        if policy.signs:
            raise ValueError(f"topic {topic!r}: partial messages have no author, but the topic's messages are signed")

    def choose(self, topic: str, application: DrivenApplication, use: PartialUse) -> None:
        self._driver().feed(PartialsChosen(topic, use, application))
        self._applications[topic] = application

    def leave(self, topic: str) -> None:
        if self._applications.pop(topic, None) is not None:
            self._driver().feed(PartialsChosen(topic, PartialUse.NONE, None))

    def perform(self, action: DeliverPartial | RemindOfPartial) -> None:
        topic = str(action.partial.topic if isinstance(action, DeliverPartial) else action.topic)
        application = self._applications.get(topic)
        if application is None:
            return
        if isinstance(action, DeliverPartial):
            self.follow(topic, application.received(action.partial, action.received_from))
        elif isinstance(application, RemindedApplication):
            self.follow(topic, application.reminded(topic, action.group))

    def delivered(self, action: Deliver) -> None:
        """Pass a delivered full message to the application, which may send its parts."""
        topic = str(action.message.topic)
        application = self._applications.get(topic)
        if application is not None:
            self.follow(topic, application.message_received(topic, action.message.data))

    def follow(self, topic: str, outcome: Outcome) -> None:
        """Act on the outcome of received or added parts: pass its events to the router, and publish the full message
        if the parts complete it.
        """
        if topic not in self._applications:
            raise ValueError(f"topic {topic!r} has no partial messages")
        keeps_scores = self._driver().router.strategy.keeps_scores
        for event in outcome.events:
            self._driver().feed(event)
            if isinstance(event, PartialFeedback) and not event.useful and not keeps_scores:
                assert isinstance(event.peer, bytes)
                self._blame(event.peer, Offence.REJECTED, 1)  # the peer sent data that is not of the group
        if outcome.whole is not None:
            self._publish(topic, outcome.whole)
