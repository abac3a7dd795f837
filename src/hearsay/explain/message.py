"""The search for a message or a node of a run, by number, name or id, and the facts about a message."""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches
from heapq import nsmallest
from itertools import takewhile
from pathlib import Path
from typing import Any

from hearsay.core.shell.randomness import Randomness
from hearsay.explain.copies import History, history_of
from hearsay.explain.requests import last_parts
from hearsay.explain.rows import Clocks, Members, clocks_of, members_of, observers_of, select_rows
from hearsay.pipeline.input.run_facts import RunFacts, load_runs
from hearsay.sim.plan.draws import natted_nodes
from hearsay.sim.plan.latency import LatencyModel, make_latency
from hearsay.sim.scenario.network import Links, Network, Service
from hearsay.sim.scenario.tables import read_text
from hearsay.sim.scenario.toml_text import parse
from hearsay.sim.scenario.workload import TopicGroup, Validation
from hearsay.text.escape import escape
from hearsay.trace.folder.arrow import read_table
from hearsay.trace.language.schema import NONE, Column
from hearsay.trace.read.show import SHORTENED, Names, load_names
from hearsay.trace.write.run_folder import DICTIONARIES
from hearsay.user_errors import InvalidInput

COLUMNS = (
    Column.TIME_US, Column.EVENT, Column.KIND, Column.PEER, Column.REMOTE, Column.TOPIC, Column.MESSAGE, Column.HOPS,
    Column.BYTES, Column.COUNT, Column.VIA, Column.DELAY_US, Column.REASON,
)  # fmt: skip
_MAX_NAMED = 3
_MAX_NUMBER = (1 << 63) - 1


class NotInThisRun(InvalidInput, ValueError):
    """A message or node that the run does not have; the text names the nearest ones."""


@dataclass(frozen=True, slots=True)
class MessageName:
    """Number of a message in the run, and its id."""

    number: int
    identifier: str | None
    """Message id of a real network, in hexadecimal."""


def find_message(run: RunFacts, wanted: str) -> MessageName:
    """Return the message with the number `wanted`, or the only message whose id begins with `wanted`."""
    if not wanted:
        raise NotInThisRun("--message is empty; give the number of a message or the beginning of its id")
    number = _number(wanted)
    prefix = wanted.lower().removeprefix("0x")
    known = message_ids(run.path)
    if number is not None and number in known:
        return MessageName(number, known[number])
    begun = [MessageName(one, name) for one, name in known.items() if prefix and name and name.startswith(prefix)]
    if len(begun) == 1:
        return begun[0]
    if begun:
        several = ", ".join(str(one.identifier) for one in begun[:_MAX_NAMED]) + ", …" * (len(begun) > _MAX_NAMED)
        raise NotInThisRun(f"{escape(wanted)}: several ids begin like this ({several}); give more of the id")
    if number is not None and len(select_rows(run, "message", COLUMNS, message=number)[Column.MESSAGE]):
        return MessageName(number, None)
    raise NotInThisRun(f"{escape(wanted)}: no such message in {run.path}; {_nearest_message(known, number, prefix)}")


def _number(wanted: str) -> int | None:
    """Return a number, or None; text with leading zeros is the beginning of an id."""
    plain = wanted.isascii() and wanted.isdecimal() and (wanted == "0" or wanted[0] != "0") and len(wanted) < 20
    return int(wanted) if plain and int(wanted) <= _MAX_NUMBER else None


