"""Applications of partial messages at simulated nodes: messages of a topic are sent in equal parts.

Rules:

* A group has the number of its message as its name. A node that publishes a message, or receives it whole, has all of
  its parts.
* A node has `known_parts` of a message, those with the lowest numbers, when it first learns of its group: its
  application got them elsewhere. It requests missing parts from all peers, with a bitmap as metadata, or each part
  from one peer, with two bitlists.
* A node that gets the last part publishes the message, which delivers it to the node itself and sends it whole to
  peers without partial messages. The message then has one hop more than at the peer that sent the last part.
* Applications handle deliveries and partial messages of an RPC after all actions of the router are performed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from hearsay.core.language.actions import Deliver, DeliverPartial, RemindOfPartial
from hearsay.core.language.events import PartialsChosen, Publish
from hearsay.core.language.identifiers import TopicId
from hearsay.core.language.rpc import Message, Partial
from hearsay.partial.exchange import Asking, Outcome, PartsExchange
from hearsay.partial.formats import Bitlists, Bitmap, Claim, EqualParts, group_named, members
from hearsay.sim.reference.nodes import Network, SimNode
from hearsay.sim.reference.transport import Transport
from hearsay.sim.scenario.workload import PartialParts

_GROUP_BYTES = 8


class PartialMessages:
    """The applications of all nodes."""

    def __init__(self, network: Network, transport: Transport) -> None:
        scenario = network.plan.scenario
        self._transport = transport
        self._feed = network.feed
        self._settings: dict[TopicId, PartialTopic] = {
            name: PartialTopic(group.partial, group.size_bytes or scenario.workload.size_bytes)
            for group in scenario.topics
            if group.partial is not None and group.goes_in_parts
            for name in group.names
        }
        self._applications: dict[tuple[int, TopicId], PartsExchange] = {}
        self._messages: dict[bytes, Message] = {}
        self.topics = self._settings.keys()
        """The topics whose messages are sent in parts."""
        self.waiting: deque[tuple[SimNode, Deliver | DeliverPartial | RemindOfPartial]] = deque()
        self._settling = False
        self.completed: dict[tuple[int, Any], tuple[Any, int]] = {}
        """The sender of the last part and the hops of a message, by node and message, while the node publishes it."""

    def planned(self, message: Message) -> None:
        """Register a message before it is published."""
        number: Any = message.id
        self._messages[group_named(number)] = message

    def started(self, node: SimNode) -> None:
        """Provide new applications for a node that starts, before it joins its topics."""
        assert node.router is not None
        if node.router.strategy.partial_messages is None:
            return
        for topic in self._settings:
            self._applications.pop((node.id, topic), None)
        for topic in sorted(node.topics & self._settings.keys()):
            settings = self._settings[topic]
            self._applications[node.id, topic] = settings.application()
            self._feed(node, PartialsChosen(topic, settings.use, self._applications[node.id, topic]))

    def partial(self, topic: TopicId, message: int, parts: int | None, claim: Claim | None) -> Partial:
        """Return a partial message with these parts (bits of an integer) and this claim; None omits either."""
        settings, group = self._settings[topic], group_named(message)
        held = None if parts is None else {index: settings.all_parts[index] for index in members(parts)}
        return Partial(
            topic,
            group,
            None if held is None else settings.form.encode(group, held),
            None if claim is None else settings.form.encode_claim(group, claim),
        )

    def add(self, node: SimNode, topic: TopicId, action: Deliver | DeliverPartial | RemindOfPartial) -> None:
        """Queue an action for a node's application."""
        if (node.id, topic) in self._applications:
            self.waiting.append((node, action))

    def settle(self) -> None:
        """Pass the waiting actions to the applications."""
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


class PartialTopic:
    """The settings of a topic, shared by its applications."""

    def __init__(self, settings: PartialParts, size_bytes: int) -> None:
        self.use = settings.use
        self._eager = settings.eager
        part = bytes(-(-size_bytes // settings.parts))
        self._asks = settings.asks
        claims = Bitlists() if settings.asks is Asking.ONE else Bitmap()
        self.form = EqualParts(
            count=settings.parts, part_bytes=max(1, len(part)), group_bytes=_GROUP_BYTES, claims=claims
        )
        self.all_parts: Mapping[int, bytes] = dict.fromkeys(range(settings.parts), part or bytes(1))
        self._known = {index: self.all_parts[index] for index in range(settings.known_parts)}

    def application(self) -> PartsExchange:
        return PartsExchange(self.form, eager=self._eager, known=lambda topic, group: self._known, asks=self._asks)
