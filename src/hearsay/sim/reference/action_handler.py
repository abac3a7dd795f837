"""The handler that performs the actions of routers, and the applications of nodes that use partial messages.

`router_failure` finds the router that caused an error. The applications send the messages of a topic in equal parts,
as partial messages. Rules:

* The parts of a message are one group; the name of the group is the number of the message. A node that publishes a
  message, or receives it whole, has all of its parts.
* When a node first learns of a group, its application already has the `known_parts` parts with the lowest numbers,
  from elsewhere. The application requests the missing parts either from all peers, with a bitmap as metadata, or each
  part from one peer, with two bitlists.
* A node that gets the last missing part publishes the message. So the message is delivered at the node, and sent
  whole to peers without partial messages. The message has one hop more here than at the peer that sent the last part.
* An application handles the deliveries and partial messages of an RPC after all actions of the router are performed.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Mapping
from types import FrameType
from typing import Any, assert_never, cast

from hearsay.core.language.actions import (
    Action,
    CopyWithheld,
    Deliver,
    DeliverPartial,
    Dial,
    Disconnect,
    DuplicateReceived,
    ExtensionTestReceived,
    FindContacts,
    MessagePublished,
    MessageRejected,
    NamedPeerDialled,
    OverlayChanged,
    PartDropped,
    PeerAdded,
    PeerGrafted,
    PeerPruned,
    PeerRemoved,
    Ping,
    Reason,
    RemindOfPartial,
    Send,
    TopicJoined,
    TopicLeft,
    Validate,
    Via,
    Withdraw,
)
from hearsay.core.language.events import EventKind, PartialsChosen, Publish
from hearsay.core.language.identifiers import Micros, TopicId
from hearsay.core.language.rpc import Message, Partial, PartKind
from hearsay.core.shell.contract import RouterFailed, describe_error
from hearsay.partial.exchange import Asking, Outcome, PartsExchange
from hearsay.partial.formats import Bitlists, Bitmap, Claim, EqualParts, group_named, members
from hearsay.sim.plan.plan import Plan
from hearsay.sim.recorder import MessageInfo, Parts
from hearsay.sim.reference.connections import Connections
from hearsay.sim.reference.nodes import Network, SimNode
from hearsay.sim.reference.transport import Transport
from hearsay.sim.scenario.workload import PartialParts
from hearsay.trace.language.event_rows import (
    add_peer_row,
    deliver_row,
    dial_row,
    graft_row,
    join_row,
    leave_row,
    prune_row,
    publish_row,
    reject_row,
    remove_peer_row,
)
from hearsay.trace.language.schema import NONE, OVERLAY_EVENTS, formed_row

_GROUP_BYTES = 8
_OBSERVER_METHODS = ("handled", "node_started", "node_stopped")
"""Names of the methods of observers. The engine calls them where it also calls routers, but no router causes their
errors."""


class ActionHandler:
    """Performs the actions of all routers of a run."""

    def __init__(
        self, network: Network, transport: Transport, connections: Connections, partial_messages: PartialMessages
    ) -> None:
        self._network = network
        self._validation_delay_us = network.plan.scenario.validation.delay_us
        self._topic_numbers = network.topic_numbers
        self._recorder = network.recorder
        self._transport = transport
        self._connections = connections
        self._partial_messages = partial_messages

    def perform(self, node: SimNode, actions: list[Action], now: Micros, parts: Parts | None) -> None:
        """Perform the actions that a node's router returned for one event. `parts` are the parts of the RPC if the
        event is an RPC, otherwise None."""
        row = self._recorder.row
        for position, action in enumerate(actions):
            match action:
                case Send():
                    self._transport.send(node, actions[position:], now)  # a router returns its sends last
                    return
                case Deliver():
                    self._delivered(node, action, now, parts)
                case DuplicateReceived():
                    self._recorder.duplicates += 1
                case PeerAdded():
                    row(add_peer_row(now, node.id, _number(action.peer)))
                case PeerRemoved():
                    row(remove_peer_row(now, node.id, _number(action.peer)))
                case Dial():
                    self._connections.dial_for_router(node, _number(action.peer))
                case Disconnect():
                    self._connections.disconnect(node, action.peer)
                case Ping():
                    self._connections.ping(node, action.peer)
                case FindContacts():
                    self._connections.find_contacts(node, action)
                case PeerGrafted():
                    row(graft_row(now, node.id, _number(action.peer), self._topic_numbers[action.topic]))
                case PeerPruned():
                    row(prune_row(now, node.id, _number(action.peer), self._topic_numbers[action.topic]))
                case OverlayChanged():
                    event, topic = OVERLAY_EVENTS[action.change], self._topic_numbers[action.topic]
                    row(formed_row(event, now, node.id, _number(action.peer), topic))
                case Validate():
                    self._validate(node, action, now, parts)
                case MessagePublished():
                    if action.message.source == node.id:
                        self.record_publication(node.id, action.message, now)
                case MessageRejected():
                    self._record_rejection(node, action, now)
                case PartDropped():
                    peer, kind, reason = _number(action.peer), action.kind, action.reason
                    row(reject_row(now, kind, node.id, peer, NONE, NONE, action.count, reason))
                case DeliverPartial():
                    self._partial_messages.add(node, action.partial.topic, action)
                case RemindOfPartial():
                    self._partial_messages.add(node, action.topic, action)
                case Withdraw():
                    self._transport.withdraw(node, action, now)
                case CopyWithheld():
                    self._transport.record_withheld(node, action, now)
                case TopicJoined():
                    self._recorder.joined(node.id, self._topic_numbers[action.topic], now)
                    row(join_row(now, node.id, self._topic_numbers[action.topic]))
                case TopicLeft():
                    self._recorder.left(node.id, self._topic_numbers[action.topic], now)
                    row(leave_row(now, node.id, self._topic_numbers[action.topic]))
                case NamedPeerDialled():
                    peer = _number(action.peer)
                    remote = peer if 0 <= peer < self._network.script else NONE  # a PRUNE may name any number
                    row(dial_row(now, node.id, remote, self._topic_numbers[action.topic]))
                case ExtensionTestReceived():
                    pass  # it has no trace row
                case _:
                    assert_never(action)

    def _delivered(self, node: SimNode, action: Deliver, now: Micros, parts: Parts | None) -> None:
        message = action.message
        info = self._recorder.messages[message.id]
        if message.topic in self._partial_messages.topics:
            self._partial_messages.add(node, message.topic, action)
        remote: Any = action.received_from
        if remote is None:
            remote, hops, via = self._origin(node, message, info)
        elif message.id in node.validating:
            hops, via = node.validating.pop(message.id)
        else:
            hops, via = _arrival_of(message, parts)
        self._transport.set_hops(node, message, hops)
        number: Any = message.id
        self._recorder.delivered += 1
        self._recorder.row(deliver_row(now, node.id, remote, info.topic, number, hops, via))

    def _origin(self, node: SimNode, message: Message, info: MessageInfo) -> tuple[int, int, int]:
        """Return the columns remote, hops and via for the delivery of a message at a node that publishes it."""
        completed = self._partial_messages.completed.get((node.id, message.id))
        if completed is not None:
            return *completed, NONE
        if info.publisher == self._network.script:
            return info.publisher, 1, int(Via.INJECT)
        return NONE, 0, NONE

    def _validate(self, node: SimNode, action: Validate, now: Micros, parts: Parts | None) -> None:
        message = action.message
        number: Any = message.id
        node.validating[message.id] = _arrival_of(message, parts)
        kind = EventKind.MESSAGE_VALIDATED
        self._network.queue.add(now + self._validation_delay_us, node.id, kind, number, node.starts, message)

    def record_publication(self, publisher: int, message: Any, now: Micros) -> None:
        """Write the trace row for a publication by a node or by the script."""
        info = self._recorder.messages[message.id]
        self._recorder.row(publish_row(now, publisher, info.topic, message.id, 0, info.data_bytes))

    def _record_rejection(self, node: SimNode, action: MessageRejected, now: Micros) -> None:
        message: Any = action.message
        node.validating.pop(message.id, None)
        if action.reason in (Reason.REJECTED, Reason.IGNORED):
            self._recorder.refused.add(message.id)
        topic = self._topic_numbers[message.topic]
        row = reject_row(now, PartKind.PUBLISH, node.id, _number(action.peer), topic, message.id, 1, action.reason)
        self._recorder.row(row)


def _arrival_of(message: Message, parts: Parts | None) -> tuple[int, int]:
    """Return hops and via of a message that arrived in an RPC with these parts. If no part is a copy of the message,
    the message came from the script: 1 hop, `Via.INJECT`."""
    for kind, _, number, hops, _, _, via in parts or ():
        if number == message.id and kind == PartKind.PUBLISH:
            return hops, via
    return 1, Via.INJECT


def _number(peer: Any) -> int:
    """Return a peer's id with the type int, because the ids of simulated peers are numbers."""
    return peer


