"""The checker, which watches a run for broken invariants, event by event.

The checker records the events and actions of each node, and compares the behaviour of the node's router with this
record:

1. a node delivers a message at most once while the message counts as seen;
2. a node forwards no message to the peer that sent it the first copy, or to the author of the message;
3. a node sends no message, GRAFT or IHAVE of a topic to a peer that, as far as the node knows, is not subscribed;
4. after every heartbeat, the size of each mesh is within its bounds and its members are subscribed; at the end of the
   run, a mesh link is in the meshes of both nodes if no GRAFT or PRUNE is in flight between them;
5. an IHAVE names only messages of the gossip windows, and an IWANT is answered only from the windows of the message
   cache;
6. a router keeps no state of a disconnected peer in its state table, and none that `Inspection.remembers` reports;
7. for each event, a peer gets at most one RPC with only IDONTWANT and one other RPC, unless the router sends each
   part in an RPC of its own (`coalesce`); RPCs with only IDONTWANT come first, then the others, both in ascending
   order of peers, and then partial messages and extension tests, which are RPCs of their own;
8. no message is delivered or sent before the application accepts it, nor after the application refuses it;
9. a node sends no GRAFT to a peer, and accepts none from it, before the end of a backoff that a PRUNE of either side
   named (v1.1); a mesh may be too small (4) if the other subscribers have backoffs;
10. a node sends no message to a peer if it has accepted and not forgotten the peer's IDONTWANT (v1.2), except
    messages that the node publishes itself.

Mesh links need not be mutual if control messages may be lost, or where a graylist dropped the last GRAFT or PRUNE.
Answers to IWANT and to episub's GRAFT are exempt from 2 and 3. Other files have the invariants of episub
(`overlay_checker.py`), of scores (`score_checker.py`) and of partial messages (`partial_checker.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from typing import Any, TypeAlias

from hearsay.core.language.actions import (
    Action,
    Deliver,
    DuplicateReceived,
    MessagePublished,
    PeerGrafted,
    Send,
    Validate,
)
from hearsay.core.language.events import (
    Event,
    EventKind,
    Join,
    Leave,
    MessageValidated,
    OtherEvent,
    PeerConnected,
    PeerDisconnected,
    Publish,
    RpcReceived,
    TimerFired,
    Verdict,
)
from hearsay.core.language.identifiers import Micros, PeerId, TopicId
from hearsay.core.shell.guarantees import Promises
from hearsay.core.shell.inspection import knows
from hearsay.core.shell.router import Router
from hearsay.sim.checks.overlay_checker import OverlayChecker, in_flight
from hearsay.sim.checks.partial_checker import ASKED_FOR, PartialChecker, UnwantedIds
from hearsay.sim.checks.score_checker import ScoreChecker, ignores_peer
from hearsay.sim.plan.plan import Plan
from hearsay.sim.reference.nodes import Network, SimNode

MAX_REPORTED = 20
_SECOND_US = 1_000_000
"""One second. A PRUNE names its backoff in whole seconds, rounded up."""
_Report: TypeAlias = Callable[[str], None]
"""A function that reports a problem of the node whose event is checked."""


@dataclass(slots=True)
class _Record:
    """The record of one node since its last start."""

    promises: Promises
    unwanted: UnwantedIds
    joined: set[Any] = field(default_factory=lambda: set())
    subscribed: dict[Any, set[Any]] = field(default_factory=lambda: {})
    """For each connected peer, the topics to which it subscribes."""
    delivered_us: dict[Any, Micros] = field(default_factory=lambda: {})
    delivered_beat: dict[Any, int] = field(default_factory=lambda: {})
    """For each delivered message, the value of `beat` at its delivery."""
    came_from: dict[Any, Any] = field(default_factory=lambda: {})
    """For each message, the peer that sent its first copy; None or no entry if the node published the message."""
    accepted_beat: dict[Any, int] = field(default_factory=lambda: {})
    """For each accepted or published message, the value of `beat` at that time."""
    pending: set[Any] = field(default_factory=lambda: set())
    """Messages that await the application's verdict."""
    refused: set[Any] = field(default_factory=lambda: set())
    """Messages that the application rejected or ignored, until the router asks for another verdict."""
    latest_end_us: dict[tuple[TopicId, PeerId], Micros] = field(default_factory=lambda: {})
    """The latest possible end of each backoff. A sent or received PRUNE begins a backoff; a disconnection does not
    end it."""
    earliest_end_us: dict[tuple[TopicId, PeerId], Micros] = field(default_factory=lambda: {})
    """The earliest possible end of each backoff. A GRAFT before this time is a problem."""
    dropped: set[tuple[TopicId, PeerId]] = field(default_factory=lambda: set())
    """Pairs of topic and connected peer: the node's graylist dropped the last GRAFT or PRUNE of the peer in the
    topic. The peer does not know that."""
    beat: int = 0
    """The number of the router's last heartbeat; of its last timer if the router has no heartbeat."""

    def record_backoff(self, topic: TopicId, peer: PeerId, earliest: Micros, latest: Micros) -> None:
        """Record a backoff that ends between `earliest` and `latest`, unless recorded times are later."""
        key = (topic, peer)
        self.earliest_end_us[key] = max(earliest, self.earliest_end_us.get(key, 0))
        self.latest_end_us[key] = max(latest, self.latest_end_us.get(key, 0))

    def may_graft(self, now: Micros, topic: TopicId, peer: PeerId) -> bool:
        """Return whether the node may send a peer a GRAFT now, even if the backoff ends as late as possible."""
        backoff = self.promises.backoff
        if backoff is None:
            return True
        waits_us = backoff.slack_us + backoff.removal_delay_us
        return now >= self.latest_end_us.get((topic, peer), -waits_us) + waits_us


