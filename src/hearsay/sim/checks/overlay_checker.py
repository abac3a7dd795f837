"""The invariants of episub's overlay and trees; a part of the checker.

1. the views (active and passive list) are bounded, disjoint and without the node itself, and active neighbours are
   connected;
2. eager and lazy links together are the active list, and no link is both;
3. the queue of announcements, the missing list and the payload cache are within their bounds;
4. the hops in a copy are one more than those of the sending node, and IHAVE and answers to GRAFT name accepted
   messages;
5. neighbours are mutual when quiet (no part of episub in flight between the two);
6. the eager links of a topic are one shared spanning tree when quiet, after two successive messages of one source
   without a change of neighbours between or after them;
7. a message that a peer announced has arrived after the time for recovery, if the peer is still a neighbour;
8. no message that has arrived is requested;
9. a peer leaves the passive list only if it was tried (dialled, pinged or connected), becomes a neighbour, has left
   the topic, or makes room for another peer;
10. the LEAVEs of a node have growing numbers, also after a restart;
11. a peer that left a ping unanswered does not stay a neighbour.

5 to 7 and 11 are checked at the end of the run; 6 and 7 only if no message can be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from hearsay.core.language.actions import (
    Action,
    Deliver,
    Dial,
    MessagePublished,
    OverlayChange,
    OverlayChanged,
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
from hearsay.core.language.rpc import Control
from hearsay.core.language.state import OverlayState
from hearsay.core.shell.guarantees import OverlayPromise
from hearsay.core.shell.router import Router
from hearsay.sim.plan.plan import Plan
from hearsay.sim.reference.nodes import Network, SimNode

_CONNECTION_NEWS = (EventKind.SEND_FAILED, EventKind.PEER_DISCONNECTED, EventKind.PEER_CONNECTED)
Overlays: TypeAlias = Mapping[TopicId, OverlayState]


@dataclass(slots=True)
class _Record:
    """The record of one node since its last start."""

    promise: OverlayPromise
    hops: dict[Any, int] = field(default_factory=lambda: {})
    announced: dict[Any, tuple[Micros, Any, Any]] = field(default_factory=lambda: {})
    """Time, peer and topic of the first announcement of each message that has not arrived."""
    tried: set[Any] = field(default_factory=lambda: set())
    """Peers that were dialled, pinged or connected."""
    pinged_us: dict[Any, Micros] = field(default_factory=lambda: {})
    """Time of each peer's unanswered ping."""