class PartialMessages:
    """The applications of all nodes, one for each node and topic with partial messages."""

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
        self._is_running = False
        self.completed: dict[tuple[int, Any], tuple[Any, int]] = {}
        """The sender of the last part and the hops of a message, by node and message. An entry exists only while the
        node publishes a message that it has completed from parts."""

    def register(self, message: Message) -> None:
        """Register a message of the plan before it is published."""
        number: Any = message.id
        self._messages[group_named(number)] = message

    def start_applications(self, node: SimNode) -> None:
        """Create the applications of a node that starts, and pass them to the node's router before the router joins
        topics. If the router does not support partial messages, do nothing."""
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
        """Return a partial message of the group of a message. Each bit of `parts` is one part that it contains, and
        `claim` is its metadata; None stands for a partial message without parts or without metadata."""
        settings, group = self._settings[topic], group_named(message)
        held = None if parts is None else {index: settings.all_parts[index] for index in members(parts)}
        return Partial(
            topic,
            group,
            None if held is None else settings.form.encode(group, held),
            None if claim is None else settings.form.encode_claim(group, claim),
        )

    def add(self, node: SimNode, topic: TopicId, action: Deliver | DeliverPartial | RemindOfPartial) -> None:
        """Queue an action of a node's router for the node's application in a topic; do nothing if there is none."""
        if (node.id, topic) in self._applications:
            self.waiting.append((node, action))

    def run_applications(self) -> None:
        """Pass the queued actions to the applications, and the events of the applications to the routers, until the
        queue is empty. A call during such a call does nothing."""
        if self._is_running:
            return
        self._is_running = True
        while self.waiting:
            node, action = self.waiting.popleft()
            match action:
                case Deliver():
                    self._delivered(node, action)
                case DeliverPartial():
                    self._received(node, action)
                case RemindOfPartial():
                    application = self._applications[node.id, action.topic]
                    self._feed_events(node, application.reminded(action.topic, action.group))
        self._is_running = False

    def _delivered(self, node: SimNode, action: Deliver) -> None:
        topic, number = action.message.topic, cast("int", action.message.id)
        group, application = group_named(number), self._applications[node.id, topic]
        whole = self._settings[topic].all_parts
        if len(application.held(topic, group)) < len(whole):
            self._feed_events(node, application.add(topic, group, whole))

    def _received(self, node: SimNode, action: DeliverPartial) -> None:
        topic, group = action.partial.topic, action.partial.group
        sender = cast("int", action.received_from)
        outcome = self._applications[node.id, topic].received(action.partial, sender)
        self._feed_events(node, outcome)
        message = self._messages.get(group)
        if outcome.whole is not None and message is not None:
            self.completed[node.id, message.id] = (sender, self._transport.hops_at(sender, message) + 1)
            self._feed(node, Publish(message))
            self.completed.pop((node.id, message.id), None)

    def _feed_events(self, node: SimNode, outcome: Outcome) -> None:
        for event in outcome.events:
            self._feed(node, event)


