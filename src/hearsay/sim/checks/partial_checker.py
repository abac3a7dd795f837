"""The checker's record of unwanted messages (gossipsub 1.2), and the invariants of partial messages (1.3).

`UnwantedIds` records the messages that the peers of a node do not want (IDONTWANT). The node may send such a message
nevertheless if the router ignored the id of the message because of a limit, or has forgotten it. If more ids are
recorded than the router remembers, the node may send any message.

Invariants of routers with partial messages:

1. a node sends partial messages only in topics for which its application uses them. It sends parts only to a peer
   that requests parts. It sends metadata only to a peer that sent a partial message of the group, or if one of the
   two routers requests parts and the other requests or supports them. If both only support parts, a parameter decides
   whether they exchange metadata (`PartialPromise.between_supporters`);
2. in these topics, a peer that requests parts gets no IHAVE, and full messages only on request;
3. a node that requests parts sends no IDONTWANT to a peer that requests or supports parts;
4. the number of groups in a topic that all peers of a node open is bounded, and so is the number that one peer opens.

A peer uses partial messages only if it announced the extension in its first RPC.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hearsay.core.language.actions import Action, Send, Via
from hearsay.core.language.events import (
    Event,
    Leave,
    PartialsChosen,
    PeerConnected,
    PeerDisconnected,
    Publish,
    RpcReceived,
)
from hearsay.core.language.identifiers import MessageId, Micros, TopicId
from hearsay.core.language.rpc import MESHSUB_13, Features, Partial, PartialUse, Rpc
from hearsay.core.mesh.parameters import GossipsubParameters
from hearsay.core.rules.message_rules import accepted_ids, is_forgotten
from hearsay.core.shell.guarantees import PartialPromise
from hearsay.core.shell.parameters import RouterParameters
from hearsay.sim.reference.nodes import SimNode

_NONE, _SUPPORTS, _REQUESTS = PartialUse.NONE, PartialUse.SUPPORTS, PartialUse.REQUESTS
ASKED_FOR = (Via.IWANT, Via.LAZY)
"""Values of `via` of messages that a node sends only on request."""


class UnwantedIds:
    """The ids of messages that the peers of one node do not want."""

    def __init__(self, parameters: RouterParameters) -> None:
        self._parameters: GossipsubParameters | None = None
        """None if the router ignores IDONTWANT."""
        if isinstance(parameters, GossipsubParameters) and parameters.heeds_idontwant:
            self._parameters = parameters if parameters.idontwant_threshold_bytes else None
        self._received: dict[tuple[Any, Any], int] = {}
        """For each peer and message, the number of the node's last heartbeat before the peer's IDONTWANT."""
        self._rpcs: Counter[Any] = Counter()
        """For each peer, the number of its RPCs with IDONTWANT since the last heartbeat."""
        self._accepted: Counter[Any] = Counter()
        """For each peer, the number of ids that the node accepted since the last heartbeat."""

    def add(self, event: RpcReceived, beat: int) -> None:
        """Record the IDONTWANTs of a received RPC, up to the router's limits.

        `beat` is the number of the router's last heartbeat.
        """
        peer, control, limits = event.peer, event.rpc.control, self._parameters
        if limits is None or control is None or not control.idontwant:
            return
        ids = [message_id for part in control.idontwant for message_id in part.ids]
        of_rpcs = self._rpcs[peer], limits.max_idontwants
        of_ids = len(ids), limits.max_ids_per_idontwant, self._accepted[peer], limits.max_idontwant_ids
        accepted = accepted_ids(*of_rpcs, *of_ids)
        self._rpcs[peer] += bool(ids)
        self._accepted[peer] += accepted
        self._received |= {(peer, message_id): beat for message_id in ids[:accepted]}

    def forbids(self, peer: Any, message_id: Any, beat: int) -> bool:
        """Return whether the node must not send a copy of a message to a peer; `beat` is its last heartbeat."""
        received_beat = self._received.get((peer, message_id))
        if received_beat is None or self._parameters is None or len(self._received) > self._parameters.max_unwanted:
            return False
        return not is_forgotten(received_beat, beat, self._parameters.idontwant_ttl_heartbeats)

    def remove_peer(self, peer: Any) -> None:
        for key in [key for key in self._received if key[0] == peer]:
            del self._received[key]
        del self._rpcs[peer], self._accepted[peer]

    def heartbeat(self, beat: int) -> None:
        self._rpcs.clear()
        self._accepted.clear()
        ttl = 0 if self._parameters is None else self._parameters.idontwant_ttl_heartbeats
        for key in [key for key, received_beat in self._received.items() if is_forgotten(received_beat, beat, ttl)]:
            del self._received[key]


@dataclass(slots=True)
class _Peer:
    """A connected peer of a node."""

    protocol: str
    features: Features | None = None
    """The features that the peer announced; None until its first RPC."""
    uses: dict[Any, PartialUse] = field(default_factory=lambda: {})
    """For each topic to which the peer subscribes, its use of partial messages."""
    groups: set[tuple[Any, bytes]] = field(default_factory=lambda: set())
    """Topic and group of the partial messages that the node accepted from the peer."""


@dataclass(slots=True)
class _Record:
    """The uses of partial messages at one node: by its application and by its peers."""

    own: dict[Any, PartialUse] = field(default_factory=lambda: {})
    """For each topic, the use of partial messages by the node's application."""
    peers: dict[Any, _Peer] = field(default_factory=lambda: {})

    def use(self, peer: Any, topic: TopicId) -> PartialUse:
        """Return a peer's use of partial messages in a topic; `NONE` if it has not announced the extension."""
        known = self.peers[peer]
        knows = known.features is not None and known.features.partial_messages
        return known.uses.get(topic, _NONE) if knows else _NONE

    def gets_parts(self, peer: Any, topic: TopicId) -> bool:
        return self.own.get(topic, _NONE) is not _NONE and self.use(peer, topic) is _REQUESTS

    def gets_no_idontwant(self, peer: Any, topic: TopicId) -> bool:
        return self.own.get(topic, _NONE) is _REQUESTS and self.use(peer, topic) is not _NONE


