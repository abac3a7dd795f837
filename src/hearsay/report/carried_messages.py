"""The messages that a page can animate in addition to the typical one: all of a small run, some of a large run.

Rules:

* A page has at most `MAX_BYTES` of messages, divided equally among the topics of all runs. If not all messages fit,
  those with a name in `_LISTS` (the slowest, the first, …) come first, then messages evenly spread over the run. A
  message named in one run is also shown for the other runs that have it.
* Deliveries are read from the trace, from about `MAX_ROWS` rows at most. If the trace cannot be read, the page has
  only the typical message, from the table `spread`. The page states the number of messages, and why it has no more.
* A message is packed as integers, column by column: nodes and times as differences from the previous delivery,
  parents as the number of deliveries back to the parent's, rings and angles as differences from the parent's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hearsay.core.language.actions import Via
from hearsay.explain.rows import ColumnArrays, select_rows
from hearsay.pipeline.input.run_facts import RunFacts, load_runs
from hearsay.pipeline.output.stored_tables import arrow_schema
from hearsay.pipeline.output.tables import TABLES
from hearsay.report.figure import Figure, evenly, numbers
from hearsay.report.figures_delivery import ID, MAX_DELIVERIES, drawn_spread
from hearsay.report.html import json_for_script
from hearsay.report.runs import Run, View
from hearsay.text.numbers import count, plural
from hearsay.trace.folder.arrow import pa, read_table
from hearsay.trace.folder.arrow_compute import compute
from hearsay.trace.folder.manifest import MANIFEST
from hearsay.trace.language.errors import RunFolderError
from hearsay.trace.language.schema import NONE, Column, TraceEvent, wire_name
from hearsay.trace.write.run_folder import DICTIONARIES

MAX_BYTES = 2_000_000
MAX_ROWS = 20_000_000
_DELIVERY_BYTES, _MESSAGE_BYTES = 14, 300
"""Approximate sizes in bytes of a packed delivery, and of a packed message without its deliveries."""
_COLUMNS = (
    "topic", "message", "publisher", "published_us", "delivered", "ratio", "p50_us", "max_us",
)  # fmt: skip
_TRACED = (Column.TIME_US, Column.EVENT, Column.PEER, Column.REMOTE, Column.MESSAGE, Column.HOPS, Column.VIA)
_SCHEMA = pa.schema(
    [arrow_schema(TABLES["spread"]).field(name) for name in ("message", "node", "remote", "after_us", "hops", "via")]
)
TYPICAL = "typical"
_LISTS = (
    ("slowest", "p50_us", "descending"),
    ("fastest", "p50_us", "ascending"),
    ("longest tail", "max_us", "descending"),
    ("least delivered", "ratio", "ascending"),
    ("first", "published_us", "ascending"),
    ("last", "published_us", "descending"),
)
_DIGITS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", dtype=np.uint8)
_BITS, _MORE = 5, 32
NO_TRACE = "the trace is missing"


@dataclass
class _Series:
    """The messages of a topic of a run."""

    shown: dict[str, Any]
    """The series in the figure `spread`; `_carry` changes its `messages` and adds `lists`."""
    view: View
    run: Run
    known: Any
    """Rows of the table `messages` that have a latency, in order of publication."""
    lists: dict[str, int]
    """The numbers that identify the typical message and those of `_LISTS`, by name."""
    trace: RunFacts | None = None
    why_not: str = ""
    """The reason why the trace cannot be read; empty if it can."""

    def most(self, room: int, rows: int) -> int:
        """Return how many messages fit into `room` bytes and `rows` rows of the trace; 0 without a trace."""
        if self.trace is None:
            return 0
        largest = min(MAX_DELIVERIES, compute.max(self.known.column("delivered")).as_py() or 0)
        there = max(1, sum(file.rows for file in self.trace.files("message")))
        return min(room // (_MESSAGE_BYTES + _DELIVERY_BYTES * largest), rows * len(self.known) // there)


def carry_messages(figures: Sequence[Figure], runs: Sequence[Run], room: int = MAX_BYTES) -> None:
    """Add packed messages of the runs' traces to the figure `spread`, and notes with their number."""
    for figure in figures:
        if figure.id == ID:
            all_series = [_series(runs, each) for each in figure.series]
            for _, same in groupby(sorted(all_series, key=lambda one: one.view.place), lambda one: one.view.place):
                _carry(list(same), room // len(all_series), MAX_ROWS // len(all_series))
            figure.notes.extend((one.view, _words(one)) for one in all_series)


def _series(runs: Sequence[Run], shown: dict[str, Any]) -> _Series:
    run = runs[int(shown["run"])]
    view = next(each for each in run.topic_views if each.place == shown["topic"])
    known = view.rows(run.read("messages", *_COLUMNS))
    known = known.filter(compute.is_valid(known.column("p50_us"))).sort_by(
        [("published_us", "ascending"), ("message", "ascending")]
    )
    lists = {TYPICAL: shown["messages"][0]["number"]}
    for name, key, order in _LISTS if len(known) else ():
        lists[name] = known.sort_by([(key, order), ("message", "ascending")]).column("message")[0].as_py()
    one = _Series(shown, view, run, known, lists)
    try:
        if (run.folder / MANIFEST).exists():
            one.trace = load_runs([run.folder])[0]
        else:
            one.why_not = NO_TRACE
    except RunFolderError as error:
        one.why_not = str(error)
    return one


def _carry(same: Sequence[_Series], room: int, rows: int) -> None:
    """Add the messages of one topic in several runs. Each run may use `room` bytes and read `rows` rows."""
    most = min((one.most(room, rows) for one in same if one.trace is not None), default=0)
    named = list(dict.fromkeys(number for one in same for number in one.lists.values()))
    for one in same:
        typical = one.lists[TYPICAL]
        own = one.known.column("message").to_pylist()
        others = [own[place] for place in evenly(len(own), max(1, most)).tolist()]
        wanted = [each for each in dict.fromkeys([*one.lists.values(), *named, *others]) if each != typical]
        there = set(own)
        chosen = [each for each in wanted if each in there][:most]
        drawn = [*one.shown["messages"], *_read(one, chosen)]
        one.shown["messages"] = list(_within(room, _packed(one, drawn)))
        carried = {each["number"] for each in one.shown["messages"]}
        one.shown["lists"] = {name: number for name, number in one.lists.items() if number in carried}


def _read(one: _Series, chosen: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yield messages in the order of `chosen`; nothing if the trace cannot be read."""
    if one.trace is None or not chosen:
        return
    try:
        rows = select_rows(
            one.trace, "message", _TRACED,
            lambda rows: (rows[Column.EVENT] == TraceEvent.DELIVER) & np.isin(rows[Column.MESSAGE], chosen),
        )  # fmt: skip
    except RunFolderError as error:
        one.why_not = str(error)
        return
    order = np.lexsort((rows[Column.PEER], rows[Column.TIME_US], rows[Column.MESSAGE]))
    rows = {column: values[order] for column, values in rows.items()}
    lines = {line["message"]: line for line in one.known.to_pylist()}
    for number in chosen:
        first, end = np.searchsorted(rows[Column.MESSAGE], [number, number + 1])
        deliveries = _deliveries(lines[number], {column: values[first:end] for column, values in rows.items()})
        if deliveries:
            yield drawn_spread(pa.Table.from_pylist(deliveries, schema=_SCHEMA))


def _deliveries(line: dict[str, Any], rows: ColumnArrays) -> list[dict[str, Any]]:
    """Return the deliveries of a message as rows of the table `spread`."""
    names = (Column.PEER, Column.REMOTE, Column.HOPS, Column.VIA, Column.TIME_US)
    found: list[dict[str, Any]] = []
    for values in zip(*(rows[name].tolist() for name in names), strict=True):
        node, remote, hops, via, time_us = (None if value == NONE else value for value in values)
        # Real nodes report a delivery of their own publication, from themselves and without hops.
        own = line["publisher"] is not None and node == line["publisher"] and remote in (None, node)
        found.append(
            {
                "message": line["message"],
                "node": node,
                "remote": None if own else remote,
                "after_us": None if line["published_us"] is None else time_us - line["published_us"],
                "hops": hops or 0 if own else hops,
                "via": None if via is None else wire_name(Via(via)),
            }
        )
    return found


def _packed(one: _Series, drawn: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield packed messages, with their columns of the table `messages`."""
    lines = {line["message"]: line for line in one.known.to_pylist()}
    ids = _ids(one.run, [each["number"] for each in drawn])
    for each in drawn:
        number = each["number"]
        entry: dict[str, Any] = {"number": number, **({"id": ids[number]} if number in ids else {})}
        line = lines.get(number)
        if line is not None:
            at, half, last = numbers(
                (us - start) / scale if us is not None else None
                for us, start, scale in (
                    (line["published_us"], one.run.start_us, 1e6), (line["p50_us"], 0, 1e3), (line["max_us"], 0, 1e3),
                )
            )  # fmt: skip
            entry |= {"publisher": None if one.run.is_script(line["publisher"]) else line["publisher"]}
            entry |= {"at": at, "half": half, "last": last}
            entry |= {"delivered": line["delivered"], "ratio": numbers([line["ratio"]])[0]}
        yield entry | _packed_deliveries(each)


def _packed_deliveries(drawn: dict[str, Any]) -> dict[str, Any]:
    nodes, parents, after, ring, angle, via = (
        np.array(drawn[name], dtype=np.int64) for name in ("nodes", "parents", "after_us", "ring", "angle", "via")
    )
    has_parent = parents >= 0
    columns = (
        np.diff(nodes, prepend=0),
        np.where(has_parent, np.arange(len(nodes)) - parents, 0),
        np.diff(after, prepend=0),
        ring - np.where(has_parent, ring[parents] + 1, 1),
        angle - np.where(has_parent, angle[parents], 0),
        via,
    )
    packed = packed_integers(np.concatenate(columns))
    return {"count": len(nodes), "rings": drawn["rings"], "vias": drawn["vias"], "packed": packed}


def _within(room: int, messages: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the first message, and the next ones until their JSON exceeds `room` bytes."""
    used = 0
    for place, message in enumerate(messages):
        used += len(json_for_script(message)) + 1
        if place and used > room:
            return
        yield message


def _ids(run: Run, wanted: Sequence[int]) -> dict[int, str]:
    """Return the ids of the wanted messages by number, without those that have no id in the run's dictionary."""
    path = run.folder / DICTIONARIES / "messages.parquet"
    if not path.is_file():
        return {}
    try:
        table = read_table(path, ["message"], ["id"])
    except RunFolderError:
        return {}
    there = set(wanted)
    pairs = zip(table["message"], table["id"], strict=True)
    return {number: name for number, name in pairs if number in there and name is not None}


def _words(one: _Series) -> str:
    """Return in words how many of the series' messages are on the page."""
    carried, known = len(one.shown["messages"]), len(one.known)
    if carried >= known:
        return "the only message" if known == 1 else f"all {count(known)} messages"
    more = "`hearsay watch RUN` plays any message"
    if carried == 1:
        why = f": {one.why_not}" if one.why_not else ": the others are too large"
        return f"only message {one.lists[TYPICAL]} of {plural(known, 'message')}{why}; {more}"
    why = f" ({one.why_not})" if one.why_not else ""
    which = "named messages, and others evenly spread over the run"
    return f"{count(carried)} of {plural(known, 'message')}{why}: {which}; {more}"


def packed_integers(values: NDArray[np.int64]) -> str:
    """Return integers as base64 VLQ, like source maps.

    A number is encoded as twice its absolute value, plus one if negative, in digits of five bits, the lowest first.
    All digits but the last have the sixth bit set.
    """
    rest = np.abs(values).astype(np.uint64) * 2 + (values < 0)
    widths = np.ones(len(rest), dtype=np.int64)
    for bits in range(_BITS, 64, _BITS):
        widths += rest >= 1 << bits
    starts = np.cumsum(widths) - widths
    text = np.empty(int(widths.sum()), dtype=np.uint8)
    for place in range(int(widths.max(initial=0))):
        mine = np.flatnonzero(widths > place)
        digits = (rest[mine] >> np.uint64(_BITS * place)).astype(np.int64) % _MORE
        text[starts[mine] + place] = _DIGITS[digits + _MORE * (widths[mine] > place + 1)]
    return text.tobytes().decode("ascii")