class PartialTopic:
    """The settings of a topic whose messages are sent in parts."""

    def __init__(self, settings: PartialParts, size_bytes: int) -> None:
        self.use = settings.use
        self._settings = settings
        part_bytes = max(1, -(-size_bytes // settings.parts))
        claims = Bitlists() if settings.asks is Asking.ONE else Bitmap()
        self.form = EqualParts(count=settings.parts, part_bytes=part_bytes, group_bytes=_GROUP_BYTES, claims=claims)
        self.all_parts: Mapping[int, bytes] = dict.fromkeys(range(settings.parts), bytes(part_bytes))
        self._known = {index: self.all_parts[index] for index in range(settings.known_parts)}

    def application(self) -> PartsExchange:
        """Return a new application for one node."""
        eager, asks = self._settings.eager, self._settings.asks
        return PartsExchange(self.form, eager=eager, known=lambda topic, group: self._known, asks=asks)


def router_failure(error: Exception, plan: Plan, now: Micros, engine_file: str) -> RouterFailed | None:
    """Return the failure of the router that caused an error of the engine. Return None if no router caused the error,
    or if it is a `MemoryError` or `OSError`. `engine_file` is the path of the file with the engine's class."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    calls = [place for place, frame in enumerate(frames) if _calls_router(frame, engine_file)]
    if not calls or calls[-1] + 1 >= len(frames) or isinstance(error, MemoryError | OSError):
        return None
    call, called = frames[calls[-1]], frames[calls[-1] + 1].f_code.co_name
    if called in _OBSERVER_METHODS:
        return None
    node: SimNode = call.f_locals["node"]
    name = plan.routers[plan.router_of[node.id]][0].name
    event = call.f_locals.get("event")
    what = "on creation" if event is None else f"handling {type(event).__name__}"
    if called not in ("handle", "create"):
        what = f"after {what}, with an action that cannot be performed"
    return RouterFailed(
        f"router {name} failed at node {node.id}, {what} at {now / 1e6:.6f} s: {describe_error(error)}"
    )


def _calls_router(frame: FrameType, engine_file: str) -> bool:
    """Return whether a frame is of a method of the engine that calls a node's router, or performs a router's
    actions."""
    if frame.f_code.co_filename != engine_file:
        return False
    return isinstance(frame.f_locals.get("node"), SimNode) and (
        "event" in frame.f_locals or frame.f_code.co_name == "start"
    )