class OverlayChecker:
    """Checks the overlays of all nodes."""

    def __init__(self, plan: Plan, problem: Callable[[Micros, SimNode, str], None]) -> None:
        scenario = plan.scenario
        self._problem = problem
        self._has_faults = bool(plan.faults)
        self._script = scenario.network.nodes if scenario.workload.inject > 1 else None
        limited = bool(scenario.links.uplink_mbit) or scenario.validation.active
        self._lossless = not (scenario.loss.rate_millionths or limited)
        self._records: dict[int, _Record] = {}
        self._left: dict[int, int] = {}
        """The number of each node's last LEAVE, kept over restarts."""
        self._changed_us: dict[Any, Micros] = {}
        """Time of the last change of any node's neighbours, by topic."""
        self._published: dict[Any, list[tuple[Micros, Any]]] = {}
        for publication in plan.publications:
            topic = plan.topics[publication.topic]
            self._published.setdefault(topic, []).append((publication.time_us, publication.publisher))

    def node_started(self, node: SimNode) -> None:
        assert node.router is not None
        promise = node.router.strategy.promises().overlay
        self._records.pop(node.id, None)
        if promise is not None:
            self._records[node.id] = _Record(promise)

    def handled(self, node: SimNode, event: Event, actions: list[Action], now: Micros) -> None:
        assert node.router is not None
        record = self._records.get(node.id)
        if record is None:
            return
        match event:
            case RpcReceived():
                if event.rpc.control is not None:
                    self._note_announced(node, record, event.peer, event.rpc.control.episub, now)
            case PeerConnected():
                record.tried.add(event.peer)
            case PeerDisconnected() | RoundTripMeasured():
                record.pinged_us.pop(event.peer, None)
            case Leave():
                self._leaving(node, actions, now)
            case _:
                pass
        if actions and record.promise.only_tried_leave and not isinstance(event, Leave):
            self._passive_removals(node, record, event, actions, now)
        for action in actions:
            match action:
                case Send():
                    self._sent(node, record, action, now)
                case MessagePublished():
                    record.hops[action.message.id] = 0
                case Deliver():
                    if action.received_from is not None:
                        record.hops[action.message.id] = action.message.hops or 1
                    record.announced.pop(action.message.id, None)
                case OverlayChanged(OverlayChange.NEIGHBOR_UP | OverlayChange.NEIGHBOR_DOWN):
                    self._changed_us[action.topic] = now
                    record.pinged_us.pop(action.peer, None)
                case Dial():
                    record.tried.add(action.peer)
                case Ping():
                    record.tried.add(action.peer)
                    record.pinged_us.setdefault(action.peer, now)
                case _:
                    pass
        self._views(node, node.router, node.router.strategy.overlays(), now)

    def finished(self, run: Network) -> None:
        under_way = in_flight(run, lambda control: control.episub, _CONNECTION_NEWS)
        for node in run.nodes:
            if node.router is not None and node.id in self._records:
                overlays = node.router.strategy.overlays()
                self._mutual(run, node, overlays, under_way)
                self._require_pongs(run, node, overlays)
                if self._lossless:
                    self._require_messages(run, node, overlays)
        if self._lossless and not self._has_faults:
            for topic, published in sorted(self._published.items()):
                sources = {publisher for _, publisher in published}
                if sources == {self._script}:
                    continue  # it sends a message to several nodes, so even a split tree may reach all
                if len(published) > 1 and len(sources) == 1 and published[-2][0] > self._changed_us.get(topic, 0):
                    self._tree(run, topic)

    def _note_announced(
        self, node: SimNode, record: _Record, peer: Any, parts: tuple[EpisubPart, ...], now: Micros
    ) -> None:
        assert node.router is not None
        for part in parts:
            if isinstance(part, EpisubIHave) and part.topic in node.router.joined:
                for message_id in part.ids:
                    if message_id not in record.hops and message_id not in node.router.known:
                        record.announced.setdefault(message_id, (now, peer, part.topic))

    def _passive_removals(
        self, node: SimNode, record: _Record, event: Event, actions: list[Action], now: Micros
    ) -> None:
        """Check the peers that leave the passive list. The caller leaves out a node that leaves the topic, because
        that deletes the whole list."""
        changes = [action for action in actions if isinstance(action, OverlayChanged)]
        gone: set[Any] = {each.peer for each in changes if each.change is OverlayChange.PASSIVE_REMOVED}
        if not gone:
            return
        gone -= {each.peer for each in changes if each.change is OverlayChange.NEIGHBOR_UP}
        room_for = sum(each.change is OverlayChange.PASSIVE_ADDED for each in changes)
        if isinstance(event, RpcReceived) and event.rpc.control is not None:
            gone -= {part.source for part in event.rpc.control.episub if isinstance(part, EpisubLeave)}
        untried = sorted(gone - record.tried)
        if len(untried) > room_for:
            self._problem(now, node, f"{untried} left the passive list untried")

    def _leaving(self, node: SimNode, actions: list[Action], now: Micros) -> None:
        sent: set[int] = set()
        for action in actions:
            if isinstance(action, Send) and action.rpc.control is not None:
                sent |= {part.sequence for part in action.rpc.control.episub if isinstance(part, EpisubLeave)}
        if sent and min(sent) <= self._left.get(node.id, -1):
            self._problem(now, node, f"LEAVE has number {min(sent)}, an earlier one had {self._left[node.id]}")
        self._left[node.id] = max(sent, default=self._left.get(node.id, -1))

    def _sent(self, node: SimNode, record: _Record, action: Send, now: Micros) -> None:
        for message, via in zip(action.rpc.messages, action.vias, strict=True):
            if via in (Via.EAGER, Via.LAZY) and message.hops != record.hops.get(message.id, -1) + 1:
                here = record.hops.get(message.id)
                self._problem(now, node, f"message {message.id} sent with {message.hops} hops, it came with {here}")
        if action.rpc.control is not None:
            for part in action.rpc.control.episub:
                if isinstance(part, EpisubIHave):
                    for message_id in part.ids:
                        if message_id not in record.hops:
                            self._problem(now, node, f"IHAVE of message {message_id}, which it never accepted")
                elif isinstance(part, EpisubGraft):
                    self._require_missing(node, part, now)

    def _views(self, node: SimNode, router: Router, overlays: Overlays, now: Micros) -> None:
        connected = router.connected.keys()
        for topic, overlay in overlays.items():
            active, passive = overlay.active, overlay.passive
            if not active <= connected:
                self._problem(now, node, f"active list of {topic!r} holds a peer that is not connected")
            if not _halves(overlay.eager, overlay.lazy, active):
                self._problem(now, node, f"eager and lazy links of {topic!r} do not divide the active list")
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
                if peer in self._records and node.id not in other.router.strategy.overlays()[topic].active:
                    self._problem(run.now, node, f"neighbour {peer} in {topic!r} is not mutual")

    def _tree(self, run: Network, topic: Any) -> None:
        """Check for one spanning tree: connected, and one edge fewer than nodes."""
        edges: set[tuple[Any, Any]] = set()
        members: list[SimNode] = []
        for node in run.nodes:
            overlay = node.router.strategy.overlays().get(topic) if node.router is not None else None
            if overlay is not None:
                if not self._records[node.id].promise.one_tree:
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

    def _require_missing(self, node: SimNode, part: EpisubGraft, now: Micros) -> None:
        assert node.router is not None
        for message_id in part.ids:
            if message_id in node.router.known or message_id in node.router.pending:
                self._problem(now, node, f"GRAFT asks for message {message_id}, which has arrived")

    def _require_pongs(self, run: Network, node: SimNode, overlays: Overlays) -> None:
        record = self._records[node.id]
        for peer, since_us in sorted(record.pinged_us.items()):
            neighbour = any(peer in overlay.active for overlay in overlays.values())
            if neighbour and run.now - since_us > record.promise.ping_answer_us:
                self._problem(run.now, node, f"neighbour {peer} left a ping unanswered, and stays")

    def _require_messages(self, run: Network, node: SimNode, overlays: Overlays) -> None:
        record = self._records[node.id]
        for message_id, (since, peer, topic) in sorted(record.announced.items()):
            lasting = topic in overlays and peer in overlays[topic].active
            late = run.now - since > record.promise.recovery_us
            if lasting and late and self._changed_us.get(topic, 0) < since:
                self._problem(run.now, node, f"message {message_id} is missing, though {peer} announced it")


def _halves(one: Set[Any], other: Set[Any], whole: Set[Any]) -> bool:
    """Return whether `one` and `other` are disjoint and their union is `whole`, without creating a set."""
    return one <= whole and other <= whole and one.isdisjoint(other) and len(one) + len(other) == len(whole)


def in_flight(
    run: Network, concerns: Callable[[Control], object], news: Collection[EventKind]
) -> set[tuple[int, int]]:
    """Return the pairs of nodes between which an RPC is in flight whose control `concerns` accepts, or for which an
    event of a kind in `news` is queued."""
    pairs: set[tuple[int, int]] = set()
    for _, node, kind, source, _, _, event, _ in run.waiting():
        if kind == EventKind.RPC_RECEIVED:
            control = event.rpc.control
            if control is not None and concerns(control):
                pairs.add((source, node))
        elif kind in news:
            pairs.add((node, source))
    return pairs