def find_node(run: RunFacts, names: Names, wanted: str) -> int:
    """Return the node with the name or number `wanted`, or the only node whose name begins or ends with `wanted`."""
    wanted = wanted.removeprefix(SHORTENED)
    if not wanted:
        raise NotInThisRun(f"--node is empty; {len(run.nodes)} nodes are in {run.path}")
    for number, name in names.peers.items():
        if name == wanted:
            return number
    known = names.peers.keys() or run.nodes
    plain = _number(wanted)
    if plain is not None and plain in known:
        return plain
    if plain is not None and known:
        named_so = [number for number in known if names.peer(number).isdecimal()] or known
        near = min(named_so, key=lambda number: abs(number - plain))
        raise NotInThisRun(f"{wanted}: no such node in {run.path}; the nearest is {escape(names.peer(near))}")
    close = get_close_matches(wanted, names.peers.values(), 1, 0.5)
    begin = [name for name in names.peers.values() if name.startswith(wanted) or name.endswith(wanted)]
    if len(begin) == 1:
        return names.find_peer(begin[0])
    near = (begin or close)[:_MAX_NAMED]
    hint = f"did you mean {', '.join(map(escape, near))}?" if near else f"there are {len(run.nodes)} nodes"
    raise NotInThisRun(f"{escape(wanted)}: no such node in {run.path}; {hint}")


def message_ids(run: Path) -> dict[int, str | None]:
    """Return the ids of messages by number; None for messages without an id, as in simulations."""
    path = run / DICTIONARIES / "messages.parquet"
    if not path.exists():
        return {}
    columns = read_table(path)
    numbers = columns.get("message", [])
    ids = columns.get("id", [None] * len(numbers))
    return {number: name for number, name in zip(numbers, ids, strict=True) if number is not None}


def _nearest_message(known: dict[int, str | None], number: int | None, prefix: str) -> str:
    if not known:
        return "its dictionary names none"
    ids = [name for name in known.values() if name is not None]
    if ids:
        return f"the nearest are {', '.join(nsmallest(_MAX_NAMED, ids, lambda name: (-_common(name, prefix), name)))}"
    if number is None:
        least, most = min(known), max(known)
        return f"its messages have no ids, only numbers: {least}" + (f" … {most}" if most > least else "")
    return f"the nearest is {min(known, key=lambda one: abs(one - number))}"