class Checker:
    """An observer that collects problems. If all routers keep the rules, `problems` is empty after a run."""

    def __init__(self, plan: Plan) -> None:
        self._control_may_be_lost = bool(plan.scenario.loss.control and plan.scenario.loss.rate_millionths)
        self._records: dict[int, _Record] = {}
        self._overlay = OverlayChecker(plan, self._problem)
        self._scores = ScoreChecker(self._problem)
        self._partials = PartialChecker(self._problem)
        self.problems: list[str] = []
        """The first problems, at most `MAX_REPORTED`."""

    def node_started(self, node: SimNode, now: Micros) -> None:
        assert node.router is not None
        self._records[node.id] = _Record(node.router.strategy.promises(), UnwantedIds(node.router.parameters))
        self._overlay.node_started(node)
        self._scores.node_started(node)
        self._partials.node_started(node)

    def node_stopped(self, node: SimNode, now: Micros) -> None:
        self._records.pop(node.id, None)

    def handled(self, node: SimNode, event: Event, actions: list[Action], now: Micros) -> None:
        """Check an event of a node's router and the actions that it caused."""
        record = self._records[node.id]
        router = node.router
        assert router is not None
        report = partial(self._problem, now, node)
        promises = record.promises
        standing = promises.standing
        accepted = False
        if isinstance(event, RpcReceived):
            accepted = self._scores.accepts_from(node, standing, event.peer)
            _note_rpc(record, event, accepted, now)
        else:
            _note_other_event(record, event)
        self._overlay.handled(node, event, actions, now)
        if promises.partial is not None:
            self._partials.handled(node, promises.partial, event, accepted, actions, now)
        if actions:
            _check_packing(report, router, [action for action in actions if isinstance(action, Send)])
        if standing is not None:
            self._scores.handled(node, standing, event, actions, now)
        for action in actions:
            match action:
                case Send():
                    _check_send(report, record, event, action, now)
                case DuplicateReceived():
                    pass  # the most frequent case
                case Deliver():
                    _check_delivery(report, router, record, action, now)
                case Validate():
                    record.pending.add(action.message.id)
                    record.refused.discard(action.message.id)
                    record.came_from[action.message.id] = action.received_from
                case MessagePublished():
                    record.came_from.pop(action.message.id, None)
                    record.accepted_beat[action.message.id] = record.beat
                case PeerGrafted():
                    early = promises.backoff.early_us if promises.backoff is not None else 0
                    _require_backoff_over(report, record, "accepts", action.topic, action.peer, now + early)
                case _:
                    pass
        match event:
            case RpcReceived():
                if accepted:
                    record.unwanted.add(event, record.beat)  # last, since a router handles IDONTWANT after IWANT
            case TimerFired():
                heartbeat = router.strategy.heartbeat
                beats = None if heartbeat is None else heartbeat.tick
                if beats != record.beat:
                    _check_degrees(report, router, record, now)
                    if standing is not None:
                        self._scores.heartbeat(node, standing, partial(record.may_graft, now), now)
                    record.beat = record.beat + 1 if beats is None else beats
                    record.unwanted.heartbeat(record.beat)
            case PeerDisconnected():
                if knows(router, router.strategy, event.peer):
                    report(f"state of {event.peer} is left after its disconnect")
                if router.strategy.remembers(event.peer):
                    report(f"counts of {event.peer} are left after its disconnect")
                record.unwanted.remove_peer(event.peer)
            case _:
                pass

    def finished(self, run: Network) -> None:
        """Check mesh links and overlays at the end of a run, unless control messages may be lost.

        Mesh links must be mutual where no GRAFT, PRUNE or failed RPC is in flight.
        """
        if self._control_may_be_lost:
            return
        self._overlay.finished(run)
        under_way = in_flight(run, lambda control: control.graft or control.prune, (EventKind.SEND_FAILED,))
        for node in run.nodes:
            if node.router is None or self._records[node.id].promises.mesh is None:
                continue
            for topic in sorted(node.router.joined):
                peers: list[Any] = node.router.strategy.mesh_peers(topic)
                for peer in peers:
                    self._require_mutual(run, node, topic, peer, under_way)

    def _require_mutual(
        self, run: Network, node: SimNode, topic: Any, peer: int, under_way: set[tuple[int, int]]
    ) -> None:
        """Check that a peer in a node's mesh has the node in its own mesh.

        A one-sided link is allowed if the connection is not open on both sides, if a GRAFT, PRUNE or failed RPC is in
        flight, or if a graylist drops or has dropped the last GRAFT or PRUNE.
        """
        other: SimNode = run.nodes[peer]
        link = node.links.get(peer)
        if other.router is None or link is None or not link.open or not link.twin.open or link.cut or link.dead:
            return
        if (node.id, peer) in under_way or (peer, node.id) in under_way:
            return
        record = self._records[peer]
        promises = record.promises
        if promises.standing is not None and ignores_peer(other, promises.standing, node.id):
            return
        if (topic, node.id) in record.dropped or (topic, peer) in self._records[node.id].dropped:
            return
        if promises.mesh is not None and node.id not in other.router.strategy.mesh_peers(topic):
            self._problem(run.now, node, f"mesh link of {topic!r} to {peer} is not mutual")

    def _problem(self, now: Micros, node: SimNode, what: str) -> None:
        if len(self.problems) < MAX_REPORTED:
            self.problems.append(f"{now / 1e6:.6f}s node {node.id}: {what}")