class PartialChecker:
    """A part of the checker: it checks the partial messages of all nodes."""

    def __init__(self, problem: Callable[[Micros, SimNode, str], None]) -> None:
        self._problem = problem
        self._records: dict[int, _Record] = {}
        self._topics: dict[MessageId, TopicId] = {}
        """For each message that a node got in a topic in which its application uses partial messages, the topic."""

    def node_started(self, node: SimNode) -> None:
        self._records[node.id] = _Record()

    def handled(
        self, node: SimNode, promise: PartialPromise, event: Event, accepted: bool, actions: list[Action], now: Micros
    ) -> None:
        """Check an event of a node and the actions that it caused.

        `accepted` is False if the event is no RPC, or if the node handles only the subscriptions of the RPC.
        """
        record = self._records[node.id]
        _note_event(record, event, accepted)
        self._note_topics(record, event)
        for action in actions:
            if isinstance(action, Send) and action.peer in record.peers:
                for problem in self._wrong_parts(record, promise, action):
                    self._problem(now, node, f"{problem} to {action.peer}")
        if isinstance(event, RpcReceived) and event.rpc.partial is not None:
            topic = event.rpc.partial.topic
            if promise.opened(topic) > promise.max_opened:
                self._problem(now, node, f"peers have opened {promise.opened(topic)} groups in {topic!r}")
            if promise.opened_by(topic, event.peer) > promise.max_opened_by_peer:
                self._problem(now, node, f"{event.peer} has opened too many groups in {topic!r}")

    def _note_topics(self, record: _Record, event: Event) -> None:
        messages = event.rpc.messages if isinstance(event, RpcReceived) else ()
        for message in (event.message,) if isinstance(event, Publish) else messages:
            if message.topic in record.own:
                self._topics[message.id] = message.topic

    def _wrong_parts(self, record: _Record, promise: PartialPromise, send: Send) -> Iterator[str]:
        """Yield a description of each part of an RPC that the receiver must not get."""
        for message, via in zip(send.rpc.messages, send.vias, strict=True):
            if via not in ASKED_FOR and record.gets_parts(send.peer, message.topic):
                yield f"message {message.id}, in place of parts,"
        if send.rpc.control is not None:
            for ihave in send.rpc.control.ihave:
                if record.gets_parts(send.peer, ihave.topic):
                    yield f"IHAVE of {ihave.topic!r}, in place of parts,"
            for message_id in (each for part in send.rpc.control.idontwant for each in part.ids):
                topic = self._topics.get(message_id)
                if topic is not None and record.gets_no_idontwant(send.peer, topic):
                    yield f"IDONTWANT of {message_id}, though the peer would send parts,"
        if send.rpc.partial is not None:
            yield from _wrong_partial(record, promise, send.peer, send.rpc.partial)


def _note_event(record: _Record, event: Event, accepted: bool) -> None:
    match event:
        case PartialsChosen():
            record.own[event.topic] = event.use
        case PeerConnected():
            record.peers[event.peer] = _Peer(event.protocol)
        case PeerDisconnected():
            del record.peers[event.peer]
        case Leave():
            for peer in record.peers.values():
                peer.groups = {(topic, group) for topic, group in peer.groups if topic != event.topic}
        case RpcReceived():
            _note_rpc(record.peers[event.peer], event.rpc, accepted)
        case _:
            pass


def _note_rpc(peer: _Peer, rpc: Rpc, accepted: bool) -> None:
    if peer.features is None:
        has_features = accepted and peer.protocol == MESHSUB_13
        features = rpc.control.features if rpc.control is not None and has_features else ()
        peer.features = next(iter(features), Features())
    for change in rpc.subscriptions:
        if change.subscribe:
            peer.uses[change.topic] = change.partial
        else:
            peer.uses.pop(change.topic, None)
    if rpc.partial is not None and accepted:
        peer.groups.add((rpc.partial.topic, rpc.partial.group))


def _wrong_partial(record: _Record, promise: PartialPromise, peer: Any, partial: Partial) -> Iterator[str]:
    """Yield descriptions of a partial message, or of the parts in it, that a peer must not get."""
    own, use = record.own.get(partial.topic, _NONE), record.use(peer, partial.topic)
    about = own is not _NONE and (partial.topic, partial.group) in record.peers[peer].groups
    supports = own is _SUPPORTS and use is _SUPPORTS and promise.between_supporters
    gets_parts = record.gets_parts(peer, partial.topic)
    if partial.parts is not None and not gets_parts:
        yield "parts, which the peer does not request,"
    if not (gets_parts or record.gets_no_idontwant(peer, partial.topic) or supports or about):
        yield "a partial message, which the peer must not get,"
