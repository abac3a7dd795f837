"""Replay of a conversation as a run of the simulator, with the rows of the trace after each command.

A conversation can be replayed if all its peers are routers with kernels, if they connect before the first delivery,
and if no draw matters: draws depend on the names of peers, which are numbers in a run. Until `deliver`, all RPCs are
in flight, because commands are a millisecond apart. The heartbeats of a node are at the script's `beat` commands: the
first by a parameter, the others because `beat` advances the script's clock to the time at which they are due.

A trace has less than a conversation shows: of IHAVE and IWANT only the number of ids, of PRUNE only the topic.
"""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from conversation import Conversation, chosen_router

from hearsay.core.mesh.parameters import MeshParameters
from hearsay.core.registry import RouterKind
from hearsay.core.shell.parameters import RouterParameters
from hearsay.sim.plan.engines import WITH_KERNELS
from hearsay.sim.plan.plan import Plan, make_plan
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.trace.language.rows import Rows, canonical, with_derived
from hearsay.trace.language.schema import PartKind, TraceEvent, TraceRow, wire_name

LATENCY_MS = 20
COMMAND_MS = 1
DELIVER_MS = 200
NEVER_MS = 24 * 3600 * 1000
WITHOUT_EFFECT = ("state", "quiet", "loud")
SENT = re.compile(r"(?P<who>\w+ -> \w+): (?P<parts>.+?)(?P<via>( \(\w+\))?)")


class Unplayable(Exception):
    """A command that a run of the simulator cannot reproduce."""


