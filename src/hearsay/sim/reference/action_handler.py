"""The handler that performs the actions of routers, and the error for a router that raises."""

from __future__ import annotations

import traceback
from types import FrameType
from typing import Any, assert_never

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
from hearsay.core.language.events import EventKind
from hearsay.core.language.identifiers import Micros
from hearsay.core.language.rpc import Message, PartKind
from hearsay.core.shell.contract import RouterFailed, describe_error
from hearsay.sim.plan.plan import Plan
from hearsay.sim.reference.connections import Connections
from hearsay.sim.reference.nodes import Network, SimNode
from hearsay.sim.reference.partial_messages import PartialMessages
from hearsay.sim.reference.transport import Transport
from hearsay.sim.results.recorder import MessageInfo, Parts
from hearsay.trace.language.event_rows import (
    add_peer_row,
    deliver_row,
    join_row,
    leave_row,
    publish_row,
    reject_row,
    remove_peer_row,
)
from hearsay.trace.language.formed_rows import formed_row
from hearsay.trace.language.schema import NONE, OVERLAY_EVENTS, TraceEvent

_WATCHING = ("handled", "node_started", "node_stopped")
"""Functions of observers. The engine calls them, too, but their errors are not a router's."""


def router_failure(error: Exception, plan: Plan, now: Micros, engine_file: str) -> RouterFailed | None:
    """Return the failure of a router that caused an error of the engine; None if no router did."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    calls = [place for place, frame in enumerate(frames) if _calls_router(frame, engine_file)]
    if not calls or calls[-1] + 1 >= len(frames) or isinstance(error, MemoryError | OSError):
        return None
    call, called = frames[calls[-1]], frames[calls[-1] + 1].f_code.co_name
    if called in _WATCHING:
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
    if frame.f_code.co_filename != engine_file:
        return False
    return isinstance(frame.f_locals.get("node"), SimNode) and (
        "event" in frame.f_locals or frame.f_code.co_name == "start"
    )


_PUBLISH = int(PartKind.PUBLISH)
_VALIDATED = int(EventKind.MESSAGE_VALIDATED)


def _link_event(action: PeerGrafted | PeerPruned | OverlayChanged) -> TraceEvent:
    if isinstance(action, OverlayChanged):
        return OVERLAY_EVENTS[action.change]
    return TraceEvent.GRAFT if isinstance(action, PeerGrafted) else TraceEvent.PRUNE


class ActionHandler:
    """Performs the actions of the routers of a run."""

    def __init__(
        self, network: Network, transport: Transport, connections: Connections, partial_messages: PartialMessages
    ) -> None:
        self._network = network
        self._script = network.script
        self._validation_delay_us = network.plan.scenario.validation.delay_us
        self._topic_numbers = network.topic_numbers
        self._recorder = network.recorder
        self._transport = transport
        self._connections = connections
        self._partial_messages = partial_messages

    def perform(self, node: SimNode, actions: list[Action], now: Micros, parts: Parts | None) -> None:
        """Perform the actions of one event; `parts` are the parts of the RPC if the event is one, otherwise None."""
        for position, action in enumerate(actions):
            match action:
                case Send():
                    self._transport.send(node, actions[position:], now)  # sends are last
                    return
                case Deliver():
                    self._delivered(node, action, now, parts)
                case DuplicateReceived():
                    self._recorder.duplicates += 1
                case PeerAdded():
                    self._recorder.row(add_peer_row(now, node.id, _number(action.peer)))
                case PeerRemoved():
                    self._recorder.row(remove_peer_row(now, node.id, _number(action.peer)))
                case Dial() | Disconnect() | Ping() | FindContacts():
                    self._connections.perform(node, action)
                case PeerGrafted() | PeerPruned() | OverlayChanged():
                    topic = self._topic_numbers[action.topic]
                    self._recorder.row(formed_row(_link_event(action), now, node.id, _number(action.peer), topic))
                case Validate():
                    self._validate(node, action, now, parts)
                case MessagePublished():
                    if action.message.source == node.id:
                        self.row_published(node.id, action.message, now)
                case MessageRejected():
                    self._row_rejected(node, action, now)
                case PartDropped():
                    self._row_part_dropped(node, action, now)
                case DeliverPartial():
                    self._partial_messages.add(node, action.partial.topic, action)
                case RemindOfPartial():
                    self._partial_messages.add(node, action.topic, action)
                case Withdraw():
                    self._transport.withdraw(node, action, now)
                case CopyWithheld():
                    self._transport.withheld(node, action, now)
                case TopicJoined():
                    self._recorder.joined(node.id, self._topic_numbers[action.topic], now)
                    self._recorder.row(join_row(now, node.id, self._topic_numbers[action.topic]))
                case TopicLeft():
                    self._recorder.left(node.id, self._topic_numbers[action.topic], now)
                    self._recorder.row(leave_row(now, node.id, self._topic_numbers[action.topic]))
                case NamedPeerDialled():
                    self._row_dial(node, action, now)
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
        self._transport.holds(node, message, hops)
        number: Any = message.id
        self._recorder.delivered += 1
        self._recorder.row(deliver_row(now, node.id, remote, info.topic, number, hops, via))

    def _origin(self, node: SimNode, message: Message, info: MessageInfo) -> tuple[int, int, int]:
        """Return remote, hops and via of a message that a node published itself."""
        completed = self._partial_messages.completed.get((node.id, message.id))
        if completed is not None:
            return *completed, NONE
        if info.publisher == self._script:
            return self._script, 1, int(Via.INJECT)
        return NONE, 0, NONE

    def _validate(self, node: SimNode, action: Validate, now: Micros, parts: Parts | None) -> None:
        message = action.message
        number: Any = message.id
        node.validating[message.id] = _arrival_of(message, parts)
        self._network.queue.add(now + self._validation_delay_us, node.id, _VALIDATED, number, node.starts, message)

    def _row_dial(self, node: SimNode, action: NamedPeerDialled, now: Micros) -> None:
        """Record the dial of a peer that a PRUNE named. It may be no node of the run; then the row has no remote."""
        peer = _number(action.peer)
        remote = peer if 0 <= peer < self._script else NONE
        topic = self._topic_numbers[action.topic]
        self._recorder.row(formed_row(TraceEvent.DIAL, now, node.id, remote, topic))

    def row_published(self, publisher: int, message: Any, now: Micros) -> None:
        """Record a publication of a node or the script."""
        info = self._recorder.messages[message.id]
        self._recorder.row(publish_row(now, publisher, info.topic, message.id, 0, info.data_bytes))

    def _row_rejected(self, node: SimNode, action: MessageRejected, now: Micros) -> None:
        message: Any = action.message
        node.validating.pop(message.id, None)
        if action.reason in (Reason.REJECTED, Reason.IGNORED):
            self._recorder.refused.add(message.id)
        topic = self._topic_numbers[message.topic]
        kind, reason = int(PartKind.PUBLISH), int(action.reason)
        self._recorder.row(reject_row(now, kind, node.id, _number(action.peer), topic, message.id, 1, reason))

    def _row_part_dropped(self, node: SimNode, action: PartDropped, now: Micros) -> None:
        kind, reason = int(action.kind), int(action.reason)
        row = reject_row(now, kind, node.id, _number(action.peer), NONE, NONE, action.count, reason)
        self._recorder.row(row)


def _arrival_of(message: Message, parts: Parts | None) -> tuple[int, int]:
    """Return hops and via of the received copy."""
    for kind, _, number, hops, _, _, via in parts or ():
        if number == message.id and kind == _PUBLISH:
            return hops, via
    return 1, Via.INJECT


def _number(peer: Any) -> int:
    """Return the id of a simulated peer, which is a number."""
    return peer