def _note_rpc(record: _Record, event: RpcReceived, accepted: bool, now: Micros) -> None:
    """Record a received RPC; `accepted` is False if the node, because of a graylist, handles only subscriptions."""
    peer, rpc, control = event.peer, event.rpc, event.rpc.control
    for change in rpc.subscriptions:
        known = record.subscribed.setdefault(peer, set())
        (known.add if change.subscribe else known.discard)(change.topic)
    for message in rpc.messages:
        if message.id not in record.accepted_beat:
            record.came_from.setdefault(message.id, peer)
    if control is None:
        return
    for part in (*control.graft, *control.prune):
        (record.dropped.discard if accepted else record.dropped.add)((part.topic, peer))
    backoff = record.promises.backoff
    for prune in control.prune:
        if backoff is not None and prune.topic in record.joined:
            named_us = prune.backoff_s * _SECOND_US if prune.backoff_s else backoff.unnamed_us
            until = now + min(named_us, backoff.longest_us)
            record.record_backoff(prune.topic, peer, until if accepted else now, until)


def _note_other_event(record: _Record, event: OtherEvent) -> None:
    """Record the effect of an event that is not a received RPC."""
    match event:
        case PeerConnected():
            record.subscribed[event.peer] = set(event.subscribed)
        case PeerDisconnected():
            record.subscribed.pop(event.peer, None)
            record.dropped = {key for key in record.dropped if key[1] != event.peer}
        case Join():
            record.joined.add(event.topic)
        case Leave():
            record.joined.discard(event.topic)
        case MessageValidated():
            record.pending.discard(event.message_id)
            if event.verdict is Verdict.ACCEPT:
                record.accepted_beat[event.message_id] = record.beat
            else:
                record.refused.add(event.message_id)
        case _:
            pass


