"""What must hold of routers with partial messages (gossipsub 1.3); a part of the checker.

1. a partial message goes to a peer that has said in its first RPC that it knows them, in a topic that an application
   has chosen; parts only to who requests them, metadata to who requests or supports them if one of both requests, or
   to who spoke of the group without being in the topic;
2. no message that is not asked for, and no IHAVE, goes to a peer that requests parts;
3. what peers open is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hearsay.core.language.actions import Action, Send, Via
from hearsay.core.language.events import Event, Leave, PartialsChosen, PeerConnected, PeerDisconnected, RpcReceived
from hearsay.core.language.identifiers import Micros, TopicId
from hearsay.core.language.rpc import MESHSUB_13, Features, Partial, PartialUse, Rpc
from hearsay.core.shell.promises import PartialPromise
from hearsay.sim.reference.nodes import SimNode

_NONE, _SUPPORTS, _REQUESTS = PartialUse.NONE, PartialUse.SUPPORTS, PartialUse.REQUESTS
_ASKED_FOR = (Via.IWANT, Via.LAZY)


@dataclass(slots=True)
class _Peer:
    protocol: str
    topics: set[Any]
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


class PartialChecker:
    def __init__(self, problem: Callable[[Micros, SimNode, str], None]) -> None:
        self._problem = problem
        self._books: dict[int, _Book] = {}

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
        for action in actions:
            if isinstance(action, Send) and action.peer in book.peers:
                for problem in _misled(book, action):
                    self._problem(now, node, f"{problem} to {action.peer}")
        if isinstance(event, RpcReceived) and event.rpc.partial is not None:
            topic = event.rpc.partial.topic
            if promise.opened(topic) > promise.most:
                self._problem(now, node, f"peers have opened {promise.opened(topic)} groups in {topic!r}")
            if promise.opened_by(topic, event.peer) > promise.most_of_one:
                self._problem(now, node, f"{event.peer} has opened too many groups in {topic!r}")


def _learn(book: _Book, event: Event, heard: bool) -> None:
    match event:
        case PartialsChosen():
            book.own[event.topic] = event.use
        case PeerConnected():
            book.peers[event.peer] = _Peer(event.protocol, set(event.subscribed))
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
            peer.topics.add(change.topic)
            peer.uses[change.topic] = change.partial
        else:
            peer.topics.discard(change.topic)
            peer.uses.pop(change.topic, None)
    if rpc.partial is not None and heard:
        peer.spoke_of.add((rpc.partial.topic, rpc.partial.group))


def _misled(book: _Book, send: Send) -> Iterator[str]:
    """What a peer is sent that it should not be."""
    for message, via in zip(send.rpc.messages, send.vias, strict=True):
        if via not in _ASKED_FOR and book.gets_parts(send.peer, message.topic):
            yield f"message {message.id}, in place of parts,"
    if send.rpc.control is not None:
        for ihave in send.rpc.control.ihave:
            if book.gets_parts(send.peer, ihave.topic):
                yield f"IHAVE of {ihave.topic!r}, in place of parts,"
    if send.rpc.partial is not None:
        yield from _wrong_partial(book, send.peer, send.rpc.partial)


def _wrong_partial(book: _Book, peer: Any, partial: Partial) -> Iterator[str]:
    own, use = book.own.get(partial.topic, _NONE), book.use_of(peer, partial.topic)
    known = book.peers[peer]
    spoke = (partial.topic, partial.group) in known.spoke_of
    exchanges = (own is _REQUESTS and use is not _NONE) or (own is _SUPPORTS and use is _REQUESTS)
    if partial.parts is not None and not book.gets_parts(peer, partial.topic):
        yield "parts that it does not request"
    if not exchanges and not (own is not _NONE and spoke and partial.topic not in known.topics):
        yield "a partial message that is not for it"
