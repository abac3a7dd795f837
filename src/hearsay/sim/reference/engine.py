"""The reference engine: a queue and the real router objects. Any feature, any router; the executable specification.

Rules:

* Events at one node are handled in the order (time, kind, source, sequence); faults and node starts come first in
  their microsecond. Nothing depends on the order in which events were queued.
* The start of a node is one step: its router joins the node's topics, then its connections open.
* An RPC is one event whatever it carries. With a service time (simsub's lag) a node takes its events one after the
  other, each when the one before is done.
* A script node outside the network hands messages in: its copies travel and count like any other, and the routers
  that get them publish them.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from hearsay.core.language.actions import Action, DuplicateReceived
from hearsay.core.language.events import (
    DialFailed,
    Event,
    EventKind,
    Join,
    Leave,
    MessageValidated,
    Publish,
    RpcReceived,
    TimerFired,
)
from hearsay.core.language.identifiers import Micros
from hearsay.core.language.rpc import Message
from hearsay.core.registry import create
from hearsay.core.shell.randomness import Randomness
from hearsay.sim.plan.latency import make_latency
from hearsay.sim.plan.plan import Plan
from hearsay.sim.plan.planned_events import Publication
from hearsay.sim.plan.verdicts import Verdicts
from hearsay.sim.reference.action_handler import ActionHandler
from hearsay.sim.reference.connection_requests import ConnectionRequests
from hearsay.sim.reference.connections import Connections
from hearsay.sim.reference.event_queue import EVERYWHERE, Entry, EventQueue
from hearsay.sim.reference.faults import Faults
from hearsay.sim.reference.introductions import Introductions
from hearsay.sim.reference.nodes import Link, SimNode
from hearsay.sim.reference.observer import Observer
from hearsay.sim.reference.partial_messages import PartialMessages
from hearsay.sim.reference.planned_entries import END, is_planned, queue_plan
from hearsay.sim.reference.samples import sample_scores, sample_state
from hearsay.sim.reference.transport import UPLINK_FREE, Transport
from hearsay.sim.reference.under_way import control_under_way, episub_under_way
from hearsay.sim.results.recorder import Parts, Recorder
from hearsay.sim.results.summarise import Figures, recorded_figures
from hearsay.trace.language.event_rows import (
    node_down_row,
    node_up_row,
)
from hearsay.trace.language.schema import NONE

GC_THRESHOLD = 200_000
_TIMER = int(EventKind.TIMER_FIRED)
_DISCONNECTED = int(EventKind.PEER_DISCONNECTED)
_CONNECTED = int(EventKind.PEER_CONNECTED)
_JOIN = int(EventKind.JOIN)
_LEAVE = int(EventKind.LEAVE)
_PUBLISH = int(EventKind.PUBLISH)
_RPC = int(EventKind.RPC_RECEIVED)
_VALIDATED = int(EventKind.MESSAGE_VALIDATED)
_FAILED = int(EventKind.SEND_FAILED)
_NEVER = -1
_SERVED = len(EventKind)
"""The engine's own kind: a node is done with an event and takes the next."""


