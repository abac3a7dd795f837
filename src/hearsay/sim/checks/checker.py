"""The checker: invariants of every run, checked event by event.

It keeps a record of the events and actions of each node and compares it with the router's behaviour:

1. a node delivers a message at most once while the message counts as seen;
2. no message is forwarded to the peer that sent it or to its author;
3. no message, GRAFT or IHAVE goes to a peer that the sender knows as a non-subscriber;
4. mesh degrees are within bounds after every heartbeat, and mesh links are mutual when no GRAFT or PRUNE is in
   flight;
5. IHAVE names only messages of the gossip windows, IWANT is answered only from the windows of the message cache;
6. a router keeps no state of a peer after its disconnect;
7. a peer gets one RPC per event, unless the router sends each part in its own RPC (`coalesce`); RPCs are in ascending
   order of peers, those with only IDONTWANT before all others;
8. no message is delivered or sent before the application accepts it, nor after the application refuses it;
9. no GRAFT is sent to a peer, or accepted from it, before the end of a backoff that a PRUNE named (v1.1); (4) counts
   no peers with a backoff;
10. no message goes to a peer whose IDONTWANT was accepted and is not forgotten (v1.2), except the node's own.

Mutual links are not required when control messages may be lost, nor where a graylist dropped the last GRAFT or PRUNE.
Answers to IWANT and to episub's GRAFT are exempt from 2 and 3. Other files have the invariants of episub
(`overlay_checker.py`), of scores (`score_checker.py`) and of partial messages (`partial_checker.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from typing import Any

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
from hearsay.core.language.rpc import Prune
from hearsay.core.shell.guarantees import Promises
from hearsay.core.shell.inspection import knows
from hearsay.core.shell.router import Router
from hearsay.sim.checks.overlay_checker import OverlayChecker, in_flight
from hearsay.sim.checks.partial_checker import ASKED_FOR, PartialChecker
from hearsay.sim.checks.score_checker import ScoreChecker, ignores_peer
from hearsay.sim.checks.unwanted_ids import UnwantedIds
from hearsay.sim.plan.plan import Plan
from hearsay.sim.reference.nodes import Network, SimNode

MAX_REPORTED = 20
_SECOND_US = 1_000_000
"""A PRUNE names its backoff in whole seconds, rounded up."""


@dataclass(slots=True)
class _Record:
    """The record of one node since its last start."""

    promises: Promises
    unwanted: UnwantedIds
    joined: set[Any] = field(default_factory=lambda: set())
    subscribed: dict[Any, set[Any]] = field(default_factory=lambda: {})
    delivered_us: dict[Any, Micros] = field(default_factory=lambda: {})
    delivered_beat: dict[Any, int] = field(default_factory=lambda: {})
    """The number of the router's last heartbeat (`beat`) at the delivery of each message."""
    came_from: dict[Any, Any] = field(default_factory=lambda: {})
    """The peer that sent the first copy of each message."""
    accepted_beat: dict[Any, int] = field(default_factory=lambda: {})
    pending: set[Any] = field(default_factory=lambda: set())
    """Messages that await the application's verdict."""
    refused: set[Any] = field(default_factory=lambda: set())
    """Messages that the application rejected or ignored, while they count as seen."""
    apart_until: dict[tuple[TopicId, PeerId], Micros] = field(default_factory=lambda: {})
    """The latest possible end of each backoff, by PRUNEs in both directions; it outlasts a disconnection."""
    no_graft_before: dict[tuple[TopicId, PeerId], Micros] = field(default_factory=lambda: {})
    """The earliest possible end of each backoff; a GRAFT before it is a problem."""
    dropped: set[tuple[TopicId, PeerId]] = field(default_factory=lambda: set())
    """Topics and connected peers whose last GRAFT or PRUNE a graylist dropped, without notice to them."""
    beat: int = 0
    """The number of the router's last heartbeat."""

    def keep_apart(self, topic: TopicId, peer: PeerId, earliest: Micros, latest: Micros) -> None:
        """Record a backoff that ends between these times, unless an earlier one lasts longer."""
        key = (topic, peer)
        self.no_graft_before[key] = max(earliest, self.no_graft_before.get(key, 0))
        self.apart_until[key] = max(latest, self.apart_until.get(key, 0))


