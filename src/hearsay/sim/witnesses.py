"""The check of a run on the array engine: routers of the core repeat the calls of some nodes, the *witnesses*.

The reference engine cannot run a million nodes, but routers of the core can repeat what a few of them did. During the
run, the array engine notes each call of a witness: it writes *notes*, which are rows with a negative event
(`array/rules/checks.py`). After the run, routers of the core get the same calls, and the checker observes these
routers. Then the rows of the kernels and of these routers are compared: sends, deliveries, rejects, grafts, prunes
and scores, each with its time in microseconds.

Copies that are certain to be duplicates are not noted, because the array engine only counts them
(`array/travel/transport.py`). If a router dials in the repetition, nothing happens: the result of the dial is a noted
call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from hearsay.core.episub.episub import Episub
from hearsay.core.language.actions import Reason
from hearsay.core.language.events import (
    ContactsFound,
    DialFailed,
    EventKind,
    Join,
    Leave,
    PeerDisconnected,
    RoundTripMeasured,
    RpcReceived,
    SendFailed,
    TimerFired,
)
from hearsay.core.language.rpc import (
    Control,
    ControlPart,
    ExtensionTest,
    Features,
    Graft,
    IDontWant,
    IHave,
    IWant,
    Message,
    PartialUse,
    PartKind,
    PeerInfo,
    Prune,
    Rpc,
    Subscription,
)
from hearsay.core.rules.randomness import Purpose, Randomness, sample
from hearsay.partial.formats import Claim
from hearsay.sim.array.compiling import in_python
from hearsay.sim.array.episub.overlay_parts import episub_part
from hearsay.sim.array.rules.checks import STARTED, STOPPED, UNCOUNTED, WORDS
from hearsay.sim.array.rules.partials import HAS_CLAIM, HAS_PARTS
from hearsay.sim.array.travel import parts as coded
from hearsay.sim.array.world import payload
from hearsay.sim.array.world.record import CALL_NOTE, PART_NOTE
from hearsay.sim.checks.checker import Checker
from hearsay.sim.plan.engines import CHECKED_NODES
from hearsay.sim.plan.network import Dials
from hearsay.sim.plan.plan import Plan
from hearsay.sim.recorder import Part, Recorder
from hearsay.sim.reference.engine import ReferenceEngine
from hearsay.sim.reference.nodes import UPLINK_FREE, Entry, SimNode, connect_pair
from hearsay.trace.compare_runs import diff_rows, render
from hearsay.trace.language.rows import Rows, canonical, no_rows
from hearsay.trace.language.schema import TraceEvent

_TIME, _EVENT, _KIND, _PEER, _REMOTE, _TOPIC, _MESSAGE, _HOPS, _BYTES, _COUNT, _VIA, _DELAY, _REASON = range(13)
_backoff_seconds = in_python(coded.backoff_seconds)
_names_hops = in_python(payload.names_hops)
_USES = tuple(PartialUse)
_WORD = (1 << 64) - 1
_NOT_OF_ROUTERS = [int(event) for event in (TraceEvent.NODE_UP, TraceEvent.NODE_DOWN, TraceEvent.STATE)]


class Witnesses:
    """The witnesses of one run on the array engine, with their rows and notes."""

    def __init__(self, plan: Plan, nodes: Sequence[int]) -> None:
        self.nodes = tuple(nodes)
        self._plan = replace(plan, dials=Dials.from_lists([]))
        self._is_witness = np.zeros(plan.scenario.network.nodes + 1, bool)
        self._is_witness[list(nodes)] = True
        self._rows: list[Rows] = []
        self._findings: tuple[str, ...] = ()

    @classmethod
    def of(cls, plan: Plan) -> Witnesses:
        """Return `CHECKED_NODES` witnesses, drawn from the nodes of a plan. If there are fewer nodes, return all."""
        state = Randomness(plan.scenario.seed).draw(Purpose.WITNESSES)
        return cls(plan, sample(state, range(plan.scenario.network.nodes), CHECKED_NODES))

    def take(self, rows: Rows) -> Rows:
        """Store the rows and notes of the witnesses, and return the rows of all nodes without the notes."""
        self._rows.append(rows[self._is_witness[rows[:, _PEER]]])
        return rows[rows[:, _EVENT] >= 0]

    def found(self, count: int, some: Sequence[Sequence[int]]) -> None:
        """Store the findings of the kernels' check of all nodes: their number `count`, and the first ones, `some`."""
        self._findings = tuple(self._sentence(*line) for line in some)
        if count > len(some):
            self._findings += (f"{count:,} findings in all",)

    def _sentence(self, time: int, kind: int, node: int, peer: int, topic: int, number: int) -> str:
        """Return a finding of the kernels in the form of the checker's findings. `time` is in microseconds; it is -1
        for a finding at the end of the run."""
        if kind == UNCOUNTED:
            return f"{number} more {PartKind(topic).name} sent than received, lost and under way"
        name = sorted(self._plan.topics)[topic] if topic >= 0 else ""
        words = WORDS[kind].format(peer=peer, topic=name, number=number)
        return f"{f'{time / 1e6:.6f}s ' if time >= 0 else ''}node {node}: {words}"

    def repeat(self) -> Repetition:
        """Repeat the calls of the witnesses with routers of the core, and compare the rows of both."""
        rows = np.concatenate(self._rows) if self._rows else no_rows()
        notes = rows[(rows[:, _EVENT] < 0) | (rows[:, _EVENT] == TraceEvent.SCORE)]
        replay = _Replay(self._plan)
        for node in self.nodes:
            replay.repeat_calls(node, notes[notes[:, _PEER] == node])
        ours, theirs = _router_rows(rows, self._plan), _router_rows(replay.rows(), self._plan)
        problems = (*replay.checker.problems, *self._findings, *replay.late_timers)
        difference = diff_rows(ours, theirs)
        if difference is not None:
            text = render(difference)
            problems += (f"the array engine (A) and a real router (B) differ; please report it:\n{text}",)
        return Repetition(replay.calls, len(ours), problems)


