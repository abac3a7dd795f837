"""The search for a message or a node of a run: by number, name or id, or among the latest messages of the run.

`Message` has the facts about a message that explanations need.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches
from heapq import nsmallest
from pathlib import Path
from typing import Any

import numpy as np

from hearsay.core.rules.randomness import Randomness
from hearsay.explain.copies import WORDS, History, history_of
from hearsay.explain.requests import last_parts
from hearsay.explain.rows import (
    START_US,
    Clocks,
    ColumnArrays,
    Members,
    clocks_of,
    members_of,
    observers_of,
    select_rows,
    selected,
)
from hearsay.number_text import milliseconds
from hearsay.pipeline.run_facts import RunFacts, load_runs
from hearsay.sim.plan.draws import natted_nodes
from hearsay.sim.plan.network import LatencyModel, make_latency
from hearsay.sim.scenario.network import Links, Network, Service
from hearsay.sim.scenario.reading import parse, read_text
from hearsay.sim.scenario.workload import TopicGroup, Validation
from hearsay.text import escape, table_text
from hearsay.trace.folder.arrow import read_table
from hearsay.trace.folder.run_folder import DICTIONARIES
from hearsay.trace.language.schema import NONE, Column, TraceEvent
from hearsay.trace.reader import SHORTENED, Names, load_names
from hearsay.user_errors import InvalidInput

_MAX_NAMED = 3
_SHORT = 12
"""Number of characters of a shortened message id."""
LATEST = 10
"""Maximum number of messages in the list."""
_LATEST_COLUMNS = (Column.TIME_US, Column.EVENT, Column.PEER, Column.TOPIC, Column.MESSAGE)


class NotInThisRun(InvalidInput, ValueError):
    """Raised if no message or node of a run matches the wanted text, if several match, or if the text is empty.

    The message of the error names some that match or that are similar, if there are any.
    """


@dataclass(frozen=True, slots=True)
class MessageName:
    """The number of a message in the run, and its id."""

    number: int
    identifier: str | None
    """Message id in hexadecimal; None in a simulation, or if unknown."""


def find_message(run: RunFacts, wanted: str) -> MessageName:
    """Return the message with the number `wanted`; if there is none, the only message whose id begins with `wanted`.

    `wanted` may begin with `0x`. After `…`, it is the end of an id. Raise `NotInThisRun` if there is no such message,
    if there are several, or if `wanted` is empty.
    """
    if not wanted:
        raise NotInThisRun("--message is empty; give the number of a message or the beginning of its id")
    number = _number(wanted)
    prefix = wanted.lower().removeprefix("0x")
    known = message_ids(run.path)
    if number is not None and number in known:
        return MessageName(number, known[number])
    piece = prefix.removeprefix(SHORTENED)
    fits, ends = (str.startswith, "begin") if piece == prefix else (str.endswith, "end")
    found = [MessageName(one, name) for one, name in known.items() if piece and name and fits(name, piece)]
    if len(found) == 1:
        return found[0]
    if found:
        several = ", ".join(str(one.identifier) for one in found[:_MAX_NAMED]) + ", …" * (len(found) > _MAX_NAMED)
        raise NotInThisRun(f"{escape(wanted)}: several ids {ends} like this ({several}); give more of the id")
    if number is not None and len(select_rows(run, "message", tuple(Column), message=number)[Column.MESSAGE]):
        return MessageName(number, None)
    raise NotInThisRun(f"{escape(wanted)}: no such message in {run.path}; {_nearest_message(known, number, prefix)}")


def _number(wanted: str) -> int | None:
    """Return a text as a number; None if it is no decimal number below 2^63, or has leading zeros, as an id may."""
    plain = wanted.isascii() and wanted.isdecimal() and (wanted == "0" or wanted[0] != "0") and len(wanted) < 20
    return int(wanted) if plain and int(wanted) < 1 << 63 else None


def find_node(run: RunFacts, names: Names, wanted: str) -> int:
    """Return the node with the name or the number `wanted`. If `wanted` is not a number, return the only node whose
    name begins or ends with it.

    Raise `NotInThisRun` if there is no such node, if several names begin or end with `wanted`, or if `wanted` is
    empty.
    """
    wanted = wanted.removeprefix(SHORTENED)
    if not wanted:
        raise NotInThisRun(f"--node is empty; {len(run.nodes)} nodes are in {run.path}")
    if wanted in names.peers.values():
        return names.find_peer(wanted)
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
    """Return the ids of messages by number, from the run's dictionary, which may be missing. Simulated messages have
    None.
    """
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
        lengths = range(len(prefix) + 1)
        near = nsmallest(_MAX_NAMED, ids, lambda name: (-sum(name.startswith(prefix[:end]) for end in lengths), name))
        return f"the nearest are {', '.join(near)}"
    if number is None:
        least, most = min(known), max(known)
        return f"its messages have no ids, only numbers: {least}" + (f" … {most}" if most > least else "")
    return f"the nearest is {min(known, key=lambda one: abs(one - number))}"


@dataclass(frozen=True, slots=True)
class LinkModel:
    """The properties of links, nodes and topics in a scenario that explain delays. Jitter and queues are not
    included.
    """

    latency: LatencyModel
    uplink_bits_per_s: int
    """Bits per second; 0 for no limit."""
    validation_us: int
    service_us: int
    natted: frozenset[int]
    """Nodes that accept no inbound connection."""
    history_us: int | None
    """Longest time for which a node announces a message that it has, in microseconds: 0 if no router announces, None
    if the limit of a router is not a number of heartbeats (episub) or is unknown (a router of another package).
    """
    topics_in_parts: frozenset[str]
    """Topics whose messages are sent as partial messages."""

    def uplink_us(self, size: int) -> int:
        """Return the time in microseconds that a node's uplink needs for `size` bytes; 0 without a limit."""
        return -(-size * 8_000_000 // self.uplink_bits_per_s) if self.uplink_bits_per_s and size > 0 else 0


def link_model_of(run: RunFacts) -> LinkModel | None:
    """Return the link model of a run; None if the run is not a simulation, or if its scenario cannot be read."""
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
    """Return `LinkModel.history_us`: the longest of all routers of the scenario."""
    longest = 0
    for router in (scenario["router"], *(each["router"] for each in scenario.get("population", ()))):
        if "history_gossip" in router:
            longest = max(longest, router["history_gossip"] * router["heartbeat_interval_ms"] * 1000)
        elif router["kind"] not in ("floodsub", "randomsub", "meshsub"):
            return None
    return longest


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a run, with the facts that an explanation needs."""

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
        """Return the name of a node as `node` does, but a number without the word "node" before it."""
        return self.node(node).removeprefix("node ")

    def us_after(self, time_us: int) -> int:
        """Return a time of the run in microseconds after the publication. If the publication is unknown, the first
        known event takes its place.
        """
        return time_us - self.history.start_us()

    def clock_error(self, node: int) -> str:
        """Return in words how wrong the time from the publication to an event at a node may be (see `Clocks.words`).
        The text is also empty if the publication is unknown.
        """
        return self.clocks.words(self.history.publisher, node) if self.history.published else ""

    def title(self) -> str:
        """Return the word "message" with the number and, if known, the id."""
        identifier = f" ({escape(self.name.identifier)})" if self.name.identifier else ""
        return f"message {self.name.number}{identifier}"

    def topic(self) -> str:
        return escape(self.names.topic(self.history.topic)) if self.history.topic != NONE else "unknown"

    def unknowns(self) -> list[str]:
        """Return sentences about the facts that this trace does not show."""
        is_real, traced, named = not self.run.simulated, len(self.observers), len(self.names.peers)
        unknown = {
            "interrupted": not self.run.manifest.complete,
            "real_nodes": is_real,
            "clocks": is_real and bool(self.clocks.errors_us),
            "others": is_real and traced < named,
            "scenario": not is_real and self.model is None,
            "parts": self.in_parts,
            "names": not named,
            "publication": not self.history.published,
        }
        numbers = {"traced": traced, "named": named, "saw": "this one" if traced == 1 else "these"}
        return [WORDS["unknowns"][name].format(**numbers) for name, is_so in unknown.items() if is_so]


def open_message(path: Path, wanted: str, window_us: int | None = None) -> Message:
    """Open a message of the run at `path`, by its number or the beginning of its id.

    `window_us` is the message's window; None means the scenario's `linger_s`, or the default of the analysis. Raise
    `RunFolderError` for a folder without a trace, and `NotInThisRun` for a message that the run does not have.
    """
    (run,) = load_runs([path], window_us)
    name = find_message(run, wanted)
    rows = select_rows(run, "message", tuple(Column), message=name.number)
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


@dataclass(frozen=True, slots=True)
class LatestMessage:
    """A message, with its deliveries at nodes other than the publisher."""

    message: int
    id: str | None
    """Message id in hexadecimal; None in a simulation, or if unknown."""
    topic: str
    publisher: str | None
    first_us: int
    """Time of the first publication or delivery of the message in the trace."""
    deliveries: int
    slowest_us: int
    """Time from `first_us` to the last of these deliveries; 0 without one."""


def latest_messages(path: Path) -> list[LatestMessage]:
    """Return at most `LATEST` messages of a run: those that began last, the latest first."""
    (run,) = load_runs([path], None)
    rows = _latest_rows(run)
    names, ids = load_names(run.path), message_ids(run.path)
    found: list[LatestMessage] = []
    starts: list[int] = np.flatnonzero(np.diff(rows[Column.MESSAGE], prepend=NONE - 1)).tolist()
    ends = [*starts[1:], len(rows[Column.MESSAGE])]
    latest: list[int] = np.argsort(rows[Column.TIME_US][starts], kind="stable")[::-1][:LATEST].tolist()
    for place in latest:
        one = selected(rows, slice(starts[place], ends[place]))
        message = int(one[Column.MESSAGE][0])
        delivered = one[Column.EVENT] == TraceEvent.DELIVER
        publishers = one[Column.PEER][~delivered]
        first_us = int(one[Column.TIME_US][0])
        others = one[Column.TIME_US][delivered & ~np.isin(one[Column.PEER], publishers)]
        found.append(
            LatestMessage(
                message, ids.get(message), names.topic(int(one[Column.TOPIC][0])),
                names.short_peer(int(publishers[0])) if len(publishers) else None,
                first_us, len(others), int(others[-1]) - first_us if len(others) else 0,
            )
        )  # fmt: skip
    return found


def latest_text(messages: list[LatestMessage]) -> str:
    """Return the messages as the text of a table."""
    rows = [
        [
            str(each.message), short, escape(each.topic), each.publisher or "not traced",
            f"{each.first_us / 1e6:.6f} s", f"{each.deliveries:,}", milliseconds(each.slowest_us / 1000),
        ]
        for each, short in zip(messages, _short_ids([each.id or "" for each in messages]), strict=True)
    ]  # fmt: skip
    return table_text(("message", "id", "topic", "publisher", "at", "deliveries", "slowest"), rows, left=4)


def _short_ids(ids: list[str]) -> list[str]:
    """Return the beginnings of ids. If two beginnings are equal, return the ends after an ellipsis; if two ends are
    equal as well, return the ids.
    """
    begins, ends = [one[:_SHORT] for one in ids], [SHORTENED + one[-_SHORT:] for one in ids]
    return next(short for short in (begins, ends, ids) if len(set(short)) == len(set(ids)))


def _latest_rows(run: RunFacts) -> ColumnArrays:
    """Return publications and deliveries in an interval before the end of the run, sorted by message and time.

    The interval is the whole run, or contains at least `LATEST` messages whose first row is in the second half of the
    interval. Earlier messages in the interval may have begun before it.
    """
    window_us = 10_000_000
    while True:
        from_us = run.end_us - window_us if window_us < run.end_us - run.start_us else START_US
        rows = select_rows(
            run, "message", _LATEST_COLUMNS,
            lambda rows: np.isin(rows[Column.EVENT], (TraceEvent.PUBLISH, TraceEvent.DELIVER)), from_us,
        )  # fmt: skip
        rows = selected(rows, np.lexsort((rows[Column.EVENT], rows[Column.TIME_US], rows[Column.MESSAGE])))
        starts = np.flatnonzero(np.diff(rows[Column.MESSAGE], prepend=NONE - 1))
        is_late = rows[Column.TIME_US][starts] >= run.end_us - window_us // 2
        if from_us == START_US or is_late.sum() >= LATEST:
            return rows
        window_us *= 4
