"""The invariants of episub's overlay and trees; a part of the checker.

A neighbour of a node in a topic is a peer in the node's active list of the topic.

1. the active and the passive list of a node are bounded, have no peer in common, and do not contain the node itself;
   all neighbours are connected;
2. each neighbour has either an eager or a lazy link, and other peers have none;
3. the queue of announcements, the missing list and the payload cache are within their bounds;
4. the hops of a copy are one more than those of the message at the sending node; IHAVEs and answers to GRAFT name
   only messages that the sending node has accepted;
5. if a node is a neighbour of another node, the other node is a neighbour of the first, unless a part of episub is in
   flight between them;
6. the eager links of all nodes in a topic are one spanning tree, if all messages of the topic have one source and no
   neighbours have changed since the last message but one;
7. a message that a neighbour announced has arrived when the time for recovery is over;
8. a node requests no message that has arrived;
9. a peer leaves the passive list only if it was tried (dialled, pinged or connected), becomes a neighbour, has left
   the topic, or makes room for another peer;
10. the sequence numbers of the LEAVEs of a node grow, also after a restart;
11. a peer that did not answer a ping in time does not remain a neighbour.

5 to 7 and 11 are checked at the end of the run, unless control messages may be lost. 6 and 7 are checked only in runs
without loss, without bounded uplinks and without validation; 6 only in runs that have no faults either. 6 and 9 are
checked only for routers that promise them (`OverlayPromise.one_tree` and `only_tried_leave`). 6 is not checked if the
script sends each message to several nodes, and 9 not when the node itself leaves the topic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

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
from hearsay.core.language.episub_parts import EpisubGraft, EpisubIHave, EpisubLeave
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
from hearsay.core.shell.guarantees import OverlayPromise, OverlayState
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
    """The hops of each message that the node published or delivered."""
    announced: dict[Any, tuple[Micros, Any, Any]] = field(default_factory=lambda: {})
    """For each message that has not arrived, the time, the peer and the topic of its first announcement."""
    tried: set[Any] = field(default_factory=lambda: set())
    """Peers that were dialled, pinged or connected."""
    pinged_us: dict[Any, Micros] = field(default_factory=lambda: {})
    """For each peer with an unanswered ping, the time of the first ping since the last answer."""


class OverlayChecker:
    """A part of the checker: it checks the overlays and trees of all nodes."""

    def __init__(self, plan: Plan, problem: Callable[[Micros, SimNode, str], None]) -> None:
        scenario = plan.scenario
        self._problem = problem
        self._has_faults = bool(plan.faults)
        self._script = scenario.network.nodes if scenario.workload.inject > 1 else None
        limited = bool(scenario.links.uplink_mbit) or scenario.validation.active
        self._lossless = not (scenario.loss.rate_millionths or limited)
        self._records: dict[int, _Record] = {}
        self._last_leave: dict[int, int] = {}
        """The sequence number of each node's last LEAVE, also from before a restart."""
        self._changed_us: dict[Any, Micros] = {}
        """For each topic, the time at which the neighbours of some node last changed."""
        self._published: defaultdict[Any, list[tuple[Micros, Any]]] = defaultdict(list)
        """For each topic, the time and the publisher of each of its messages."""
        for publication in plan.publications:
            self._published[plan.topics[publication.topic]].append((publication.time_us, publication.publisher))

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
                self._note_announced(node.router, record, event, now)
            case PeerConnected():
                record.tried.add(event.peer)
            case PeerDisconnected() | RoundTripMeasured():
                record.pinged_us.pop(event.peer, None)
            case Leave():
                self._require_growing_numbers(node, actions, now)
            case _:
                pass
        if actions and record.promise.only_tried_leave and not isinstance(event, Leave):
            self._require_tried(node, record, event, actions, now)
        for action in actions:
            match action:
                case Send():
                    self._check_sent(node, record, action, now)
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
        self._check_views(node, node.router, node.router.strategy.overlays(), now)

    def finished(self, run: Network) -> None:
        under_way = episub_in_flight(run)
        for node in run.nodes:
            if node.router is not None and node.id in self._records:
                overlays = node.router.strategy.overlays()
                self._check_mutual(run, node, overlays, under_way)
                self._require_pongs(run, node, overlays)
                if self._lossless:
                    self._require_messages(run, node, overlays)
        if self._lossless and not self._has_faults:
            for topic, published in sorted(self._published.items()):
                sources = {publisher for _, publisher in published}
                if sources == {self._script}:
                    continue  # the script sends to several nodes, so even a split tree may reach all
                if len(published) > 1 and len(sources) == 1 and published[-2][0] > self._changed_us.get(topic, 0):
                    self._require_tree(run, topic)

    def _note_announced(self, router: Router, record: _Record, event: RpcReceived, now: Micros) -> None:
        """Record the announcements of an RPC."""
        for part in event.rpc.control.episub if event.rpc.control is not None else ():
            if isinstance(part, EpisubIHave) and part.topic in router.joined:
                for message_id in part.ids:
                    if message_id not in record.hops and message_id not in router.known:
                        record.announced.setdefault(message_id, (now, event.peer, part.topic))

    def _require_tried(
        self, node: SimNode, record: _Record, event: Event, actions: list[Action], now: Micros
    ) -> None:
        """Check the peers that leave a passive list of a node because of an event.

        The event must not be that the node leaves a topic, because then the whole list is deleted.
        """
        changes = [action for action in actions if isinstance(action, OverlayChanged)]
        gone: set[Any] = {each.peer for each in changes if each.change is OverlayChange.PASSIVE_REMOVE}
        if not gone:
            return
        gone -= {each.peer for each in changes if each.change is OverlayChange.NEIGHBOR_UP}
        room_for = sum(each.change is OverlayChange.PASSIVE_ADD for each in changes)
        if isinstance(event, RpcReceived) and event.rpc.control is not None:
            gone -= {part.source for part in event.rpc.control.episub if isinstance(part, EpisubLeave)}
        untried = sorted(gone - record.tried)
        if len(untried) > room_for:
            self._problem(now, node, f"{untried} left the passive list untried")

    def _require_growing_numbers(self, node: SimNode, actions: list[Action], now: Micros) -> None:
        """Check the sequence numbers of the LEAVEs that a node sends in one event, and record the highest."""
        controls = [action.rpc.control for action in actions if isinstance(action, Send)]
        parts = [part for control in controls if control is not None for part in control.episub]
        sent = {part.sequence for part in parts if isinstance(part, EpisubLeave)}
        if sent and min(sent) <= self._last_leave.get(node.id, -1):
            self._problem(now, node, f"LEAVE has number {min(sent)}, an earlier one had {self._last_leave[node.id]}")
        self._last_leave[node.id] = max(sent, default=self._last_leave.get(node.id, -1))

    def _check_sent(self, node: SimNode, record: _Record, action: Send, now: Micros) -> None:
        """Check the hops of messages, and the ids of IHAVE and GRAFT, in an RPC that a node sends."""
        assert node.router is not None
        for message, via in zip(action.rpc.messages, action.vias, strict=True):
            if via in (Via.EAGER, Via.LAZY) and message.hops != record.hops.get(message.id, -1) + 1:
                here = record.hops.get(message.id)
                self._problem(now, node, f"message {message.id} sent with {message.hops} hops, it came with {here}")
        for part in action.rpc.control.episub if action.rpc.control is not None else ():
            for message_id in part.ids if isinstance(part, EpisubIHave | EpisubGraft) else ():
                if isinstance(part, EpisubIHave) and message_id not in record.hops:
                    self._problem(now, node, f"IHAVE of message {message_id}, which it never accepted")
                arrived = message_id in node.router.known or message_id in node.router.pending
                if isinstance(part, EpisubGraft) and arrived:
                    self._problem(now, node, f"GRAFT asks for message {message_id}, which has arrived")

    def _check_views(self, node: SimNode, router: Router, overlays: Overlays, now: Micros) -> None:
        connected = router.connected.keys()
        for topic, overlay in overlays.items():
            active, passive = overlay.active, overlay.passive
            if not active <= connected:
                self._problem(now, node, f"active list of {topic!r} holds a peer that is not connected")
            eager, lazy = overlay.eager, overlay.lazy  # these tests create no set
            divide = eager <= active and lazy <= active and len(eager) + len(lazy) == len(active)
            if not (divide and eager.isdisjoint(lazy)):
                self._problem(now, node, f"eager and lazy links of {topic!r} do not divide the active list")
            limits = ("active", len(active), overlay.active_limit), ("passive", len(passive), overlay.passive_limit)
            for which, length, limit in limits:
                if limit is not None and length > limit:
                    self._problem(now, node, f"{which} list of {topic!r} has {length} peers, above {limit}")
            if not active.isdisjoint(passive):
                self._problem(now, node, f"active and passive list of {topic!r} share a peer")
            if node.id in active or node.id in passive:
                self._problem(now, node, f"active or passive list of {topic!r} holds the node itself")
            for what, length, limit in overlay.bounded:
                if length > limit:
                    self._problem(now, node, f"{length} {what} of {topic!r}, above {limit}")

    def _check_mutual(self, run: Network, node: SimNode, overlays: Overlays, under_way: set[tuple[int, int]]) -> None:
        """Check that the neighbours of a node have the node as a neighbour, unless a part of episub is in flight."""
        for topic, overlay in overlays.items():
            for peer in cast("list[int]", sorted(overlay.active)):
                other = run.nodes[peer]
                link = node.links.get(peer)
                if other.router is None or link is None or link.dead or not (link.open and link.twin.open):
                    continue
                if (node.id, peer) in under_way or (peer, node.id) in under_way:
                    continue
                if peer in self._records and node.id not in other.router.strategy.overlays()[topic].active:
                    self._problem(run.now, node, f"neighbour {peer} in {topic!r} is not mutual")

    def _require_tree(self, run: Network, topic: Any) -> None:
        """Check that the eager links of a topic are one spanning tree.

        They must connect all nodes of the topic, and there must be one link fewer than there are nodes.
        """
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

    def _require_pongs(self, run: Network, node: SimNode, overlays: Overlays) -> None:
        """Check that no neighbour of a node has left a ping unanswered for too long."""
        record = self._records[node.id]
        for peer, since_us in sorted(record.pinged_us.items()):
            neighbour = any(peer in overlay.active for overlay in overlays.values())
            if neighbour and run.now - since_us > record.promise.ping_answer_us:
                self._problem(run.now, node, f"neighbour {peer} left a ping unanswered, and stays")

    def _require_messages(self, run: Network, node: SimNode, overlays: Overlays) -> None:
        """Check that a node got the messages that its neighbours announced long enough ago."""
        record = self._records[node.id]
        for message_id, (since, peer, topic) in sorted(record.announced.items()):
            lasting = topic in overlays and peer in overlays[topic].active
            late = run.now - since > record.promise.recovery_us
            if lasting and late and self._changed_us.get(topic, 0) < since:
                self._problem(run.now, node, f"message {message_id} is missing, though {peer} announced it")


def episub_in_flight(run: Network) -> set[tuple[int, int]]:
    """Return the pairs of nodes between which a part of episub or an event of a connection is queued."""
    return in_flight(run, lambda control: control.episub, _CONNECTION_NEWS)


def in_flight(
    run: Network, concerns: Callable[[Control], object], news: Collection[EventKind]
) -> set[tuple[int, int]]:
    """Return the pairs of nodes between which certain events are queued.

    A pair is the source and the destination of an RPC in flight, if `concerns` returns a true value for its control.
    For an event of a kind in `news` it is the node and the peer.
    """
    pairs: set[tuple[int, int]] = set()
    for _, node, kind, source, _, _, event, _ in run.waiting():
        if kind == EventKind.RPC_RECEIVED:
            control = event.rpc.control
            if control is not None and concerns(control):
                pairs.add((source, node))
        elif kind in news:
            pairs.add((node, source))
    return pairs