class ReferenceEngine:
    """One run of a plan."""

    def __init__(self, plan: Plan, recorder: Recorder, observer: Observer | None = None) -> None:
        scenario = plan.scenario
        self.plan = plan
        self.recorder = recorder
        self.observer = observer
        self.randomness = Randomness(scenario.seed)
        self.now: Micros = 0
        self.script = scenario.network.nodes
        self.topic_numbers: dict[Any, int] = {name: number for number, name in enumerate(plan.topics)}
        self.nodes: list[SimNode] = [
            SimNode(number, tuple(plan.topics[topic] for topic in subscribed))
            for number, subscribed in enumerate(plan.subscriptions)
        ]
        self.introductions = Introductions(plan, self.randomness, self.nodes)
        latency = make_latency(scenario, self.randomness)
        self.latency = latency
        self.queue = EventQueue(latency.minimum_us)
        self.transport = Transport(scenario, latency, self.randomness, self.queue, recorder, self.topic_numbers)
        self.connections = Connections(self, plan.natted, latency, self.queue, self.transport, self.introductions)
        self.faults = Faults(self, self.connections, scenario, self.randomness)
        self.connection_requests = ConnectionRequests(
            self, self.connections, plan, latency, self.randomness, self.queue, self.transport, self.faults
        )
        self.partial_messages = PartialMessages(scenario, self.transport, self.feed)
        self.actions = ActionHandler(
            plan,
            self.topic_numbers,
            self.queue,
            self.transport,
            recorder,
            self.connection_requests,
            self.partial_messages,
        )
        self.stop_requested = False
        self.complete = False
        self._verdicts = Verdicts(plan, self.randomness)
        self._service_us = scenario.service.time_us
        queue_plan(self, 0)

    def run(self, progress: Callable[[Micros], None] | None = None) -> bool:
        """Run to the end; False when a stop was requested before.

        A run makes many small objects and hardly a cycle, so the cyclic collector looks less often meanwhile.
        """
        thresholds = gc.get_threshold()
        gc.set_threshold(GC_THRESHOLD, *thresholds[1:])
        try:
            return self._run(progress)
        finally:
            gc.set_threshold(*thresholds)

    def _run(self, progress: Callable[[Micros], None] | None) -> bool:
        queue = self.queue
        nodes = self.nodes
        recorder = self.recorder
        receive = _NEVER if self._service_us else _RPC
        while (bucket := queue.open_next()) is not None:
            for entry in bucket:
                self.now, number, kind, _, _, payload, event, parts = entry
                if kind == receive:
                    self.receive(nodes[number], payload, event, parts)
                elif kind == END:
                    return self._finish()
                else:
                    self._dispatch(entry)
            recorder.flush_if_full()
            if progress is not None:
                progress(self.now)
            if self.stop_requested:
                self.transport.finish()
                recorder.flush()
                return False
        return self._finish()

    @property
    def delivered(self) -> int:
        return self.recorder.delivered

    @property
    def trace_hash(self) -> str:
        return self.recorder.trace_hash

    def figures(self) -> Figures:
        """What the run came to so far."""
        return recorded_figures(self.plan, self.recorder, self.now)

    def _finish(self) -> bool:
        self.now = self.plan.end_us
        self.complete = True
        if self.plan.scenario.scores.every_us:
            self.sample_scores()
        self.transport.finish()
        self.recorder.flush()
        if self.observer is not None:
            self.observer.finished(self)
        return True

    def control_under_way(self) -> set[tuple[int, int]]:
        """Pairs of sender and receiver with a GRAFT or PRUNE between them, or that wait to be handled."""
        return control_under_way(self._waiting())

    def episub_under_way(self) -> set[tuple[int, int]]:
        """Pairs of sender and receiver with a part of episub's, or news of a connection, between them."""
        return episub_under_way(self._waiting())

    def _waiting(self) -> list[Entry]:
        return [*self.queue.waiting(), *(entry for node in self.nodes for entry in node.backlog)]

    def change_plan(self, plan: Plan) -> None:
        """Go on by another plan, which says the same as this one about everything before `queue.next_us`; between two
        buckets only, as `progress` is called."""
        from_us = self.queue.next_us
        self.queue.discard(is_planned)
        known = self.recorder.messages
        for message in [message for message, info in known.items() if info.published_us >= from_us]:
            del known[message]
        self.plan = plan
        self._verdicts = Verdicts(plan, self.randomness)
        queue_plan(self, from_us)

    # What concerns the whole network.

    def start_all(self) -> None:
        """The beginning: nodes come up, and connect."""
        starting = [node for node in self.nodes if node.id not in self.plan.initially_down]
        for node in starting:
            self.start(node)
        for node in starting:
            if not self._chooses_connections(node):
                for target in self.plan.dials[node.id]:
                    if self.nodes[target].router is not None:
                        self.connections.dial(node, target)
        for node, target in self.introductions.direct_dials():
            self.connections.dial(node, target)

    def inject(self, publication: Publication, message: Message) -> None:
        """The script hands a message to a few routers, over links like any other."""
        self.actions.row_published(self.script, message, self.now)
        for target in publication.inject:
            self.recorder.publishes += 1
            delay = self.transport.script_copy(self.script, target, message, self.now)
            self.queue.add(self.now + delay, target, _PUBLISH, self.script, publication.message, message)

    def sample_state(self) -> None:
        sample_state(self.nodes, self.now, self.recorder)

    def sample_scores(self) -> None:
        sample_scores(self.nodes, self.topic_numbers, self.now, self.recorder)

    # Nodes.

    def start(self, node: SimNode) -> None:
        """Bring a node up: a new router, empty, that joins the node's topics."""
        kind, parameters = self.plan.routers[self.plan.router_of[node.id]]
        node.router = create(kind, node.id, parameters, self.randomness, self.now)
        node.starts += 1
        node.timer_us = None
        self.transport.started(node, self.now)
        self.introductions.tell_direct(node, self.now)
        self.recorder.row(node_up_row(self.now, node.id))
        if self.observer is not None:
            self.observer.node_started(node, self.now)
        self.partial_messages.started(node)
        for topic in sorted(node.topics):
            self.feed(node, Join(topic))
        if node.router.due_moved:
            self._arm_timer(node)

    def stop(self, node: SimNode) -> None:
        """Take a node down; what it knew is gone. Its links are the caller's business."""
        for topic in node.topics:
            self.recorder.left(node.id, self.topic_numbers[topic], self.now)
        node.router = None
        self.transport.forget(node)
        node.validating.clear()
        node.backlog.clear()
        self.recorder.row(node_down_row(self.now, node.id, NONE))
        if self.observer is not None:
            self.observer.node_stopped(node, self.now)

    def _chooses_connections(self, node: SimNode) -> bool:
        return node.router is not None and node.router.strategy.chooses_connections

    # Events.

    def _dispatch(self, entry: Entry) -> None:
        _, number, kind, source, sequence, payload, _, parts = entry
        if number == EVERYWHERE:
            payload()
            return
        node = self.nodes[number]
        if kind == UPLINK_FREE:
            self.transport.uplink_free(number, payload, self.now)
        elif node.router is None:
            self._drop_for_down_node(node, kind, source, payload, parts)
        elif kind == _TIMER and (node.timer_us != payload or sequence != node.starts):
            return  # the deadline was moved, or belongs to an earlier life of the node
        elif kind == _JOIN:
            if payload not in node.topics:
                node.topics.add(payload)
                self.feed(node, Join(payload))
        elif kind == _LEAVE:
            if payload in node.topics:
                node.topics.remove(payload)
                self.feed(node, Leave(payload))
        elif kind == _SERVED:
            if sequence == node.starts:
                self._serve_next(node)
        elif self._service_us:
            node.backlog.append(entry)
            if len(node.backlog) == 1:
                self._start_service(node)
        else:
            self._handle_entry(node, entry)

    def _drop_for_down_node(self, node: SimNode, kind: int, source: int, payload: Any, parts: Parts) -> None:
        if kind == _RPC:
            self.transport.unreachable(payload, parts, self.now)
        elif kind == _PUBLISH and source == self.script:
            self.transport.script_copy_lost(self.script, node.id, payload, self.now)
        elif kind == _JOIN:
            node.topics.add(payload)
        elif kind == _LEAVE:
            node.topics.discard(payload)

    def _start_service(self, node: SimNode) -> None:
        self.queue.add(self.now + self._service_us, node.id, _SERVED, -1, node.starts, None)

    def _serve_next(self, node: SimNode) -> None:
        self._handle_entry(node, node.backlog.popleft())
        if node.backlog:
            self._start_service(node)

    def _handle_entry(self, node: SimNode, entry: Entry) -> None:
        _, _, kind, source, sequence, payload, event_or_life, parts = entry
        if kind == _TIMER:
            if node.timer_us == payload:  # it may have been moved while the node had no time
                self.feed(node, TimerFired())
        elif kind == _RPC:
            self.receive(node, payload, event_or_life, parts)
        elif kind == _PUBLISH:
            self.publish(node, source, payload)
        elif kind == _VALIDATED:
            if sequence == node.starts:
                self.validated(node, payload)
        elif kind == _CONNECTED:
            if not payload.open and not payload.dead:
                self.connections.open(node, payload)
            elif payload.dead and event_or_life == node.starts:
                self.feed(node, DialFailed(payload.destination))
        elif kind == _DISCONNECTED:
            if payload.open:
                self.connections.close(node, payload)
        elif kind == _FAILED:
            self.feed(node, payload)
        elif event_or_life == node.starts:
            self.connection_requests.handle(node, kind, source, payload)

    def receive(self, node: SimNode, link: Link, event: RpcReceived, parts: Parts) -> None:
        router = node.router
        if router is None or not link.up:
            self.transport.unreachable(link, parts, self.now)
            return
        actions = router.handle(event, self.now)
        recorder = self.recorder
        recorder.events += 1
        if self.observer is not None:
            self.observer.handled(node, event, actions, self.now)
        if actions:
            if type(actions[0]) is DuplicateReceived and len(actions) == 1:
                recorder.duplicates += 1  # what happens most of the time
            else:
                self._perform(node, actions, parts)
        if router.due_moved:
            self._arm_timer(node)

    def publish(self, node: SimNode, source: int, message: Message) -> None:
        if source != self.script:
            self.recorder.publishes += 1
        self.feed(node, Publish(message))

    def validated(self, node: SimNode, message: Message) -> None:
        self.feed(node, MessageValidated(message.id, self._verdicts.of(node.id, message.id)))

    def feed(self, node: SimNode, event: Event) -> None:
        """Hand an event to a node's router and do what it asks for."""
        router = node.router
        assert router is not None
        actions = router.handle(event, self.now)
        self.recorder.events += 1
        if self.observer is not None:
            self.observer.handled(node, event, actions, self.now)
        self._perform(node, actions, None)
        if router.due_moved:
            self._arm_timer(node)

    def _perform(self, node: SimNode, actions: list[Action], parts: Parts | None) -> None:
        self.actions.perform(node, actions, self.now, parts)
        if self.partial_messages.waiting:
            self.partial_messages.settle()

    def _arm_timer(self, node: SimNode) -> None:
        if node.router is None:
            return
        node.router.due_moved = False
        due = node.router.due
        if due == node.timer_us:
            return
        node.timer_us = due
        if due is not None:
            self.queue.add(max(due, self.now), node.id, _TIMER, -1, node.starts, due)
