"""What must hold of episub's overlay and trees; a part of the checker.

1. views are bounded, disjoint and without the node itself, and active neighbours are connected;
2. eager and lazy links together are the active list, and no link is both;
3. the queue of announcements, the missing list and the payload cache are within their bounds;
4. a copy says one hop more than the node is from the publisher, and IHAVE and GRAFT answers name accepted messages;
5. neighbours are mutual when quiet (nothing of episub under way between the two);
6. the eager links of a topic are one shared spanning tree when quiet, after two messages in a row of one source that
   no change of neighbours came between or followed;
7. a message that a lasting neighbour announced is here, or was asked for again and again until it was given up;
8. nobody is asked for what has arrived, whatever became of it;
9. nobody leaves the passive list untried: only who was dialled, pinged or connected, who makes room for another or
   becomes a neighbour, and who has left;
10. the LEAVEs of a node have growing numbers, also after it was started again;
11. nobody stays a neighbour who left a ping unanswered.

5 to 7 and 11 are looked at when the run ends; 6 and 7 only if no message can be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from hearsay.core.language.actions import (
    Action,
    Deliver,
    Dial,
    MessagePublished,
    NeighborDown,
    NeighborUp,
    PassiveAdded,
    PassiveRemoved,
    Ping,
    Send,
    Via,
)
from hearsay.core.language.episub_parts import EpisubGraft, EpisubIHave, EpisubLeave, EpisubPart
from hearsay.core.language.events import (
    Event,
    EventKind,
    Leave,
    PeerConnected,
    PeerDisconnected,
    RoundTripMeasured,
    RpcReceived,
)
from hearsay.core.language.identifiers import Micros, TopicId
from hearsay.core.language.state_table import OverlayState
from hearsay.core.shell.promises import OverlayPromise
from hearsay.core.shell.router import Router
from hearsay.sim.plan.plan import Plan
from hearsay.sim.reference.nodes import Network, SimNode

_CONNECTION_NEWS = (EventKind.SEND_FAILED, EventKind.PEER_DISCONNECTED, EventKind.PEER_CONNECTED)
Overlays: TypeAlias = Mapping[TopicId, OverlayState]


@dataclass(slots=True)
class _Book:
    """What is known of one node since its last start."""

    promise: OverlayPromise
    hops: dict[Any, int] = field(default_factory=lambda: {})
    announced: dict[Any, tuple[Micros, Any, Any]] = field(default_factory=lambda: {})
    """Unknown messages: when they were first announced, by whom, in which topic."""
    tried: set[Any] = field(default_factory=lambda: set())
    """Peers that were dialled, pinged or connected."""
    pinged_us: dict[Any, Micros] = field(default_factory=lambda: {})
    """Since when peers owe the answer to a ping."""


class OverlayChecker:
    def __init__(self, plan: Plan, problem: Callable[[Micros, SimNode, str], None]) -> None:
        scenario = plan.scenario
        self._problem = problem
        self._has_faults = bool(plan.faults)
        self._script = scenario.network.nodes if scenario.workload.inject > 1 else None
        limited = bool(scenario.links.uplink_mbit) or scenario.validation.active
        self._lossless = not (scenario.loss.rate_millionths or limited)
        self._books: dict[int, _Book] = {}
        self._left: dict[int, int] = {}
        """The number of each node's last LEAVE, whatever happened to it since."""
        self._changed_us: dict[Any, Micros] = {}
        self._published: dict[Any, list[tuple[Micros, Any]]] = {}
        for publication in plan.publications:
            topic = plan.topics[publication.topic]
            self._published.setdefault(topic, []).append((publication.time_us, publication.publisher))

    def node_started(self, node: SimNode) -> None:
        assert node.router is not None
        promise = node.router.strategy.promises().overlay
        self._books.pop(node.id, None)
        if promise is not None:
            self._books[node.id] = _Book(promise)

    def handled(self, node: SimNode, event: Event, actions: list[Action], now: Micros) -> None:
        assert node.router is not None
        book = self._books.get(node.id)
        if book is None:
            return
        match event:
            case RpcReceived():
                if event.rpc.control is not None:
                    self._note_announced(node, book, event.peer, event.rpc.control.episub, now)
            case PeerConnected():
                book.tried.add(event.peer)
            case PeerDisconnected() | RoundTripMeasured():
                book.pinged_us.pop(event.peer, None)
            case Leave():
                self._leaving(node, actions, now)
            case _:
                pass
        if actions and book.promise.only_tried_leave and not isinstance(event, Leave):
            self._passive_removals(node, book, event, actions, now)
        for action in actions:
            match action:
                case Send():
                    self._sent(node, book, action, now)
                case MessagePublished():
                    book.hops[action.message.id] = 0
                case Deliver():
                    if action.received_from is not None:
                        book.hops[action.message.id] = action.message.hops or 1
                    book.announced.pop(action.message.id, None)
                case NeighborUp() | NeighborDown():
                    self._changed_us[action.topic] = now
                    book.pinged_us.pop(action.peer, None)
                case Dial():
                    book.tried.add(action.peer)
                case Ping():
                    book.tried.add(action.peer)
                    book.pinged_us.setdefault(action.peer, now)
                case _:
                    pass
        self._views(node, node.router, node.router.strategy.overlays(), now)

    def finished(self, run: Network) -> None:
        under_way = _episub_under_way(run)
        for node in run.nodes:
            if node.router is not None and node.id in self._books:
                overlays = node.router.strategy.overlays()
                self._mutual(run, node, overlays, under_way)
                self._nobody_silent(run, node, overlays)
                if self._lossless:
                    self._nothing_missing(run, node, overlays)
        if self._lossless and not self._has_faults:
            for topic, published in sorted(self._published.items()):
                sources = {publisher for _, publisher in published}
                if sources == {self._script}:
                    continue  # it hands a message to several nodes at once, so who is cut off may miss nothing
                if len(published) > 1 and len(sources) == 1 and published[-2][0] > self._changed_us.get(topic, 0):
                    self._tree(run, topic)

    def _note_announced(
        self, node: SimNode, book: _Book, peer: Any, parts: tuple[EpisubPart, ...], now: Micros
    ) -> None:
        assert node.router is not None
        for part in parts:
            if isinstance(part, EpisubIHave) and part.topic in node.router.joined:
                for message_id in part.ids:
                    if message_id not in book.hops and message_id not in node.router.known:
                        book.announced.setdefault(message_id, (now, peer, part.topic))

    def _passive_removals(self, node: SimNode, book: _Book, event: Event, actions: list[Action], now: Micros) -> None:
        """Where no topic is left: with it the whole list goes."""
        gone: set[Any] = {action.peer for action in actions if isinstance(action, PassiveRemoved)}
        if not gone:
            return
        gone -= {action.peer for action in actions if isinstance(action, NeighborUp)}
        room_for = sum(isinstance(action, PassiveAdded) for action in actions)
        if isinstance(event, RpcReceived) and event.rpc.control is not None:
            gone -= {part.source for part in event.rpc.control.episub if isinstance(part, EpisubLeave)}
        untried = sorted(gone - book.tried)
        if len(untried) > room_for:
            self._problem(now, node, f"{untried} left the passive list untried")

    def _leaving(self, node: SimNode, actions: list[Action], now: Micros) -> None:
        said: set[int] = set()
        for action in actions:
            if isinstance(action, Send) and action.rpc.control is not None:
                said |= {part.sequence for part in action.rpc.control.episub if isinstance(part, EpisubLeave)}
        if said and min(said) <= self._left.get(node.id, -1):
            self._problem(now, node, f"LEAVE has number {min(said)}, an earlier one had {self._left[node.id]}")
        self._left[node.id] = max(said, default=self._left.get(node.id, -1))

    def _sent(self, node: SimNode, book: _Book, action: Send, now: Micros) -> None:
        for message, via in zip(action.rpc.messages, action.vias, strict=True):
            if via in (Via.EAGER, Via.LAZY) and message.hops != book.hops.get(message.id, -1) + 1:
                here = book.hops.get(message.id)
                self._problem(now, node, f"message {message.id} sent with {message.hops} hops, it came with {here}")
        if action.rpc.control is not None:
            for part in action.rpc.control.episub:
                if isinstance(part, EpisubIHave):
                    for message_id in part.ids:
                        if message_id not in book.hops:
                            self._problem(now, node, f"IHAVE of message {message_id}, which it never accepted")
                elif isinstance(part, EpisubGraft):
                    self._asks_for_the_missing(node, part, now)

    def _views(self, node: SimNode, router: Router, overlays: Overlays, now: Micros) -> None:
        connected = router.connected.keys()
        for topic, overlay in overlays.items():
            active, passive = overlay.active, overlay.passive
            if not active <= connected:
                self._problem(now, node, f"active list of {topic!r} holds a peer that is not connected")
            if not _halves(overlay.eager, overlay.lazy, active):
                self._problem(now, node, f"eager and lazy links of {topic!r} are not the active list in two")
            limit = overlay.active_limit
            if limit is not None and len(active) > limit:
                self._problem(now, node, f"active list of {topic!r} has {len(active)} peers, above {limit}")
            limit = overlay.passive_limit
            if limit is not None and len(passive) > limit:
                self._problem(now, node, f"passive list of {topic!r} has {len(passive)} peers, above {limit}")
            if not active.isdisjoint(passive):
                self._problem(now, node, f"views of {topic!r} share a peer")
            if node.id in active or node.id in passive:
                self._problem(now, node, f"views of {topic!r} hold the node itself")
            for what, length, limit in overlay.bounded:
                if length > limit:
                    self._problem(now, node, f"{length} {what} of {topic!r}, above {limit}")

    def _mutual(self, run: Network, node: SimNode, overlays: Overlays, under_way: set[tuple[int, int]]) -> None:
        for topic, overlay in overlays.items():
            peers: list[Any] = sorted(overlay.active)
            for number in peers:
                peer: int = number
                other = run.nodes[peer]
                link = node.links.get(peer)
                if other.router is None or link is None or link.dead or not (link.open and link.twin.open):
                    continue
                if (node.id, peer) in under_way or (peer, node.id) in under_way:
                    continue
                if peer in self._books and node.id not in other.router.strategy.overlays()[topic].active:
                    self._problem(run.now, node, f"neighbour {peer} in {topic!r} is not mutual")

    def _tree(self, run: Network, topic: Any) -> None:
        """One spanning tree: connected, and one edge fewer than nodes."""
        edges: set[tuple[Any, Any]] = set()
        members: list[SimNode] = []
        for node in run.nodes:
            overlay = node.router.strategy.overlays().get(topic) if node.router is not None else None
            if overlay is not None:
                if not self._books[node.id].promise.one_tree:
                    return
                members.append(node)
                eager: list[Any] = sorted(overlay.eager)
                edges |= {(min(node.id, peer), max(node.id, peer)) for peer in eager}
        if not members:
            return
        roots = {node.id: node.id for node in members}

        def root(number: Any) -> Any:
            while roots[number] != number:
                number = roots[number]
            return number

        for one, other in sorted(edges):
            if one in roots and other in roots:
                roots[root(one)] = root(other)
        parts = len({root(node.id) for node in members})
        if parts > 1 or len(edges) != len(members) - 1:
            what = f"eager links of {topic!r} are no tree: {len(edges)} edges, {parts} parts, {len(members)} nodes"
            self._problem(run.now, members[0], what)

    def _asks_for_the_missing(self, node: SimNode, part: EpisubGraft, now: Micros) -> None:
        assert node.router is not None
        for message_id in part.ids:
            if message_id in node.router.known or message_id in node.router.pending:
                self._problem(now, node, f"GRAFT asks for message {message_id}, which has arrived")

    def _nobody_silent(self, run: Network, node: SimNode, overlays: Overlays) -> None:
        book = self._books[node.id]
        for peer, since_us in sorted(book.pinged_us.items()):
            neighbour = any(peer in overlay.active for overlay in overlays.values())
            if neighbour and run.now - since_us > book.promise.ping_answer_us:
                self._problem(run.now, node, f"neighbour {peer} left a ping unanswered, and stays")

    def _nothing_missing(self, run: Network, node: SimNode, overlays: Overlays) -> None:
        book = self._books[node.id]
        for message_id, (since, peer, topic) in sorted(book.announced.items()):
            lasting = topic in overlays and peer in overlays[topic].active
            late = run.now - since > book.promise.recovery_us
            if lasting and late and self._changed_us.get(topic, 0) < since:
                self._problem(run.now, node, f"message {message_id} is missing, though {peer} announced it")


def _halves(one: Set[Any], other: Set[Any], whole: Set[Any]) -> bool:
    """Whether each of a whole is in exactly one of two, which hold nothing else; no set is made for that."""
    return one <= whole and other <= whole and one.isdisjoint(other) and len(one) + len(other) == len(whole)


def _episub_under_way(run: Network) -> set[tuple[int, int]]:
    """Return the pairs of sender and receiver with a part of episub or news of a connection that is in flight."""
    pairs: set[tuple[int, int]] = set()
    for _, node, kind, source, _, _, event, _ in run.waiting():
        if kind == EventKind.RPC_RECEIVED:
            control = event.rpc.control
            if control is not None and control.episub:
                pairs.add((source, node))
        elif kind in _CONNECTION_NEWS:
            pairs.add((node, source))
    return pairs