def _check_packing(report: _Report, router: Router, sends: list[Send]) -> None:
    """Check the order and the number of the RPCs of one event.

    Partial messages and extension tests come last. There is at most one partial message for each peer and group, and
    at most one test for each peer (PARTIAL-5, EXT-5).
    """
    if not sends or (len(sends) == 1 and not _has_idontwant(sends[0])):
        return
    urgent = list(takewhile(_is_urgent, sends))
    plain = [send for send in sends[len(urgent) :] if send.rpc.partial is None and send.rpc.test is None]
    last = sends[len(urgent) + len(plain) :]
    groups = {(send.peer, part.topic, part.group) for send in last if (part := send.rpc.partial) is not None}
    tests = {send.peer for send in last if send.rpc.test is not None}
    if len(groups) + len(tests) != len(last):
        report(f"partial or test messages are not last, or sent twice: {groups}, {tests}")
    for group in (urgent, plain):
        peers: list[Any] = [action.peer for action in group]
        if peers != sorted(peers):
            report(f"sends are not in ascending order: {peers}")
        if router.parameters.coalesce and len(set(peers)) != len(peers):
            report(f"more than one RPC to a peer in one event: {peers}")
    if any(map(_has_idontwant, sends[len(urgent) :])):
        report("an IDONTWANT is sent after other RPCs")


def _check_delivery(report: _Report, router: Router, record: _Record, action: Deliver, now: Micros) -> None:
    message, topic = action.message.id, action.message.topic
    if message in record.pending:
        report(f"message {message} delivered before the application accepted it")
    if message in record.refused:
        report(f"message {message} delivered although the application refused it")
    if topic not in record.joined:
        report(f"message {message} delivered in topic {topic!r}, which is not joined")
    before, heartbeats = record.delivered_us.get(message), record.promises.seen_heartbeats
    if before is not None:
        by_time = now - before < router.parameters.seen_ttl_us
        if by_time if heartbeats is None else record.beat - record.delivered_beat[message] < heartbeats:
            report(f"message {message} delivered twice, first at {before} us")
    record.delivered_us[message] = now
    record.delivered_beat[message] = record.accepted_beat[message] = record.beat
    record.came_from[message] = action.received_from


