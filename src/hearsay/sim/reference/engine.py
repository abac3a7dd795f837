"""The reference engine: a queue of events and the router objects of the core. It supports every router and every
feature, and its trace is the one that the array engine must reproduce.

Rules:

* The events of one node are handled in the order of time, kind, source and sequence. Faults and the starts of nodes
  precede all other events of their microsecond, except the end of the run.
* The start of a node is one step: its router joins the node's topics, then its connections open.
* An RPC is one event, with any number of parts. With a service time (simsub's lag) a node handles one event at a
  time, and each event except a join or a leave takes this time.
* The script is a sender outside the network. It sends messages to some nodes, and the routers that receive these
  messages publish them. The script's copies are recorded like those of nodes. Only latency delays them: jitter, loss
  and uplinks do not affect them.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any, cast

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
from hearsay.core.shell.contract import RouterFailed
from hearsay.core.shell.router import Router
from hearsay.core.shell.strategy import Dialling
from hearsay.sim.plan.events import Publication
from hearsay.sim.plan.plan import Plan, Verdicts
from hearsay.sim.recorder import MessageInfo, Parts, Recorder
from hearsay.sim.reference.action_handler import ActionHandler, PartialMessages, router_failure
from hearsay.sim.reference.connections import Connections, Faults, Introductions
from hearsay.sim.reference.nodes import (
    DIAL_ARRIVAL,
    END,
    EVERYWHERE,
    FAULT,
    SAMPLE,
    SCRIPT,
    SERVED,
    UPLINK_FREE,
    Entry,
    Link,
    Network,
    Observer,
    SimNode,
)
from hearsay.sim.reference.transport import Transport
from hearsay.sim.summary import Figures, recorded_figures
from hearsay.trace.language.event_rows import node_down_row, node_up_row, state_row
from hearsay.trace.language.schema import NONE, score_rows

_GC_THRESHOLD = 200_000
_NO_KIND = -1
_PLAN = -1
"""The source of the plan's entries for joins, leaves and publications of nodes."""


