"""The check of a run on the array engine: real routers repeat the calls of some nodes, the witnesses.

The reference engine cannot run a million nodes, but it can run a hundred of them. The array engine notes each call of
a witness, as rows with a negative event (`array/rules/notes.py`). Here real routers get the same calls, and the
checker observes them. Then the rows of kernels and routers are compared: all that a node sends, delivers, rejects,
grafts and prunes, and its scores, at the same microsecond. Copies that are certain to be duplicates are not noted,
since the array engine only counts them (`array/travel/transport.py`). When a real router dials here, no connection
opens: the result of the dial is one of the noted calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Any, cast, overload

import numpy as np
from numpy.typing import NDArray

from hearsay.core.episub.episub import Episub
from hearsay.core.language.actions import Reason
from hearsay.core.language.episub_parts import EpisubPart
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
from hearsay.core.shell.randomness import Purpose, Randomness, sample
from hearsay.partial.formats import Claim
from hearsay.sim.array.machine.compiling import in_python
from hearsay.sim.array.rules.checks import UNCOUNTED, WORDS
from hearsay.sim.array.rules.notes import STARTED, STOPPED
from hearsay.sim.array.rules.partials import HAS_CLAIM, HAS_PARTS
from hearsay.sim.array.travel import parts as coded
from hearsay.sim.array.world import payload
from hearsay.sim.array.world.record import CALL_NOTE, PART_NOTE
from hearsay.sim.checks.checker import Checker
from hearsay.sim.noted_parts import episub_part
from hearsay.sim.plan.engines import CHECKED_NODES
from hearsay.sim.plan.plan import Plan
from hearsay.sim.plan.topology import Dials
from hearsay.sim.reference.engine import ReferenceEngine
from hearsay.sim.reference.nodes import UPLINK_FREE, Entry, SimNode, connect_pair
from hearsay.sim.results.recorder import Part, Recorder
from hearsay.trace.language.formed_rows import score_rows
from hearsay.trace.language.order import canonical
from hearsay.trace.language.rows import Rows, no_rows
from hearsay.trace.language.schema import TraceEvent
from hearsay.trace.read.diff import Difference, diff_rows, render

_TIME, _EVENT, _KIND, _PEER, _REMOTE, _TOPIC, _MESSAGE, _HOPS, _BYTES, _COUNT, _VIA, _DELAY, _REASON = range(13)
_backoff_seconds = in_python(coded.backoff_seconds)
_names_hops = in_python(payload.names_hops)
_USES = tuple(PartialUse)
_WORD = (1 << 64) - 1
_NOT_A_ROUTERS = [int(event) for event in (TraceEvent.NODE_UP, TraceEvent.NODE_DOWN, TraceEvent.STATE)]


class Witnesses:
    """Some nodes of a run on the array engine, checked by real routers after it."""

    def __init__(self, plan: Plan, nodes: Sequence[int]) -> None:
        self.nodes = tuple(nodes)
        self._plan = replace(plan, dials=Dials.from_lists([]))
        self._is_witness = np.zeros(plan.scenario.network.nodes + 1, bool)
        self._is_witness[list(nodes)] = True
        self._kept: list[Rows] = []
        self._findings: tuple[str, ...] = ()

    @classmethod
    def of(cls, plan: Plan) -> Witnesses:
        """Draw the witnesses of a checked run."""
        state = Randomness(plan.scenario.seed).draw(Purpose.WITNESSES)
        return cls(plan, sample(state, range(plan.scenario.network.nodes), CHECKED_NODES))

    def take(self, rows: Rows) -> Rows:
        """Keep the rows and notes of the witnesses; return all rows without notes."""
        self._kept.append(rows[self._is_witness[rows[:, _PEER]]])
        return rows[rows[:, _EVENT] >= 0]

    def found(self, count: int, some: Sequence[Sequence[int]]) -> None:
        """Store what the array engine's own check of all nodes found: the number of findings, and the first ones."""
        self._findings = tuple(self._sentence(*line) for line in some)
        if count > len(some):
            self._findings += (f"{count:,} findings in all",)

    def _sentence(self, time: int, kind: int, node: int, peer: int, topic: int, number: int) -> str:
        """Return a finding as a sentence like the checker's; `time` is -1 for one at the end of the run."""
        if kind == UNCOUNTED:
            return f"{number} more {PartKind(topic).name} sent than received, lost and under way"
        name = sorted(self._plan.topics)[topic] if topic >= 0 else ""
        words = WORDS[kind].format(peer=peer, topic=name, number=number)
        return f"{f'{time / 1e6:.6f}s ' if time >= 0 else ''}node {node}: {words}"

    def repeat(self) -> Repetition:
        """Repeat the calls of the witnesses with real routers, and compare the rows."""
        rows = np.concatenate(self._kept) if self._kept else no_rows()
        notes = rows[(rows[:, _EVENT] < 0) | (rows[:, _EVENT] == TraceEvent.SCORE)]
        replay = _Replay(self._plan)
        for node in self.nodes:
            replay.node(node, notes[notes[:, _PEER] == node])
        ours, theirs = _of_routers(rows, self._plan), _of_routers(replay.rows(), self._plan)
        broken = (*replay.checker.problems, *self._findings)
        difference = diff_rows(ours, theirs)
        return Repetition(replay.calls, len(ours), difference, broken, tuple(replay.late_timers))