class Checker:
    """An observer that collects violations; `problems` is empty after a good run."""

    def __init__(self, plan: Plan) -> None:
        self._control_may_be_lost = bool(plan.scenario.loss.control and plan.scenario.loss.rate_millionths)
        self._records: dict[int, _Record] = {}
        self._overlay = OverlayChecker(plan, self._problem)
        self._scores = ScoreChecker(self._problem)
        self._partials = PartialChecker(self._problem)
        self.problems: list[str] = []
        self.count = 0

    def node_started(self, node: SimNode, now: Micros) -> None:
        assert node.router is not None
        self._records[node.id] = _Record(node.router.strategy.promises(), UnwantedIds(node.router.parameters))
        self._overlay.node_started(node)
        self._scores.node_started(node)
        self._partials.node_started(node)

    def node_stopped(self, node: SimNode, now: Micros) -> None:
        self._records.pop(node.id, None)

    def handled(self, node: SimNode, event: Event, actions: list[Action], now: Micros) -> None:
        record = self._records[node.id]
        router = node.router
        assert router is not None
        promises = record.promises
        standing = promises.standing
        accepted = False
        if isinstance(event, RpcReceived):
            accepted = self._scores.accepts_from(node, standing, event.peer)
            self._rpc_received(record, event, accepted, now)
        else:
            self._learn(record, event)
        self._overlay.handled(node, event, actions, now)
        if promises.partial is not None:
            self._partials.handled(node, promises.partial, event, accepted, actions, now)
        if actions:
            self._packing(node, router, [action for action in actions if isinstance(action, Send)], now)
        if standing is not None:
            self._scores.handled(node, standing, event, actions, now)
        for action in actions:
            match action:
                case Send():
                    self._send(node, record, event, action, now)
                case DuplicateReceived():
                    pass  # the most frequent case
                case Deliver():
                    self._delivery(node, router, record, action, now)
                case Validate():
                    record.pending.add(action.message.id)
                    record.refused.discard(action.message.id)
                    record.came_from[action.message.id] = action.received_from
                case MessagePublished():
                    record.came_from.pop(action.message.id, None)
                    record.accepted_beat[action.message.id] = record.beat
                case PeerGrafted():
                    early = promises.backoff.early_us if promises.backoff is not None else 0
                    self._require_backoff_over(node, record, "accepts", action.topic, action.peer, now + early)
                case _:
                    pass
        match event:
            case RpcReceived():
                if accepted:
                    record.unwanted.add(event, record.beat)  # after the sends: routers answer an RPC's IWANTs first
            case TimerFired():
                heartbeat = router.strategy.heartbeat
                beats = None if heartbeat is None else heartbeat.tick
                if beats != record.beat:
                    self._degrees(node, router, now)
                    if standing is not None:
                        self._scores.heartbeat(node, standing, partial(self._may_graft, record, now), now)
                    record.beat = record.beat + 1 if beats is None else beats
                    record.unwanted.heartbeat(record.beat)
            case PeerDisconnected():
                self._remnants(node, router, event.peer, now)
                record.unwanted.remove_peer(event.peer)
            case _:
                pass

    def finished(self, run: Network) -> None:
        """Check at the end of a run that mesh links are mutual where nothing is in flight."""
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
                    self._mutual(run, node, topic, peer, under_way)

    def _rpc_received(self, record: _Record, event: RpcReceived, accepted: bool, now: Micros) -> None:
        peer, rpc = event.peer, event.rpc
        if rpc.subscriptions:
            known = record.subscribed.setdefault(peer, set())
            for change in rpc.subscriptions:
                (known.add if change.subscribe else known.discard)(change.topic)
        for message in rpc.messages:
            if message.id not in record.accepted_beat:
                record.came_from.setdefault(message.id, peer)
        for part in (*rpc.control.graft, *rpc.control.prune) if rpc.control is not None else ():
            (record.dropped.discard if accepted else record.dropped.add)((part.topic, peer))
        if rpc.control is not None and rpc.control.prune:
            self._prunes_received(record, peer, rpc.control.prune, accepted, now)

    def _learn(self, record: _Record, event: OtherEvent) -> None:
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

    def _packing_of_single_parts(self, node: SimNode, sends: list[Send], now: Micros) -> None:
        """Check that partial and test messages come last, at most one for each peer and group, and one test for each
        peer (PARTIAL-5, EXT-5)."""
        groups = {(send.peer, part.topic, part.group) for send in sends if (part := send.rpc.partial) is not None}
        tests = {send.peer for send in sends if send.rpc.test is not None}
        if len(groups) + len(tests) != len(sends):
            self._problem(now, node, f"partial or test messages are not last, or sent twice: {groups}, {tests}")

    def _packing(self, node: SimNode, router: Router, sends: list[Send], now: Micros) -> None:
        if not sends or (len(sends) == 1 and not _has_idontwant(sends[0])):
            return
        urgent = list(takewhile(_is_urgent, sends))
        plain = [send for send in sends[len(urgent) :] if send.rpc.partial is None and send.rpc.test is None]
        self._packing_of_single_parts(node, sends[len(urgent) + len(plain) :], now)
        for group in (urgent, plain):
            peers: list[Any] = [action.peer for action in group]
            if peers != sorted(peers):
                self._problem(now, node, f"sends are not in ascending order: {peers}")
            if router.parameters.coalesce and len(set(peers)) != len(peers):
                self._problem(now, node, f"more than one RPC to a peer in one event: {peers}")
        if any(map(_has_idontwant, sends[len(urgent) :])):
            self._problem(now, node, "an IDONTWANT is sent after other RPCs")

    def _delivery(self, node: SimNode, router: Router, record: _Record, action: Deliver, now: Micros) -> None:
        message = action.message
        if message.id in record.pending:
            self._problem(now, node, f"message {message.id} delivered before the application accepted it")
        if message.id in record.refused:
            self._problem(now, node, f"message {message.id} delivered, which the application refused")
        if message.topic not in record.joined:
            self._problem(
                now, node, f"message {message.id} delivered in topic {message.topic!r}, which is not joined"
            )
        before = record.delivered_us.get(message.id)
        if before is not None and self._still_seen(router, record, message.id, now - before):
            self._problem(now, node, f"message {message.id} delivered twice, first at {before} us")
        record.delivered_us[message.id] = now
        record.delivered_beat[message.id] = record.beat
        record.accepted_beat[message.id] = record.beat
        record.came_from[message.id] = action.received_from

    def _still_seen(self, router: Router, record: _Record, message_id: Any, age_us: Micros) -> bool:
        heartbeats = record.promises.seen_heartbeats
        if heartbeats is not None:
            return record.beat - record.delivered_beat[message_id] < heartbeats
        return age_us < router.parameters.seen_ttl_us

    def _send(self, node: SimNode, record: _Record, event: Event, action: Send, now: Micros) -> None:
        peer = action.peer
        known = record.subscribed.get(peer)
        if known is None:
            self._problem(now, node, f"RPC to {peer}, which is not connected")
            known = set[Any]()
        published = isinstance(event, Publish)
        for message, via in zip(action.rpc.messages, action.vias, strict=True):
            if message.id in record.pending:
                self._problem(now, node, f"message {message.id} sent to {peer} before the application accepted it")
            if message.id in record.refused:
                self._problem(now, node, f"message {message.id} sent to {peer}, which the application refused")
            if not published and record.unwanted.forbids(peer, message.id, record.beat):
                self._problem(now, node, f"message {message.id} sent to {peer}, which does not want it")
            if via in ASKED_FOR:
                self._kept(node, record, message.id, now)
                continue
            if peer == record.came_from.get(message.id) and not published:
                self._problem(now, node, f"message {message.id} sent back to {peer}, which sent it")
            if peer == message.source:
                self._problem(now, node, f"message {message.id} sent to its author {peer}")
            if message.topic not in known:
                self._problem(
                    now, node, f"message {message.id} sent to {peer}, a non-subscriber of {message.topic!r}"
                )
        control = action.rpc.control
        if control is None:
            return
        for graft in control.graft:
            if graft.topic not in known:
                self._problem(now, node, f"GRAFT to {peer}, a non-subscriber of {graft.topic!r}")
            self._require_backoff_over(node, record, "GRAFT to", graft.topic, peer, now)
        self._prunes_sent(record, peer, control.prune, now)
        for ihave in control.ihave:
            if ihave.topic not in known:
                self._problem(now, node, f"IHAVE to {peer}, a non-subscriber of {ihave.topic!r}")
            self._gossiped(node, record, ihave.ids, now)

    def _prunes_received(
        self, record: _Record, peer: PeerId, prunes: tuple[Prune, ...], accepted: bool, now: Micros
    ) -> None:
        backoff = record.promises.backoff
        if backoff is None:
            return
        for prune in prunes:
            if prune.topic in record.joined:
                named_us = prune.backoff_s * _SECOND_US if prune.backoff_s else backoff.unnamed_us
                until = now + min(named_us, backoff.longest_us)
                record.keep_apart(prune.topic, peer, until if accepted else now, until)

    def _prunes_sent(self, record: _Record, peer: PeerId, prunes: tuple[Prune, ...], now: Micros) -> None:
        """Record backoffs. A PRUNE to a peer with v1.0 names none: it may end at once, or last as long as any."""
        backoff = record.promises.backoff
        if backoff is None:
            return
        for prune in prunes:
            if prune.backoff_s is not None:
                until = now + prune.backoff_s * _SECOND_US
                record.keep_apart(prune.topic, peer, until - _SECOND_US, until)
            else:
                record.keep_apart(prune.topic, peer, now, now + backoff.own_longest_us)

    def _require_backoff_over(
        self, node: SimNode, record: _Record, what: str, topic: TopicId, peer: PeerId, now: Micros
    ) -> None:
        backoff = record.promises.backoff
        until = record.no_graft_before.get((topic, peer), now)
        if now >= until or backoff is None:
            return
        if len(record.no_graft_before) <= backoff.remembered:  # otherwise the router may have forgotten some
            self._problem(now, node, f"{what} {peer}, {until - now} us before the backoff in {topic!r} is over")

    def _gossiped(self, node: SimNode, record: _Record, ids: tuple[Any, ...], now: Micros) -> None:
        heartbeats = record.promises.gossip_heartbeats
        if heartbeats is None:
            return
        for message_id in ids:
            accepted = record.accepted_beat.get(message_id)
            if accepted is None:
                self._problem(now, node, f"IHAVE of message {message_id}, which it never accepted")
            elif record.beat - accepted >= heartbeats:
                self._problem(now, node, f"IHAVE of message {message_id}, {record.beat - accepted} heartbeats old")

    def _kept(self, node: SimNode, record: _Record, message_id: Any, now: Micros) -> None:
        heartbeats = record.promises.kept_heartbeats
        accepted = record.accepted_beat.get(message_id)
        if accepted is None:
            self._problem(now, node, f"sent message {message_id} on request, which it never accepted")
        elif heartbeats is not None and record.beat - accepted >= heartbeats:
            age = record.beat - accepted
            self._problem(now, node, f"IWANT answered with message {message_id}, {age} heartbeats old")

    def _degrees(self, node: SimNode, router: Router, now: Micros) -> None:
        record = self._records[node.id]
        promise = record.promises.mesh
        if promise is None:
            return
        for topic in sorted(router.joined):
            mesh = router.strategy.mesh_peers(topic)
            if len(mesh) > promise.highest:
                high = promise.highest
                self._problem(now, node, f"mesh of {topic!r} has {len(mesh)} peers after a heartbeat, above {high}")
            low = promise.lowest
            if len(mesh) < low and len(mesh) < (available := self._available(router, record, topic, now)):
                self._problem(now, node, f"mesh of {topic!r} has {len(mesh)} of {available} peers, below {low}")
            strangers = [peer for peer in mesh if topic not in record.subscribed.get(peer, ())]
            if strangers:
                self._problem(now, node, f"mesh of {topic!r} holds {strangers}, which do not subscribe to it")

    def _available(self, router: Router, record: _Record, topic: TopicId, now: Micros) -> int:
        """Return how many peers the mesh of a topic could have."""
        peers = router.peers.in_topic(topic).native.members
        return sum(self._may_graft(record, now, topic, peer) for peer in peers)

    def _may_graft(self, record: _Record, now: Micros, topic: TopicId, peer: PeerId) -> bool:
        """Return whether no backoff forbids a GRAFT."""
        backoff = record.promises.backoff
        if backoff is None:
            return True
        waits_us = backoff.slack_us + backoff.kept_us
        return now >= record.apart_until.get((topic, peer), -waits_us) + waits_us

    def _remnants(self, node: SimNode, router: Router, peer: Any, now: Micros) -> None:
        if knows(router, router.strategy, peer):
            self._problem(now, node, f"state of {peer} is left after its disconnect")
        if router.strategy.remembers(peer):
            self._problem(now, node, f"counts of {peer} are left after its disconnect")

    def _mutual(self, run: Network, node: SimNode, topic: Any, peer: int, under_way: set[tuple[int, int]]) -> None:
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
        self.count += 1
        if len(self.problems) < MAX_REPORTED:
            self.problems.append(f"{now / 1e6:.6f}s node {node.id}: {what}")


def _has_idontwant(action: Send) -> bool:
    return action.rpc.control is not None and bool(action.rpc.control.idontwant)


def _is_urgent(action: Send) -> bool:
    """Return whether an RPC has only IDONTWANT, which is sent before all others (OUT-3)."""
    return _has_idontwant(action) and not action.rpc.messages and not action.rpc.subscriptions