class ReferenceEngine(Network):
    """One run of a plan on the reference engine."""

    def __init__(self, plan: Plan, recorder: Recorder, observer: Observer | None = None) -> None:
        super().__init__(plan, recorder)
        self.observer = observer
        self.introductions = Introductions(self)
        self.transport = Transport(self)
        self.connections = Connections(self, self.transport, self.introductions)
        self.faults = Faults(self, self.connections)
        self.partial_messages = PartialMessages(self, self.transport)
        self.actions = ActionHandler(self, self.transport, self.connections, self.partial_messages)
        self.step_us: Micros = self.queue.width_us
        """The length of the steps of simulated time after which `run` calls `progress`; steps without events are
        skipped. Unlike the array engine, this engine ignores a changed value."""
        self.stop_requested = False
        """The caller may set it, from any thread, to end the run early."""
        self.complete = False
        self._verdicts = Verdicts(plan, self.randomness)
        self._service_us = plan.scenario.service.time_us
        self._queue_plan(0)

    def run(self, progress: Callable[[Micros], None] | None = None) -> bool:
        """Run to the end; return False if a requested stop ended the run early.

        The engine calls `progress` with the simulated time after each step of the run but the last. A run creates
        many small objects and hardly any reference cycles. So Python's cyclic garbage collector runs less often than
        usual until the end.
        """
        thresholds = gc.get_threshold()
        gc.set_threshold(_GC_THRESHOLD, *thresholds[1:])
        try:
            return self._run(progress)
        finally:
            gc.set_threshold(*thresholds)

    def _run(self, progress: Callable[[Micros], None] | None) -> bool:
        queue = self.queue
        nodes = self.nodes
        recorder = self.recorder
        receive = _NO_KIND if self._service_us else int(EventKind.RPC_RECEIVED)
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

    def _finish(self) -> bool:
        self.now = self.plan.end_us
        self.complete = True
        if self.plan.scenario.scores.every_us:
            self._sample_all_scores()
        self.transport.finish()
        self.recorder.flush()
        if self.observer is not None:
            self.observer.finished(self)
        return True

    @property
    def delivered(self) -> int:
        """The number of deliveries so far."""
        return self.recorder.delivered

    @property
    def trace_hash(self) -> str:
        """The hash of the trace rows until the last flush of the recorder; after the run, of all rows."""
        return self.recorder.trace_hash

    def figures(self) -> Figures:
        """Return the figures of the run, which has ended: memberships of nodes in topics end now."""
        return recorded_figures(self.plan, self.recorder, self.now)

    def router_failure(self, error: Exception) -> RouterFailed | None:
        """Return the failure of a router that caused this error of `run`; None if no router caused it."""
        return router_failure(error, self.plan, self.now, __file__)

    @property
    def changeable(self) -> ReferenceEngine:
        """The engine itself, because its plan can change during the run."""
        return self

    @property
    def next_us(self) -> Micros:
        """The first simulated time at which the plan can still change: the beginning of the next bucket."""
        return self.queue.next_us

    def is_up(self, node: int) -> bool:
        """Return whether a node is up now."""
        return self.nodes[node].router is not None

    def change_plan(self, plan: Plan) -> None:
        """Continue with another plan, which must equal the present plan before `next_us`. Call this method only from
        `progress`."""
        from_us = self.queue.next_us
        self.queue.discard(_is_planned)
        known = self.recorder.messages
        for message in [message for message, info in known.items() if info.published_us >= from_us]:
            del known[message]
        self.plan = plan
        self._verdicts = Verdicts(plan, self.randomness)
        self._queue_plan(from_us)

    # The plan.

    def _queue_plan(self, from_us: Micros) -> None:
        """Queue all entries of the plan whose time is `from_us` or later."""
        plan = self.plan
        sequence = 0

        def add(time: Micros, node: int, kind: int, source: int, sequence: int, payload: Any) -> None:
            if time >= from_us:
                self.queue.add(time, node, kind, source, sequence, payload)

        add(plan.end_us, END, END, 0, 0, None)
        add(0, EVERYWHERE, FAULT, 0, 0, self._start_all)
        for fault in plan.faults:
            sequence += 1
            add(fault.time_us, EVERYWHERE, FAULT, 0, sequence, lambda fault=fault: self.faults.apply(fault))
        for timed in plan.timed:
            sequence += 1
            kind = EventKind.JOIN if timed.join else EventKind.LEAVE
            add(timed.time_us, timed.node, kind, _PLAN, sequence, plan.topics[timed.topic])
        for publication in plan.publications:
            if publication.time_us >= from_us:
                self._queue_publication(publication)
        scenario = plan.scenario
        for every_us, sample in (
            (scenario.trace.state_interval_us, self._sample_state),
            (scenario.scores.every_us, self._sample_all_scores),
        ):
            for time in range(every_us, plan.end_us, every_us) if every_us else ():
                sequence += 1
                add(time, EVERYWHERE, SAMPLE, 0, sequence, sample)

    def _queue_publication(self, publication: Publication) -> None:
        number, publisher, size_bytes = publication.message, publication.publisher, publication.size_bytes
        message = Message(number, self.plan.topics[publication.topic], bytes(size_bytes), publisher)
        self.transport.register(message)
        self.partial_messages.register(message)
        self.recorder.messages[number] = MessageInfo(
            publication.topic, publisher, publication.time_us, size_bytes, len(publication.inject)
        )
        if publisher == self.script:
            inject = lambda: self._inject(publication, message)  # noqa: E731
            self.queue.add(publication.time_us, EVERYWHERE, SCRIPT, 0, number, inject)
        else:
            self.queue.add(publication.time_us, publisher, EventKind.PUBLISH, _PLAN, number, message)

    def _start_all(self) -> None:
        """Start the nodes that are up at the beginning, and connect them."""
        starting = [node for node in self.nodes if node.id not in self.plan.initially_down]
        for node in starting:
            self.start(node)
        for node in starting:
            if node.router is not None and node.router.strategy.dialling is Dialling.BY_DRIVER:
                for target in self.plan.dials[node.id]:
                    if self.nodes[target].router is not None:
                        self.connections.dial(node, target)
        for node, target in self.introductions.direct_dials():
            self.connections.dial(node, target)

    def _inject(self, publication: Publication, message: Message) -> None:
        """Send a message of the script to the nodes that the plan names; these nodes publish it when it arrives."""
        self.actions.record_publication(self.script, message, self.now)
        for target in publication.inject:
            self.recorder.publishes += 1
            delay = self.transport.record_script_copy(self.script, target, message, self.now)
            self.queue.add(self.now + delay, target, EventKind.PUBLISH, self.script, publication.message, message)

    def _sample_state(self) -> None:
        """Record the size of every router's state."""
        for node in self.nodes:
            if node.router is not None:
                size = node.router.state_size(self.now)
                self.recorder.row(state_row(self.now, node.id, size.bytes, size.entries))

    def _sample_all_scores(self) -> None:
        for node in self.nodes:
            self.sample_scores(node)

    def sample_scores(self, node: SimNode) -> None:
        """Record the scores that the router of a node gives to its peers; do nothing if the node is down."""
        for peer, parts in node.router.scores(self.now) if node.router is not None else ():
            for row in score_rows(self.now, node.id, cast("int", peer), parts, self.topic_numbers):
                self.recorder.row(row)

    # Nodes.

    def start(self, node: SimNode) -> None:
        kind, parameters = self.plan.routers[self.plan.router_of[node.id]]
        node.router = create(kind, node.id, parameters, self.randomness, self.now)
        node.starts += 1
        node.timer_us = None
        self.transport.create_uplink(node, self.now)
        self.introductions.announce_direct(node, self.now)
        self.recorder.row(node_up_row(self.now, node.id))
        if self.observer is not None:
            self.observer.node_started(node, self.now)
        self.partial_messages.start_applications(node)
        for topic in sorted(node.topics):
            self.feed(node, Join(topic))
        if node.router.due_moved:
            self._arm_timer(node, node.router)

    def stop(self, node: SimNode) -> None:
        for topic in node.topics:
            self.recorder.left(node.id, self.topic_numbers[topic], self.now)
        node.router = None
        self.transport.forget_node(node)
        node.validating.clear()
        node.backlog.clear()
        self.recorder.row(node_down_row(self.now, node.id, NONE))
        if self.observer is not None:
            self.observer.node_stopped(node, self.now)

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
        elif kind == EventKind.TIMER_FIRED and (node.timer_us != payload or sequence != node.starts):
            return  # the router has set another deadline since, or the node has restarted
        elif kind == EventKind.JOIN:
            if payload not in node.topics:
                node.topics.add(payload)
                self.feed(node, Join(payload))
        elif kind == EventKind.LEAVE:
            if payload in node.topics:
                node.topics.remove(payload)
                self.feed(node, Leave(payload))
        elif kind == SERVED:
            if sequence == node.starts:
                self._handle_entry(node, node.backlog.popleft())
                if node.backlog:
                    self._start_service(node)
        elif self._service_us:
            node.backlog.append(entry)
            if len(node.backlog) == 1:
                self._start_service(node)
        else:
            self._handle_entry(node, entry)

    def _drop_for_down_node(self, node: SimNode, kind: int, source: int, payload: Any, parts: Parts) -> None:
        """Handle an entry for a node that is down: record the loss of an RPC or of a copy from the script, and update
        the topics that the node joins when it starts."""
        if kind == EventKind.RPC_RECEIVED:
            self.transport.record_unreachable(payload, parts, self.now)
        elif kind == EventKind.PUBLISH and source == self.script:
            self.transport.record_lost_script_copy(self.script, node.id, payload, self.now)
        elif kind == EventKind.JOIN:
            node.topics.add(payload)
        elif kind == EventKind.LEAVE:
            node.topics.discard(payload)

    def _start_service(self, node: SimNode) -> None:
        self.queue.add(self.now + self._service_us, node.id, SERVED, -1, node.starts, None)

    def _handle_entry(self, node: SimNode, entry: Entry) -> None:
        _, _, kind, source, sequence, payload, event_or_life, parts = entry
        match kind:
            case EventKind.TIMER_FIRED:
                if node.timer_us == payload:  # the router may have set another deadline while the event waited
                    self.feed(node, TimerFired())
            case EventKind.RPC_RECEIVED:
                self.receive(node, payload, event_or_life, parts)
            case EventKind.PUBLISH:
                self.publish(node, source, payload)
            case EventKind.MESSAGE_VALIDATED:
                if sequence == node.starts:
                    self.validated(node, payload)
            case EventKind.PEER_CONNECTED:
                if not payload.open and not payload.dead:
                    self.connections.open(node, payload)
                elif payload.dead and event_or_life == node.starts:
                    self.feed(node, DialFailed(payload.destination))
            case EventKind.PEER_DISCONNECTED:
                if payload.open:
                    self.connections.close(node, payload)
            case EventKind.SEND_FAILED:
                self.feed(node, payload)
            case _:
                if event_or_life == node.starts:
                    self.connections.pass_result(node, kind, source, payload)

    def receive(self, node: SimNode, link: Link, event: RpcReceived, parts: Parts) -> None:
        """Pass an RPC to a node's router, and perform the actions that the router returns. If the node or the link is
        not up, record the RPC as lost instead."""
        router = node.router
        if router is None or not link.up:
            self.transport.record_unreachable(link, parts, self.now)
            return
        # These lines repeat `feed` to save a call. Nearly all events are RPCs, and most RPCs are a single duplicate.
        actions = router.handle(event, self.now)
        recorder = self.recorder
        recorder.events += 1
        if self.observer is not None:
            self.observer.handled(node, event, actions, self.now)
        if actions:
            if type(actions[0]) is DuplicateReceived and len(actions) == 1:
                recorder.duplicates += 1
            else:
                self._perform(node, actions, parts)
        if router.due_moved:
            self._arm_timer(node, router)

    def publish(self, node: SimNode, source: int, message: Message) -> None:
        """Let a node publish a message of its own, or one that the script has sent to it."""
        if source != self.script:
            self.recorder.publishes += 1
        self.feed(node, Publish(message))

    def validated(self, node: SimNode, message: Message) -> None:
        """Pass the application's verdict on a message to a node's router."""
        self.feed(node, MessageValidated(message.id, self._verdicts.of(node.id, message.id)))

    def feed(self, node: SimNode, event: Event) -> None:
        """Pass an event other than an RPC to a node's router, and perform the actions that the router returns."""
        router = node.router
        assert router is not None
        actions = router.handle(event, self.now)
        self.recorder.events += 1
        if self.observer is not None:
            self.observer.handled(node, event, actions, self.now)
        if len(actions) == 1 and type(actions[0]) is DuplicateReceived:
            self.recorder.duplicates += 1
        elif actions:
            self._perform(node, actions, None)
        if router.due_moved:
            self._arm_timer(node, router)

    def _perform(self, node: SimNode, actions: list[Action], parts: Parts | None) -> None:
        """Perform actions of a node's router. `parts` are the parts of the RPC that caused the actions; None if
        another event caused them."""
        self.actions.perform(node, actions, self.now, parts)
        if self.partial_messages.waiting:
            self.partial_messages.run_applications()

    def _arm_timer(self, node: SimNode, router: Router) -> None:
        """Queue the timer of a node whose router has set another deadline."""
        router.due_moved = False
        due = router.due
        if due != node.timer_us:
            node.timer_us = due
            if due is not None:
                self.queue.add(max(due, self.now), node.id, EventKind.TIMER_FIRED, -1, node.starts, due)


def _is_planned(entry: Entry) -> bool:
    """Return whether an entry comes from the plan."""
    _, number, kind, source, *_ = entry
    if number in (EVERYWHERE, END):
        return kind != DIAL_ARRIVAL
    return source == _PLAN and kind in (EventKind.JOIN, EventKind.LEAVE, EventKind.PUBLISH)
