"""What must hold of routers with partial messages (gossipsub 1.3); a part of the checker.

1. a partial message goes to a peer that has said in its first RPC that it knows them, in a topic that an application
   has chosen; parts only to who requests them, metadata to who requests or supports them if one of both requests (or
   all supporters are told), or to who spoke of the group;
2. no message that is not asked for, and no IHAVE, goes to a peer that requests parts;
3. no IDONTWANT goes to a peer that supports the parts that this side requests;
4. what peers open is bounded.
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
from hearsay.core.shell.promises import PartialPromise
from hearsay.sim.reference.nodes import SimNode

_NONE, _SUPPORTS, _REQUESTS = PartialUse.NONE, PartialUse.SUPPORTS, PartialUse.REQUESTS
_ASKED_FOR = (Via.IWANT, Via.LAZY)


@dataclass(slots=True)
class _Peer:
    protocol: str
    features: Features | None = None
    """None until its first RPC."""
    uses: dict[Any, PartialUse] = field(default_factory=lambda: {})
    spoke_of: set[tuple[Any, bytes]] = field(default_factory=lambda: set())


@dataclass(slots=True)
class _Book:
    own: dict[Any, PartialUse] = field(default_factory=lambda: {})
    peers: dict[Any, _Peer] = field(default_factory=lambda: {})

    def use_of(self, peer: Any, topic: TopicId) -> PartialUse:
        known = self.peers[peer]
        knows = known.features is not None and known.features.partial_messages
        return known.uses.get(topic, _NONE) if knows else _NONE

    def gets_parts(self, peer: Any, topic: TopicId) -> bool:
        return self.own.get(topic, _NONE) is not _NONE and self.use_of(peer, topic) is _REQUESTS

    def spares(self, peer: Any, topic: TopicId) -> bool:
        return self.own.get(topic, _NONE) is _REQUESTS and self.use_of(peer, topic) is not _NONE


class PartialChecker:
    def __init__(self, problem: Callable[[Micros, SimNode, str], None]) -> None:
        self._problem = problem
        self._books: dict[int, _Book] = {}
        self._topics: dict[MessageId, TopicId] = {}
        """Of all messages that any node has seen in a topic that goes in parts."""

    def node_started(self, node: SimNode) -> None:
        self._books[node.id] = _Book()

    def handled(
        self,
        node: SimNode,
        promise: PartialPromise,
        event: Event,
        heard: bool,
        actions: list[Action],
        now: Micros,
    ) -> None:
        """`heard`: whether the node looks at what a peer says."""
        book = self._books[node.id]
        _learn(book, event, heard)
        self._note_topics(book, event)
        for action in actions:
            if isinstance(action, Send) and action.peer in book.peers:
                for problem in self._misled(book, promise, action):
                    self._problem(now, node, f"{problem} to {action.peer}")
        if isinstance(event, RpcReceived) and event.rpc.partial is not None:
            topic = event.rpc.partial.topic
            if promise.opened(topic) > promise.most:
                self._problem(now, node, f"peers have opened {promise.opened(topic)} groups in {topic!r}")
            if promise.opened_by(topic, event.peer) > promise.most_of_one:
                self._problem(now, node, f"{event.peer} has opened too many groups in {topic!r}")

    def _note_topics(self, book: _Book, event: Event) -> None:
        messages = event.rpc.messages if isinstance(event, RpcReceived) else ()
        for message in (event.message,) if isinstance(event, Publish) else messages:
            if message.topic in book.own:
                self._topics[message.id] = message.topic

    def _misled(self, book: _Book, promise: PartialPromise, send: Send) -> Iterator[str]:
        """What a peer is sent that it should not be."""
        for message, via in zip(send.rpc.messages, send.vias, strict=True):
            if via not in _ASKED_FOR and book.gets_parts(send.peer, message.topic):
                yield f"message {message.id}, in place of parts,"
        if send.rpc.control is not None:
            for ihave in send.rpc.control.ihave:
                if book.gets_parts(send.peer, ihave.topic):
                    yield f"IHAVE of {ihave.topic!r}, in place of parts,"
            for message_id in (each for part in send.rpc.control.idontwant for each in part.ids):
                topic = self._topics.get(message_id)
                if topic is not None and book.spares(send.peer, topic):
                    yield f"IDONTWANT of {message_id}, of which it would send parts,"
        if send.rpc.partial is not None:
            yield from _wrong_partial(book, promise, send.peer, send.rpc.partial)


def _learn(book: _Book, event: Event, heard: bool) -> None:
    match event:
        case PartialsChosen():
            book.own[event.topic] = event.use
        case PeerConnected():
            book.peers[event.peer] = _Peer(event.protocol)
        case PeerDisconnected():
            del book.peers[event.peer]
        case Leave():
            for peer in book.peers.values():
                peer.spoke_of = {(topic, group) for topic, group in peer.spoke_of if topic != event.topic}
        case RpcReceived():
            _listen(book.peers[event.peer], event.rpc, heard)
        case _:
            pass


def _listen(peer: _Peer, rpc: Rpc, heard: bool) -> None:
    if peer.features is None:
        said = rpc.control.features if rpc.control is not None and heard and peer.protocol == MESHSUB_13 else ()
        peer.features = next(iter(said), Features())
    for change in rpc.subscriptions:
        if change.subscribe:
            peer.uses[change.topic] = change.partial
        else:
            peer.uses.pop(change.topic, None)
    if rpc.partial is not None and heard:
        peer.spoke_of.add((rpc.partial.topic, rpc.partial.group))


def _wrong_partial(book: _Book, promise: PartialPromise, peer: Any, partial: Partial) -> Iterator[str]:
    own, use = book.own.get(partial.topic, _NONE), book.use_of(peer, partial.topic)
    spoke = own is not _NONE and (partial.topic, partial.group) in book.peers[peer].spoke_of
    supports = own is _SUPPORTS and use is _SUPPORTS and promise.tells_supporters
    if partial.parts is not None and not book.gets_parts(peer, partial.topic):
        yield "parts that it does not request"
    if not (book.gets_parts(peer, partial.topic) or book.spares(peer, partial.topic) or supports or spoke):
        yield "a partial message that is not for it"