@dataclass(frozen=True, slots=True)
class Repetition:
    """The result of the repetition of calls by routers of the core: `calls` calls, and `rows` rows to compare."""

    calls: int
    rows: int
    problems: tuple[str, ...]
    """The problems that the checker found at the routers of the core, the findings of the kernels' check, the noted
    timers that no router had set, and the first difference between the rows."""


def _router_rows(rows: Rows, plan: Plan) -> Rows:
    """Return the rows that actions of routers cause, in canonical order.

    Rows of faults, losses, samples of state and CONNECTs are left out. A drop by a full queue of an uplink stays,
    because it stands for a send. If links have jitter or a limited uplink, each time of flight becomes -1, because it
    depends on other RPCs.
    """
    events, kinds = rows[:, _EVENT], rows[:, _KIND]
    left = (events == TraceEvent.DROP_RPC) & (rows[:, _REASON] == Reason.QUEUE_FULL)
    own = (events >= 0) & ~np.isin(events, _NOT_OF_ROUTERS) & (left | (events != TraceEvent.DROP_RPC))
    own &= ~((events == TraceEvent.SEND_RPC) & (kinds == PartKind.CONNECT))
    found = rows[own]
    links = plan.scenario.links
    if links.jitter_us or links.uplink_bits_per_s:
        found[:, _DELAY] = -1  # a delay depends on earlier RPCs on the link
    return canonical(found)


