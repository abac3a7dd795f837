"""What is known before a run starts, in the queue: its end, faults, joins and leaves, publications, samples."""

from __future__ import annotations

from typing import Any, Protocol

from hearsay.core.language.events import EventKind
from hearsay.core.language.identifiers import Micros
from hearsay.core.language.rpc import Message
from hearsay.sim.plan.plan import Plan
from hearsay.sim.plan.planned_events import Publication
from hearsay.sim.reference.event_queue import EVERYWHERE, Entry, EventQueue
from hearsay.sim.reference.faults import Faults
from hearsay.sim.reference.partial_messages import PartialMessages
from hearsay.sim.reference.transport import Transport
from hearsay.sim.results.recorder import MessageInfo, Recorder

_JOIN = int(EventKind.JOIN)
_LEAVE = int(EventKind.LEAVE)
_PUBLISH = int(EventKind.PUBLISH)
_NOBODY = -1
"""The source of what the plan says."""
END = -2
"""The engine's own kind: the run is over. Its entry comes before all others of its microsecond."""


class PlannedNetwork(Protocol):
    """What a plan happens to."""

    plan: Plan
    script: int
    queue: EventQueue
    faults: Faults
    transport: Transport
    partial_messages: PartialMessages
    recorder: Recorder

    def start_all(self) -> None:
        """The beginning: nodes come up, and connect."""

    def inject(self, publication: Publication, message: Message) -> None:
        """The script hands a message to a few routers."""

    def sample_state(self) -> None: ...

    def sample_scores(self) -> None: ...


def queue_plan(network: PlannedNetwork, from_us: Micros) -> None:
    """What is to happen from this time on."""
    plan = network.plan
    sequence = 0

    def add(time: Micros, node: int, kind: int, source: int, sequence: int, payload: Any) -> None:
        if time >= from_us:
            network.queue.add(time, node, kind, source, sequence, payload)

    add(plan.end_us, EVERYWHERE - 1, END, 0, 0, None)
    add(0, EVERYWHERE, 0, 0, 0, network.start_all)
    for fault in plan.faults:
        sequence += 1
        add(fault.time_us, EVERYWHERE, 0, 0, sequence, lambda fault=fault: network.faults.apply(fault))
    for timed in plan.timed:
        sequence += 1
        kind = _JOIN if timed.join else _LEAVE
        add(timed.time_us, timed.node, kind, _NOBODY, sequence, plan.topics[timed.topic])
    for publication in plan.publications:
        if publication.time_us >= from_us:
            _queue_publication(network, publication)
    scenario = plan.scenario
    for every_us, sample in (
        (scenario.trace.state_interval_us, network.sample_state),
        (scenario.scores.every_us, network.sample_scores),
    ):
        for time in range(every_us, plan.end_us, every_us) if every_us else ():
            sequence += 1
            add(time, EVERYWHERE, 1, 0, sequence, sample)


def _queue_publication(network: PlannedNetwork, publication: Publication) -> None:
    topic = network.plan.topics[publication.topic]
    message = Message(publication.message, topic, bytes(publication.size_bytes), publication.publisher)
    network.transport.learn(message)
    network.partial_messages.planned(message)
    network.recorder.messages[publication.message] = MessageInfo(
        publication.topic,
        publication.publisher,
        publication.time_us,
        publication.size_bytes,
        len(publication.inject),
    )
    time = publication.time_us
    if publication.publisher == network.script:
        inject = lambda: network.inject(publication, message)  # noqa: E731
        network.queue.add(time, EVERYWHERE, 2, 0, publication.message, inject)
    else:
        network.queue.add(time, publication.publisher, _PUBLISH, _NOBODY, publication.message, message)


def is_planned(entry: Entry) -> bool:
    """Whether an entry of the queue is there because the plan says so."""
    _, number, kind, source, *_ = entry
    return number <= EVERYWHERE or (source == _NOBODY and kind in (_JOIN, _LEAVE, _PUBLISH))
