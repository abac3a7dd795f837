"""The invariants of routers with partial messages (gossipsub 1.3); a part of the checker.

1. a partial message goes only to a peer whose first RPC announced the extension, in a topic for which the node's
   application uses partial messages. Parts go only to a peer that requests parts. Metadata go only to a peer that
   sent a partial message of the group, or if one of the two requests parts that the other requests or supports (or
   if both support parts and the router sends metadata to supporters, too);
2. a peer that requests parts gets no IHAVE, and full messages only on request;
3. a peer that requests or supports parts gets no IDONTWANT from a node that requests them;
4. the number of groups that peers open is bounded.
"""

from __future__ import annotations

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
from hearsay.core.shell.guarantees import PartialPromise
from hearsay.sim.reference.nodes import SimNode

_NONE, _SUPPORTS, _REQUESTS = PartialUse.NONE, PartialUse.SUPPORTS, PartialUse.REQUESTS
ASKED_FOR = (Via.IWANT, Via.LAZY)


@dataclass(slots=True)
class _Peer:
    """A connected peer."""

    protocol: str
    features: Features | None = None
    """None until its first RPC."""
    uses: dict[Any, PartialUse] = field(default_factory=lambda: {})
    groups: set[tuple[Any, bytes]] = field(default_factory=lambda: set())
    """Topic and group of the partial messages that the peer sent."""


@dataclass(slots=True)
class _Record:
    """The topics and peers of one node."""

    own: dict[Any, PartialUse] = field(default_factory=lambda: {})
    peers: dict[Any, _Peer] = field(default_factory=lambda: {})

    def use(self, peer: Any, topic: TopicId) -> PartialUse:
        known = self.peers[peer]
        knows = known.features is not None and known.features.partial_messages
        return known.uses.get(topic, _NONE) if knows else _NONE

    def gets_parts(self, peer: Any, topic: TopicId) -> bool:
        return self.own.get(topic, _NONE) is not _NONE and self.use(peer, topic) is _REQUESTS

    def gets_no_idontwant(self, peer: Any, topic: TopicId) -> bool:
        return self.own.get(topic, _NONE) is _REQUESTS and self.use(peer, topic) is not _NONE


class PartialChecker:
    """Checks the partial messages of all nodes."""

    def __init__(self, problem: Callable[[Micros, SimNode, str], None]) -> None:
        self._problem = problem
        self._records: dict[int, _Record] = {}
        self._topics: dict[MessageId, TopicId] = {}
        """The topic of each message that any node has seen in a topic with parts."""

    def node_started(self, node: SimNode) -> None:
        self._records[node.id] = _Record()

    def handled(
        self,
        node: SimNode,
        promise: PartialPromise,
        event: Event,
        accepted: bool,
        actions: list[Action],
        now: Micros,
    ) -> None:
        """Check an event; `accepted` is False if the node accepts only subscriptions from the peer."""
        record = self._records[node.id]
        _learn(record, event, accepted)
        self._note_topics(record, event)
        for action in actions:
            if isinstance(action, Send) and action.peer in record.peers:
                for problem in self._misled(record, promise, action):
                    self._problem(now, node, f"{problem} to {action.peer}")
        if isinstance(event, RpcReceived) and event.rpc.partial is not None:
            topic = event.rpc.partial.topic
            if promise.opened(topic) > promise.most:
                self._problem(now, node, f"peers have opened {promise.opened(topic)} groups in {topic!r}")
            if promise.opened_by(topic, event.peer) > promise.most_of_one:
                self._problem(now, node, f"{event.peer} has opened too many groups in {topic!r}")

    def _note_topics(self, record: _Record, event: Event) -> None:
        messages = event.rpc.messages if isinstance(event, RpcReceived) else ()
        for message in (event.message,) if isinstance(event, Publish) else messages:
            if message.topic in record.own:
                self._topics[message.id] = message.topic

    def _misled(self, record: _Record, promise: PartialPromise, send: Send) -> Iterator[str]:
        """Yield the parts of an RPC that its receiver should not get."""
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
                    yield f"IDONTWANT of {message_id}, of which it would send parts,"
        if send.rpc.partial is not None:
            yield from _wrong_partial(record, promise, send.peer, send.rpc.partial)


def _learn(record: _Record, event: Event, accepted: bool) -> None:
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
    own, use = record.own.get(partial.topic, _NONE), record.use(peer, partial.topic)
    about = own is not _NONE and (partial.topic, partial.group) in record.peers[peer].groups
    supports = own is _SUPPORTS and use is _SUPPORTS and promise.tells_supporters
    if partial.parts is not None and not record.gets_parts(peer, partial.topic):
        yield "parts that it does not request"
    wanted = record.gets_parts(peer, partial.topic) or record.gets_no_idontwant(peer, partial.topic)
    if not (wanted or supports or about):
        yield "a partial message that is not for it"