class Replay:
    def __init__(self, script: str) -> None:
        self._routers: dict[str, tuple[RouterKind, RouterParameters]] = {}
        self._dials: list[tuple[str, str]] = []
        self._joined: defaultdict[str, list[str]] = defaultdict(list)
        """Nodes that join before the first delivery, by topic."""
        self._timed: list[tuple[int, str, str, str]] = []
        self._cuts: list[tuple[int, str, str]] = []
        self._beats: dict[str, list[int]] = {}
        self._messages: list[str] = []
        self._now_ms = 0
        self._has_delivered = False
        self._starts_ms = [0]
        """Start times of the commands; all commands until the first `deliver` are one."""
        self.expected: list[list[str]] = [[]]
        """The sorted lines of the conversation after the command of each start time."""
        conversation = Conversation()
        for line in script.splitlines():
            if line.startswith("> ") and line.split()[1] not in WITHOUT_EFFECT:
                self._add(line.removeprefix("> "), conversation)
        for lines in self.expected:
            lines.sort()

    def _add(self, command: str, conversation: Conversation) -> None:
        verb, *words = command.split()
        add = getattr(self, f"_{verb}", None)
        if add is None:
            raise Unplayable(command)
        before_ms = self._now_ms
        add(*words)
        if self._has_delivered and self._now_ms > before_ms and verb != "deliver":
            self._starts_ms.append(self._now_ms)
            self.expected.append([])
        self._has_delivered |= verb == "deliver"
        lines = conversation.play(command)
        self.expected[-1] += [part for line in lines if line != "(nothing)" for part in _as_in_a_trace(line)]

    def _node(self, name: str, router: str, *settings: str) -> None:
        if router not in WITH_KERNELS:
            raise Unplayable(f"{router} has no kernels")
        self._routers[name] = chosen_router(router, settings)

    def _connect(self, one: str, other: str) -> None:
        if self._has_delivered or {one, other} - set(self._routers):
            raise Unplayable("connections must be made before the first deliver, and between routers")
        self._dials.append((one, other))

    def _join(self, name: str, topic: str) -> None:
        if self._has_delivered:
            self._at_a_time(name, "join", topic)
        else:
            self._joined[topic].append(name)

    def _leave(self, name: str, topic: str) -> None:
        self._at_a_time(name, "leave", topic)

    def _publish(self, name: str, topic: str, message: str) -> None:
        self._messages.append(message)
        self._at_a_time(name, "publish", topic)

    def _at_a_time(self, name: str, action: str, topic: str) -> None:
        self._now_ms += COMMAND_MS
        self._timed.append((self._now_ms, name, action, topic))
        self._joined.setdefault(topic, [])

    def _disconnect(self, one: str, other: str) -> None:
        self._now_ms += COMMAND_MS
        self._cuts.append((self._now_ms, one, other))

    def _deliver(self) -> None:
        self._now_ms += DELIVER_MS

    def _wait(self, span_ms: str) -> None:
        self._now_ms += int(span_ms)

    def _beat(self, name: str) -> None:
        before = self._beats.setdefault(name, [])
        parameters = self._routers[name][1]
        if not isinstance(parameters, MeshParameters):
            raise Unplayable(f"{name} has no heartbeat")
        due_ms = before[-1] + parameters.heartbeat_interval_ms if before else self._now_ms + COMMAND_MS
        if due_ms <= self._now_ms:
            raise Unplayable(f"a heartbeat of {name} was due before")
        before.append(due_ms)
        self._now_ms = due_ms

    def plan(self) -> Plan:
        """Return the plan of the run, with a router and parameters for each node."""
        with TemporaryDirectory() as folder:
            numbers = {name: number for number, name in enumerate(self._routers)}
            edges = [f"{numbers[one]} {numbers[other]}" for one, other in self._dials]
            Path(folder, "edges").write_text("\n".join(edges), encoding="utf-8")
            file = Path(folder, "scenario.toml")
            file.write_text("\n".join(self._scenario(numbers)), encoding="utf-8")
            plan = make_plan(load_scenario(file))
        routers = tuple((kind, self._with_beats(name, given)) for name, (kind, given) in self._routers.items())
        return replace(plan, routers=routers, router_of=array("H", range(len(routers))))

    def _scenario(self, numbers: dict[str, int]) -> Iterator[str]:
        yield f"warmup_s = 0\nlinger_s = {_seconds(self._now_ms)}"
        yield f"[network]\nnodes = {len(numbers)}\ntopology = 'edge_list'\nedges_file = 'edges'"
        yield f"[links]\nlatency = 'constant'\nvalue_ms = {LATENCY_MS}"
        yield "[workload]\nmessages = 0\npublishers = 'any'\n[faults]\ndetection_s = 0\n[trace]\nstate_interval_s = 0"
        for topic, names in self._joined.items():
            yield f"[[topics]]\nname = '{topic}'\nsubscribers = {[numbers[name] for name in names]}"
        for at_ms, name, action, topic in self._timed:
            yield f"[[timed]]\nat_s = {_seconds(at_ms)}\nnode = {numbers[name]}"
            yield f"action = '{action}'\ntopic = '{topic}'"
        for at_ms, one, other in self._cuts:
            yield f"[[faults.cut]]\nat_s = {_seconds(at_ms)}\nlinks = [[{numbers[one]}, {numbers[other]}]]"

    def _with_beats(self, name: str, parameters: RouterParameters) -> RouterParameters:
        if not isinstance(parameters, MeshParameters):
            return parameters
        first_ms = self._beats.get(name, [NEVER_MS])[0]
        return replace(parameters, first_heartbeat_ms=first_ms, first_heartbeat_spread_ms=0)

    def lines_of(self, rows: Rows, topics: Sequence[str]) -> list[list[str]]:
        """Return the rows of a trace after each command, as sorted lines of a conversation."""
        found: list[list[str]] = [[] for _ in self._starts_ms]
        for codes in canonical(with_derived(rows)).tolist():
            row = TraceRow.from_codes(codes)
            index = sum(start * 1000 <= row.time_us for start in self._starts_ms) - 1
            if row.time_us < (self._now_ms + COMMAND_MS) * 1000 and (line := self._line(row, topics)):
                found[index].append(line)
        return [sorted(lines) for lines in found]

    def _line(self, row: TraceRow, topics: Sequence[str]) -> str | None:
        """Return a row as a line of a conversation; None for a row that conversations do not show."""
        names = list(self._routers)
        who = "" if row.peer is None else names[row.peer]
        other = "" if row.remote is None else names[row.remote]
        topic = "" if row.topic is None else topics[row.topic]
        message = "" if row.message is None else self._messages[row.message]
        reason = "" if row.reason is None else wire_name(row.reason)
        match row.event:
            case TraceEvent.SEND_RPC if row.kind is not PartKind.CONNECT:
                return f"{who} -> {other}: {_part(row, topic, message)}"
            case TraceEvent.DELIVER:
                return f"{who} delivers {message}" + (f" from {other}" if other else "")
            case TraceEvent.DUPLICATE:
                return f"{who} has seen {message} before"
            case TraceEvent.REJECT if row.kind is PartKind.PUBLISH and message:
                return f"{who} does not use {message}: {reason}"
            case TraceEvent.REJECT if row.kind is not None:
                return f"{who} drops {row.count} {row.kind.name} of {other}: {reason}"
            case TraceEvent.GRAFT:
                return f"{who} grafts {other} into {topic}"
            case TraceEvent.PRUNE:
                return f"{who} prunes {other} from {topic}"
            case TraceEvent.REMOVE_PEER:
                return f"{who} forgets {other}"
            case _:
                return None


def _seconds(ms: int) -> str:
    return f"{ms // 1000}.{ms % 1000:03d}"


def _as_in_a_trace(line: str) -> Iterator[str]:
    """Yield the content of a line of a conversation that a trace has: a line for each part of an RPC."""
    sent = SENT.fullmatch(line)
    if sent is None:
        yield line
        return
    for part in sent["parts"].split("; "):
        match part.split():
            case ["MESSAGE", *_]:
                yield f"{sent['who']}: {part}{sent['via']}"
            case ["IHAVE", topic, *ids]:
                yield f"{sent['who']}: IHAVE {topic}, {len(ids)} ids"
            case ["IWANT", *ids]:
                yield f"{sent['who']}: IWANT {len(ids)} ids"
            case ["PRUNE", topic, *_]:
                yield f"{sent['who']}: PRUNE {topic}"
            case _:
                yield f"{sent['who']}: {part}"


def _part(row: TraceRow, topic: str, message: str) -> str:
    match row.kind:
        case PartKind.PUBLISH:
            via = f" ({wire_name(row.via)})" if row.via is not None else ""
            return f"MESSAGE {message} in {topic}{via}"
        case PartKind.IHAVE:
            return f"IHAVE {topic}, {row.count} ids"
        case PartKind.IWANT:
            return f"IWANT {row.count} ids"
        case _:
            return f"{row.kind.name if row.kind else ''} {topic}"