@dataclass(frozen=True, slots=True)
class Repetition:
    """The result of repeating the calls of some nodes with real routers."""

    calls: int
    rows: int
    difference: Difference | None
    """The difference between the array engine's nodes and real routers; None if they agree."""
    broken: tuple[str, ...]
    """Invariants that the real routers break, and findings of the array engine's own check."""
    late_timers: tuple[str, ...]
    """Timers that fired when no router had set one."""

    @property
    def problems(self) -> tuple[str, ...]:
        differs: tuple[str, ...] = ()
        if self.difference is not None:
            text = render(self.difference)
            differs = (f"the array engine (A) and a real router (B) differ; please report it:\n{text}",)
        return (*self.broken, *self.late_timers, *differs)


def _of_routers(rows: Rows, plan: Plan) -> Rows:
    """Return the rows of the routers' own actions, without rows and times that faults or links decide."""
    events, kinds = rows[:, _EVENT], rows[:, _KIND]
    left = (events == TraceEvent.DROP_RPC) & (rows[:, _REASON] == Reason.QUEUE_FULL)
    own = (events >= 0) & ~np.isin(events, _NOT_A_ROUTERS) & (left | (events != TraceEvent.DROP_RPC))
    own &= ~((events == TraceEvent.SEND_RPC) & (kinds == PartKind.CONNECT))
    found = rows[own]
    links = plan.scenario.links
    if links.jitter_us or links.uplink_bits_per_s:
        found[:, _DELAY] = -1  # a delay depends on earlier RPCs on the link
    return canonical(found)


class _Nodes(Sequence[SimNode]):
    """The nodes of a network, each created at its first use: a replay uses few of a million."""

    def __init__(self, plan: Plan) -> None:
        self._topics = plan.topics
        self._subscriptions = plan.subscriptions
        self._created: dict[int, SimNode] = {}

    def __len__(self) -> int:
        return len(self._subscriptions)

    @overload
    def __getitem__(self, number: int) -> SimNode: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[SimNode]: ...
    def __getitem__(self, number: int | slice) -> SimNode | Sequence[SimNode]:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        node = self._created.get(number)
        if node is None:
            topics = tuple(self._topics[topic] for topic in self._subscriptions[number])
            node = self._created[number] = SimNode(number, topics)
        return node


class _Engine(ReferenceEngine):
    def make_nodes(self, plan: Plan) -> Sequence[SimNode]:
        return _Nodes(plan)