def _common(one: str, other: str) -> int:
    """Return the length of the common beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


_WITHOUT_GOSSIP = ("floodsub", "randomsub", "meshsub")


@dataclass(frozen=True, slots=True)
class LinkModel:
    """The delays that a scenario defines for links and nodes, without jitter and queues."""

    latency: LatencyModel
    uplink_bits_per_s: int
    """Bits per second; 0 for no limit."""
    validation_us: int
    service_us: int
    natted: frozenset[int]
    """Nodes that accept no inbound connection."""
    history_us: int | None
    """Longest time for which a holder may announce a message; None if heartbeats do not limit it."""
    topics_in_parts: frozenset[str]
    """Topics whose messages are sent as partial messages."""

    def uplink_us(self, size: int) -> int:
        """Return the time that `size` bytes take on the uplink of a node."""
        return -(-size * 8_000_000 // self.uplink_bits_per_s) if self.uplink_bits_per_s and size > 0 else 0


def link_model_of(run: RunFacts) -> LinkModel | None:
    """Return the link model of a run; None without a simulation, or if the scenario needs a file that is gone."""
    if not run.simulated:
        return None
    try:
        path = run.path / "scenario.toml"
        return _link_model(parse(read_text(path), str(path)))
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        return None


def _link_model(scenario: dict[str, Any]) -> LinkModel:
    links = Links.model_validate(scenario.get("links", {}))
    network = Network.model_validate(scenario.get("network", {}))
    topics = [TopicGroup.model_validate(group) for group in scenario.get("topics", [{}])]
    randomness = Randomness(scenario.get("seed", 1))
    return LinkModel(
        latency=make_latency(links, network.nodes, randomness),
        uplink_bits_per_s=links.uplink_bits_per_s,
        validation_us=Validation.model_validate(scenario.get("validation", {})).delay_us,
        service_us=Service.model_validate(scenario.get("service", {})).time_us,
        natted=natted_nodes(network, randomness),
        history_us=_history_us(scenario),
        topics_in_parts=frozenset(name for group in topics if group.goes_in_parts for name in group.names),
    )


def _history_us(scenario: dict[str, Any]) -> int | None:
    longest = 0
    for router in (scenario["router"], *(each["router"] for each in scenario.get("population", ()))):
        if "history_gossip" in router:
            longest = max(longest, router["history_gossip"] * router["heartbeat_interval_ms"] * 1000)
        elif router["kind"] not in _WITHOUT_GOSSIP:
            return None
    return longest


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a run, with all that an explanation needs."""

    run: RunFacts
    names: Names
    name: MessageName
    history: History
    model: LinkModel | None
    observers: tuple[int, ...]
    """Nodes that traced."""
    members: Members
    """Members of the message's topic over time."""
    in_parts: bool
    """True if messages of the topic are sent as partial messages."""
    clocks: Clocks

    def node(self, node: int) -> str:
        """Return the name of a node: "node 3", "script", or the end of a long name, which `--node` accepts."""
        name = self.names.short_peer(node) if node != NONE else "an unknown node"
        return f"node {name}" if name.isdecimal() else name

    def short_name(self, node: int) -> str:
        """Return the name of a node for a table or a path."""
        return self.node(node).removeprefix("node ")

    def us_after(self, time_us: int) -> int:
        """Return a time as microseconds after the publication."""
        return time_us - self.history.start_us()

    def clock_error(self, node: int) -> str:
        """Return in words how far a node's time after the publication may be off."""
        return self.clocks.words(self.history.publisher, node) if self.history.published else ""

    def title(self) -> str:
        identifier = f" ({escape(self.name.identifier)})" if self.name.identifier else ""
        return f"message {self.name.number}{identifier}"

    def topic(self) -> str:
        return escape(self.names.topic(self.history.topic)) if self.history.topic != NONE else "unknown"

    def unknowns(self) -> list[str]:
        """Return a sentence for each fact that this trace does not show."""
        unknown: list[str] = []
        if not self.run.manifest.complete:
            unknown.append("The run was interrupted: later events are not in the trace.")
        if not self.run.simulated:
            unknown.append(
                "This is a trace of real nodes: each time is of the node's own clock, and a copy is known from its "
                "two ends, so delays in queues and on links are not separated."
            )  # fmt: skip
            if self.clocks.errors_us:
                unknown.append("± is by how much the clocks of two nodes may still differ, where both are compared.")
            traced, named = len(self.observers), len(self.names.peers)
            if traced < named:
                saw = "this one" if traced == 1 else "these"
                unknown.append(f"{traced} of {named} nodes traced; the others are known from what {saw} saw.")
        elif self.model is None:
            unknown.append("The scenario cannot be read, so delays in queues and on links are not separated.")
        if self.in_parts:
            unknown.append(
                "Messages of this topic are sent in parts, and rows of parts name no message: a delivery shows only "
                "the sender and the time of the part that completed the message."
            )  # fmt: skip
        if not self.names.peers:
            unknown.append(
                "The run's dictionary of peers is missing: nodes, and a script that injects messages, are shown by "
                "number."
            )  # fmt: skip
        if not self.history.published:
            unknown.append("The trace has no publication of this message; times count from its first known event.")
        return unknown


def open_message(path: Path, wanted: str, window_us: int | None = None) -> Message:
    """Open a message by number or id. Raise `RunFolderError` for a folder without a trace, and `NotInThisRun`."""
    (run,) = load_runs([path], window_us)
    name = find_message(run, wanted)
    rows = select_rows(run, "message", COLUMNS, message=name.number)
    if not len(rows[Column.EVENT]):
        raise NotInThisRun(
            f"{escape(wanted)}: {path} names this message but has no row of it: it was never published"
        )
    history, names, model = history_of(run, name.number, rows), load_names(run.path), link_model_of(run)
    in_parts = model is not None and history.topic != NONE and names.topic(history.topic) in model.topics_in_parts
    if in_parts:
        history = replace(history, last_parts=last_parts(run, history))
    members = members_of(run, history.topic)
    return Message(run, names, name, history, model, observers_of(run), members, in_parts, clocks_of(run.path))