def _check_send(report: _Report, record: _Record, event: Event, action: Send, now: Micros) -> None:
    """Check an RPC that a node sends because of an event, and record the backoffs of its PRUNEs."""
    peer = action.peer
    known = record.subscribed.get(peer)
    if known is None:
        report(f"RPC to {peer}, which is not connected")
        known = set[Any]()
    published = isinstance(event, Publish)
    for message, via in zip(action.rpc.messages, action.vias, strict=True):
        if message.id in record.pending:
            report(f"message {message.id} sent to {peer} before the application accepted it")
        if message.id in record.refused:
            report(f"message {message.id} sent to {peer} although the application refused it")
        if not published and record.unwanted.forbids(peer, message.id, record.beat):
            report(f"message {message.id} sent to {peer}, which does not want it")
        if via in ASKED_FOR:
            heartbeats = record.promises.kept_heartbeats
            _require_recent(report, record, "request answered with", message.id, heartbeats)
            continue
        if peer == record.came_from.get(message.id) and not published:
            report(f"message {message.id} sent back to {peer}, which sent it")
        if peer == message.source:
            report(f"message {message.id} sent to its author {peer}")
        if message.topic not in known:
            report(f"message {message.id} sent to {peer}, a non-subscriber of {message.topic!r}")
    control, backoff = action.rpc.control, record.promises.backoff
    if control is None:
        return
    for graft in control.graft:
        if graft.topic not in known:
            report(f"GRAFT to {peer}, a non-subscriber of {graft.topic!r}")
        _require_backoff_over(report, record, "GRAFT to", graft.topic, peer, now)
    for prune in control.prune:
        if prune.backoff_s is not None and backoff is not None:
            until = now + prune.backoff_s * _SECOND_US
            record.record_backoff(prune.topic, peer, until - _SECOND_US, until)
        elif backoff is not None:  # a PRUNE of v1.0 names no backoff; it lasts from 0 to `own_longest_us`
            record.record_backoff(prune.topic, peer, now, now + backoff.own_longest_us)
    for ihave in control.ihave:
        if ihave.topic not in known:
            report(f"IHAVE to {peer}, a non-subscriber of {ihave.topic!r}")
        heartbeats = record.promises.gossip_heartbeats
        for message_id in ihave.ids if heartbeats is not None else ():
            _require_recent(report, record, "IHAVE of", message_id, heartbeats)


def _require_recent(report: _Report, record: _Record, what: str, message_id: Any, heartbeats: int | None) -> None:
    """Check that a node accepted a message fewer than `heartbeats` heartbeats ago; None means at any time."""
    accepted = record.accepted_beat.get(message_id)
    if accepted is None:
        report(f"{what} message {message_id}, which it never accepted")
    elif heartbeats is not None and record.beat - accepted >= heartbeats:
        report(f"{what} message {message_id}, {record.beat - accepted} heartbeats old")


def _require_backoff_over(
    report: _Report, record: _Record, what: str, topic: TopicId, peer: PeerId, now: Micros
) -> None:
    backoff = record.promises.backoff
    until = record.earliest_end_us.get((topic, peer), now)
    if now >= until or backoff is None:
        return
    if len(record.earliest_end_us) <= backoff.remembered:  # with more backoffs, the router may have forgotten some
        report(f"{what} {peer}, {until - now} us before the backoff in {topic!r} is over")


def _check_degrees(report: _Report, router: Router, record: _Record, now: Micros) -> None:
    """Check the sizes and the members of all meshes of a router after a heartbeat."""
    promise = record.promises.mesh
    if promise is None:
        return
    for topic in sorted(router.joined):
        mesh = router.strategy.mesh_peers(topic)
        if len(mesh) > promise.highest:
            report(f"mesh of {topic!r} has {len(mesh)} peers after a heartbeat, above {promise.highest}")
        if len(mesh) < promise.lowest:
            peers = router.peers.in_topic(topic).native.members
            available = sum(record.may_graft(now, topic, peer) for peer in peers)
            if len(mesh) < available:
                report(f"mesh of {topic!r} has {len(mesh)} of {available} peers, below {promise.lowest}")
        strangers = [peer for peer in mesh if topic not in record.subscribed.get(peer, ())]
        if strangers:
            report(f"mesh of {topic!r} holds {strangers}, which do not subscribe to it")


def _has_idontwant(action: Send) -> bool:
    return action.rpc.control is not None and bool(action.rpc.control.idontwant)


def _is_urgent(action: Send) -> bool:
    """Return whether an RPC has IDONTWANT, and neither messages nor subscriptions. Such RPCs come first (OUT-3)."""
    return _has_idontwant(action) and not action.rpc.messages and not action.rpc.subscriptions