class _Nodes(dict[int, SimNode]):
    """The nodes of a network by number. A node is created at its first use, because most nodes are never used."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self._topics = plan.topics
        self._subscriptions = plan.subscriptions

    def __missing__(self, number: int) -> SimNode:
        node = self[number] = SimNode(number, tuple(self._topics[topic] for topic in self._subscriptions[number]))
        return node


class _Engine(ReferenceEngine):
    """A reference engine that creates nodes at their first use."""

    def make_nodes(self, plan: Plan) -> Sequence[SimNode]:
        return cast("Sequence[SimNode]", _Nodes(plan))


class _Replay:
    """A reference engine whose events come from the notes. Its own queue supplies only the events of uplinks."""

    def __init__(self, plan: Plan) -> None:
        self.calls = 0
        self.late_timers: list[str] = []
        """A description of each noted timer that a router had not set to fire by then."""
        self._rows: list[tuple[int, ...]] = []
        self._plan = plan
        self.checker = Checker(plan)
        recorder = Recorder(listener=lambda row: self._rows.append(row.to_codes()))
        self._engine = _Engine(plan, recorder, self.checker)
        self._engine.queue.buckets.clear()
        self._leaving: list[Entry] = []
        """The events of uplinks that are not handled yet, as entries of the queue."""
        self._messages = {
            each.message: Message(each.message, plan.topics[each.topic], bytes(each.size_bytes), each.publisher)
            for each in plan.publications
        }

    def rows(self) -> Rows:
        self._engine.transport.finish()
        self._engine.recorder.flush()
        return np.array(self._rows, dtype=np.int64).reshape(-1, 13)

    def repeat_calls(self, number: int, notes: NDArray[np.int64]) -> None:
        """Repeat all calls of one node, and sample its scores at the times at which `notes` has rows of scores."""
        samples = notes[:, _EVENT] == TraceEvent.SCORE
        begins = np.flatnonzero(np.diff(np.where(samples, notes[:, _TIME], -1), prepend=-1)).tolist()
        for begin, end in pairwise([0, *begins, len(notes)]):
            if begin < end and samples[begin]:
                self._engine.now = int(notes[begin, _TIME])
                self._engine.sample_scores(self._engine.nodes[number])
                continue
            for head, parts in _calls(notes[begin:end].tolist()):
                self.calls += 1
                self._let_uplink_work(head[_TIME])
                self._call(head, parts)
        self._let_uplink_work(self._plan.end_us)

    def _let_uplink_work(self, until: int) -> None:
        """Handle the events of uplinks before the time `until`. Remove all other events from the queue, because they
        are among the noted calls."""
        engine, buckets = self._engine, self._engine.queue.buckets
        while True:
            self._leaving += [entry for entries in buckets.values() for entry in entries if entry[2] == UPLINK_FREE]
            buckets.clear()
            due = min((entry[:2] for entry in self._leaving if entry[0] < until), default=None)
            if due is None:
                return
            entry = next(entry for entry in self._leaving if entry[:2] == due)
            self._leaving.remove(entry)
            engine.now = entry[0]
            engine.transport.uplink_free(entry[1], entry[5], entry[0])

    def _call(self, head: list[int], parts: list[tuple[list[int], list[int]]]) -> None:
        """Repeat one call. `head` is the row of the call. `parts` has the row and the words of each part, as `_calls`
        yields them."""
        engine = self._engine
        time, kind, remote = head[_TIME], head[_KIND], head[_REMOTE]
        node = engine.nodes[head[_PEER]]
        engine.now = time
        match kind:
            case _ if kind == STARTED:
                node.topics.clear()  # the joins are noted calls of their own
                engine.start(node)
                node.topics |= {self._plan.topics[line[_TOPIC]] for line, _ in parts}
                engine.partial_messages.start_applications(node)  # in the topics of the noted parts
                node.topics.clear()
            case _ if kind == STOPPED:
                engine.stop(node)
                node.links.clear()
            case EventKind.TIMER_FIRED:
                self._timer(node)
            case EventKind.PEER_CONNECTED:
                implied = {self._plan.topics[line[_TOPIC]] for line, _ in parts}
                self._connected(node, remote, head[_MESSAGE] == 1, implied)
            case EventKind.PEER_DISCONNECTED:
                del node.links[remote]
                engine.feed(node, PeerDisconnected(remote))
            case EventKind.DIAL_FAILED:
                engine.feed(node, DialFailed(remote))
            case EventKind.ROUND_TRIP_MEASURED:
                engine.feed(node, RoundTripMeasured(remote, head[_MESSAGE]))
            case EventKind.CONTACTS_FOUND:
                engine.feed(node, ContactsFound(self._plan.topics[head[_TOPIC]], tuple(parts[0][1])))
            case EventKind.JOIN:
                node.topics.add(self._plan.topics[head[_TOPIC]])
                engine.feed(node, Join(self._plan.topics[head[_TOPIC]]))
            case EventKind.LEAVE:
                node.topics.discard(self._plan.topics[head[_TOPIC]])
                engine.feed(node, Leave(self._plan.topics[head[_TOPIC]]))
            case EventKind.PUBLISH:
                engine.publish(node, remote, self._messages[head[_MESSAGE]])
            case EventKind.MESSAGE_VALIDATED:
                engine.validated(node, self._messages[head[_MESSAGE]])
            case EventKind.SEND_FAILED:
                engine.feed(node, SendFailed(remote, self._rpc(parts, _has_trees(node), node.id)))
            case EventKind.RPC_RECEIVED:
                came = tuple(_part(line) for line, _ in parts)
                rpc = self._rpc(parts, _has_trees(node), remote)
                if rpc.partial is not None:
                    message = self._messages[parts[0][1][1]]
                    engine.transport.set_hops(engine.nodes[remote], message, parts[0][0][_HOPS])
                engine.receive(node, node.links[remote], RpcReceived(remote, rpc), came)
            case _:
                raise ValueError(f"unknown kind of call in a note: {kind}")

    def _timer(self, node: SimNode) -> None:
        router = node.router
        assert router is not None
        if router.due is None or router.due > self._engine.now:
            self.late_timers.append(f"node {node.id} at {self._engine.now} us: its router waits for {router.due}")
        self._engine.feed(node, TimerFired())

    def _connected(self, node: SimNode, remote: int, dialled: bool, implied: set[Any]) -> None:
        """Connect a node to a peer. `implied` are topics of the peer that a router learns without a hello."""
        self._engine.nodes[remote].topics = implied
        ends = (node.id, remote) if dialled else (remote, node.id)
        link = connect_pair(*ends, self._engine.latency.base_us(*ends), None, None)
        link = link if dialled else link.twin
        link.twin.set_open(True)
        node.links[remote] = link
        self._engine.connections.open(node, link)

    def _rpc(self, parts: list[tuple[list[int], list[int]]], has_trees: bool, sender: int) -> Rpc:
        """Return the RPC with these noted parts. `has_trees` is True if the router of the repeated node is episub."""
        topics = self._plan.topics
        partial, test = None, None
        subscriptions: list[Subscription] = []
        messages: list[Message] = []
        control: list[ControlPart] = []
        for line, ids in parts:
            topic = topics[line[_TOPIC]] if line[_TOPIC] >= 0 else ""
            match line[_KIND]:
                case kind if has_trees and kind >= PartKind.IHAVE:
                    control.append(episub_part(kind, topic, ids, sorted(topics)))
                case PartKind.SUBSCRIBE | PartKind.UNSUBSCRIBE as kind:
                    use = _USES[ids[0] if ids else 0]
                    subscriptions.append(Subscription(topic, kind == PartKind.SUBSCRIBE, use))
                case PartKind.PARTIAL | PartKind.METADATA:
                    _, message, content, *sets = ids
                    size = len(sets) // 3
                    named = [_set_in(sets[place : place + size]) for place in range(0, len(sets), size)]
                    held = named[0] if content & HAS_PARTS else None
                    claim = Claim(*named[1:]) if content & HAS_CLAIM else None
                    partial = self._engine.partial_messages.partial(topic, message, held, claim)
                case PartKind.EXTENSION:
                    test = ExtensionTest()
                case PartKind.FEATURES:
                    parameters: Any = self._plan.routers[self._plan.router_of[sender]][1]
                    control.append(Features(parameters.partial_messages, parameters.test_extension))
                case PartKind.PUBLISH:
                    hops = ids[0] if ids else line[_HOPS] if _names_hops(line[_VIA]) else None
                    messages.append(replace(self._messages[line[_MESSAGE]], hops=hops))
                case PartKind.IHAVE:
                    control.append(IHave(topic, tuple(ids)))
                case PartKind.IWANT:
                    control.append(IWant(tuple(ids)))
                case PartKind.GRAFT:
                    control.append(Graft(topic))
                case PartKind.PRUNE:
                    named = tuple(map(PeerInfo, ids[1:]))
                    control.append(Prune(topic, _backoff_seconds(ids[0]), named) if ids else Prune(topic))
                case PartKind.IDONTWANT:
                    control.append(IDontWant(tuple(ids)))
                case kind:
                    raise ValueError(f"unknown kind of part in a note: {kind}")
        control_parts = Control.of(control) if control else None
        return Rpc(tuple(subscriptions), tuple(messages), control_parts, partial, test)


def _set_in(words: list[int]) -> int:
    """Return a bitmap of parts as one integer. Its 64-bit words begin with the lowest one."""
    return sum((word & _WORD) << 64 * place for place, word in enumerate(words))


def _has_trees(node: SimNode) -> bool:
    return node.router is not None and isinstance(node.router.strategy, Episub)


def _calls(notes: list[list[int]]) -> Iterator[tuple[list[int], list[tuple[list[int], list[int]]]]]:
    """Yield the row of each noted call, and the parts of the call. A part is a row and the words of the rows that
    follow it, such as ids."""
    begins = [place for place, line in enumerate(notes) if line[_EVENT] == CALL_NOTE]
    for begin, end in pairwise([*begins, len(notes)]):
        parts: list[tuple[list[int], list[int]]] = []
        for line in notes[begin + 1 : end]:
            if line[_EVENT] == PART_NOTE:
                parts.append((line, []))
            else:
                parts[-1][1].append(line[_MESSAGE])
        yield notes[begin], parts


def _part(line: list[int]) -> Part:
    return (line[_KIND], line[_TOPIC], line[_MESSAGE], line[_HOPS], line[_BYTES], line[_COUNT], line[_VIA])