class _Replay:
    """A reference engine that does not run its queue: events come from notes, except those of uplinks."""

    def __init__(self, plan: Plan) -> None:
        self.calls = 0
        self.late_timers: list[str] = []
        self._rows: list[tuple[int, ...]] = []
        self._plan = plan
        self.checker = Checker(plan)
        recorder = Recorder(listener=lambda row: self._rows.append(row.to_codes()))
        self._engine = _Engine(plan, recorder, self.checker)
        self._engine.queue.buckets.clear()
        self._leaving: list[Entry] = []
        """Queue entries for the times at which uplinks are free."""
        self._messages = {
            each.message: Message(each.message, plan.topics[each.topic], bytes(each.size_bytes), each.publisher)
            for each in plan.publications
        }

    def rows(self) -> Rows:
        self._engine.transport.finish()
        self._engine.recorder.flush()
        return np.array(self._rows, dtype=np.int64).reshape(-1, 13)

    def node(self, number: int, notes: NDArray[np.int64]) -> None:
        """Repeat all calls of one node, and sample its scores where the notes have such rows."""
        samples = notes[:, _EVENT] == TraceEvent.SCORE
        begins = np.flatnonzero(np.diff(np.where(samples, notes[:, _TIME], -1), prepend=-1)).tolist()
        for begin, end in pairwise([0, *begins, len(notes)]):
            if begin < end and samples[begin]:
                self._sample_scores(number, int(notes[begin, _TIME]))
                continue
            for head, parts in _calls(notes[begin:end].tolist()):
                self.calls += 1
                self._let_uplink_work(head[_TIME])
                self._call(head, parts)
        self._let_uplink_work(self._plan.end_us)

    def _let_uplink_work(self, until: int) -> None:
        """Handle the queue entries of uplinks before a time; drop all other entries that the engine queues."""
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

    def _sample_scores(self, number: int, time: int) -> None:
        router = self._engine.nodes[number].router
        if router is not None:
            for peer, parts in router.scores(time):
                for row in score_rows(time, number, cast("int", peer), parts, self._engine.topic_numbers):
                    self._engine.recorder.row(row)

    def _call(self, head: list[int], parts: list[tuple[list[int], list[int]]]) -> None:
        engine = self._engine
        time, kind, remote = head[_TIME], head[_KIND], head[_REMOTE]
        node = engine.nodes[head[_PEER]]
        engine.now = time
        match kind:
            case _ if kind == STARTED:
                node.topics.clear()  # the joins are noted calls of their own
                engine.start(node)
                self._choose_parts(node, {self._plan.topics[line[_TOPIC]] for line, _ in parts})
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
                    engine.transport.holds(engine.nodes[remote], message, parts[0][0][_HOPS])
                engine.receive(node, node.links[remote], RpcReceived(remote, rpc), came)
            case _:
                raise ValueError(f"unknown kind of call in a note: {kind}")

    def _choose_parts(self, node: SimNode, topics: set[Any]) -> None:
        """Start the applications of partial messages in the topics of a node that starts."""
        node.topics |= topics
        self._engine.partial_messages.started(node)
        node.topics.clear()

    def _timer(self, node: SimNode) -> None:
        router = node.router
        assert router is not None
        if router.due is None or router.due > self._engine.now:
            self.late_timers.append(f"node {node.id} at {self._engine.now} us: its router waits for {router.due}")
        self._engine.feed(node, TimerFired())

    def _connected(self, node: SimNode, remote: int, dialled: bool, implied: set[Any]) -> None:
        self._engine.nodes[remote].topics = implied
        ends = (node.id, remote) if dialled else (remote, node.id)
        link = connect_pair(*ends, self._engine.latency.base_us(*ends), None, None)
        link = link if dialled else link.twin
        link.twin.set_open(True)
        node.links[remote] = link
        self._engine.connections.open(node, link)

    def _rpc(self, parts: list[tuple[list[int], list[int]]], has_trees: bool, sender: int) -> Rpc:
        topics = self._plan.topics
        partial, test = None, None
        said_in_trees: list[EpisubPart] = []
        subscriptions: list[Subscription] = []
        messages: list[Message] = []
        control: dict[str, list[Any]] = {"ihave": [], "iwant": [], "graft": [], "prune": [], "idontwant": []}
        control["features"] = []
        for line, ids in parts:
            topic = topics[line[_TOPIC]] if line[_TOPIC] >= 0 else ""
            match line[_KIND]:
                case kind if has_trees and kind >= PartKind.IHAVE:
                    said_in_trees.append(episub_part(kind, topic, ids, sorted(topics)))
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
                    control["features"].append(self._features_of(sender))
                case PartKind.PUBLISH:
                    hops = ids[0] if ids else line[_HOPS] if _names_hops(line[_VIA]) else None
                    messages.append(replace(self._messages[line[_MESSAGE]], hops=hops))
                case PartKind.IHAVE:
                    control["ihave"].append(IHave(topic, tuple(ids)))
                case PartKind.IWANT:
                    control["iwant"].append(IWant(tuple(ids)))
                case PartKind.GRAFT:
                    control["graft"].append(Graft(topic))
                case PartKind.PRUNE:
                    named = tuple(map(PeerInfo, ids[1:]))
                    control["prune"].append(Prune(topic, _backoff_seconds(ids[0]), named) if ids else Prune(topic))
                case PartKind.IDONTWANT:
                    control["idontwant"].append(IDontWant(tuple(ids)))
                case kind:
                    raise ValueError(f"unknown kind of part in a note: {kind}")
        groups = {name: tuple(found) for name, found in control.items()}
        is_empty = not (any(groups.values()) or said_in_trees)
        said = None if is_empty else Control(**groups, episub=tuple(said_in_trees))
        return Rpc(tuple(subscriptions), tuple(messages), said, partial, test)

    def _features_of(self, node: int) -> Features:
        parameters: Any = self._plan.routers[self._plan.router_of[node]][1]
        return Features(parameters.partial_messages, parameters.test_extension)


def _set_in(words: list[int]) -> int:
    """Return the bitmap of parts in these 64-bit words, lowest word first, as one integer."""
    return sum((word & _WORD) << 64 * place for place, word in enumerate(words))


def _has_trees(node: SimNode) -> bool:
    return node.router is not None and isinstance(node.router.strategy, Episub)


def _calls(notes: list[list[int]]) -> Iterator[tuple[list[int], list[tuple[list[int], list[int]]]]]:
    """Yield the row of each call with its parts: the row of each part, and its ids."""
    number = 0

    def call_of(line: list[int]) -> int:
        nonlocal number
        number += line[_EVENT] == CALL_NOTE
        return number

    for _, lines in groupby(notes, call_of):
        head, *rest = lines
        parts: list[tuple[list[int], list[int]]] = []
        for line in rest:
            if line[_EVENT] == PART_NOTE:
                parts.append((line, []))
            else:
                parts[-1][1].append(line[_MESSAGE])
        yield head, parts


def _part(line: list[int]) -> Part:
    return (line[_KIND], line[_TOPIC], line[_MESSAGE], line[_HOPS], line[_BYTES], line[_COUNT], line[_VIA])
