"""Applications of partial messages at simulated nodes: messages of a topic go in equal parts, where routers know how.

Rules:

* A group is named by its message's number. Whoever publishes a message, or gets it whole, has all of its parts.
* A node has `known_parts` of a message, those with the lowest numbers, when it first hears of its group: what its
  application got by another way. It asks all for what it lacks, with a bitmap for metadata; or one, with
  two bitlists.
* A node that gets the last part publishes the message, which delivers it to the node itself and sends it whole to
  peers without partial messages. It has come one hop further than to the peer that sent the last part.
* What follows from an RPC is done when all that the router asked for is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from hearsay.core.language.actions import Deliver, DeliverPartial, RemindOfPartial
from hearsay.core.language.events import Event, PartialsChosen, Publish
from hearsay.core.language.identifiers import TopicId
from hearsay.core.language.rpc import Message
from hearsay.partial.application import Outcome
from hearsay.partial.claims import Bitlists, Bitmap
from hearsay.partial.counted_parts import group_named
from hearsay.partial.exchange import Asking, PartsExchange
from hearsay.partial.formats import EqualParts
from hearsay.sim.reference.nodes import SimNode
from hearsay.sim.reference.transport import Transport
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.workload import PartialParts

_GROUP_BYTES = 8


class PartialMessages:
    def __init__(self, scenario: Scenario, transport: Transport, feed: Callable[[SimNode, Event], None]) -> None:
        self._transport = transport
        self._feed = feed
        self._settings: dict[TopicId, _PartialTopic] = {
            name: _PartialTopic(group.partial, group.size_bytes or scenario.workload.size_bytes)
            for group in scenario.topics
            if group.partial is not None and group.goes_in_parts
            for name in group.names
        }
        self._applications: dict[tuple[int, TopicId], PartsExchange] = {}
        self._messages: dict[bytes, Message] = {}
        self.topics = self._settings.keys()
        """In which messages go in parts."""
        self.waiting: deque[tuple[SimNode, Deliver | DeliverPartial | RemindOfPartial]] = deque()
        self._settling = False
        self.completed: dict[tuple[int, Any], tuple[Any, int]] = {}
        """Of a node and a message: who sent the last part, and how far the message came with it."""

    def planned(self, message: Message) -> None:
        """A message that will be published."""
        number: Any = message.id
        self._messages[group_named(number)] = message

    def started(self, node: SimNode) -> None:
        """A node comes up, with empty applications, before it joins its topics."""
        assert node.router is not None
        if not node.router.strategy.has_partials:
            return
        for topic in sorted(node.topics & self._settings.keys()):
            settings = self._settings[topic]
            self._applications[node.id, topic] = settings.application()
            self._feed(node, PartialsChosen(topic, settings.use, self._applications[node.id, topic]))

    def came(self, node: SimNode, topic: TopicId, action: Deliver | DeliverPartial | RemindOfPartial) -> None:
        """Something for a node's application; `settle` hands it over."""
        if (node.id, topic) in self._applications:
            self.waiting.append((node, action))

    def settle(self) -> None:
        """Hand over what is `waiting`."""
        if self._settling:
            return
        self._settling = True
        while self.waiting:
            node, action = self.waiting.popleft()
            match action:
                case Deliver():
                    self._delivered(node, action)
                case DeliverPartial():
                    self._received(node, action)
                case RemindOfPartial():
                    application = self._applications[node.id, action.topic]
                    self._follow(node, application.reminded(action.topic, action.group))
        self._settling = False

    def _delivered(self, node: SimNode, action: Deliver) -> None:
        topic, number = action.message.topic, action.message.id
        assert isinstance(number, int)
        group, application = group_named(number), self._applications[node.id, topic]
        whole = self._settings[topic].all_parts
        if len(application.held(topic, group)) < len(whole):
            self._follow(node, application.add(topic, group, whole))

    def _received(self, node: SimNode, action: DeliverPartial) -> None:
        topic, group = action.partial.topic, action.partial.group
        sender: Any = action.received_from
        outcome = self._applications[node.id, topic].received(action.partial, sender)
        self._follow(node, outcome)
        message = self._messages.get(group)
        if outcome.whole is not None and message is not None:
            self.completed[node.id, message.id] = (sender, self._transport.hops_at(sender, message) + 1)
            self._feed(node, Publish(message))
            self.completed.pop((node.id, message.id), None)

    def _follow(self, node: SimNode, outcome: Outcome) -> None:
        for event in outcome.events:
            self._feed(node, event)


class _PartialTopic:
    """What the applications of a topic have in common."""

    def __init__(self, settings: PartialParts, size_bytes: int) -> None:
        self.use = settings.use
        self._eager = settings.eager
        part = bytes(-(-size_bytes // settings.parts))
        self._asks = settings.asks
        claims = Bitlists() if settings.asks is Asking.ONE else Bitmap()
        self._form = EqualParts(
            count=settings.parts, part_bytes=max(1, len(part)), group_bytes=_GROUP_BYTES, claims=claims
        )
        self.all_parts: Mapping[int, bytes] = dict.fromkeys(range(settings.parts), part or bytes(1))
        self._known = {index: self.all_parts[index] for index in range(settings.known_parts)}

    def application(self) -> PartsExchange:
        return PartsExchange(self._form, eager=self._eager, known=lambda topic, group: self._known, asks=self._asks)
