"""The messages that a page can animate in addition to the typical message of the table `spread`: all messages of a
small run, some messages of a large run.

Rules:

* A page has at most `MAX_BYTES` of messages, divided equally among the topics of all runs; the typical message is
  always on the page. If not all messages fit, the page has first the messages that `_LISTS` names (the slowest, the
  first, …), then messages that are evenly spread over the run. If a message has such a name in one run, the page also
  has the messages with the same number in other runs.
* Deliveries are read from the trace, from about `MAX_ROWS` rows at most. If the trace cannot be read, the page has
  only the typical message. The page states the number of its messages, and the reason if it does not have all.
* A message is packed as integers, column by column. Nodes and times are differences from the previous delivery. A
  parent is the index of the delivery minus the index of the parent, or 0 without a parent. A ring is the difference
  from the first ring outside the parent's, or from ring 1 without a parent. An angle is the difference from the
  parent's angle, or from 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hearsay.core.language.actions import Via
from hearsay.explain.message import message_ids
from hearsay.explain.rows import ColumnArrays, indexes_of, select_rows, selected
from hearsay.number_text import count, plural
from hearsay.pipeline.output.tables import TABLES, arrow_schema
from hearsay.pipeline.run_facts import RunFacts, load_runs
from hearsay.report.figure import Figure, evenly, numbers
from hearsay.report.figures_delivery import ID, MAX_DELIVERIES, drawn_spread
from hearsay.report.html import json_for_script
from hearsay.report.runs import Run, View
from hearsay.trace.folder.arrow import pa
from hearsay.trace.folder.arrow_compute import compute
from hearsay.trace.folder.manifest import MANIFEST, RunFolderError
from hearsay.trace.language.schema import NONE, Column, TraceEvent, wire_name

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

    chart_series: dict[str, Any]
    """The series in the chart `spread`; `_add_messages` changes its key `messages` and adds the key `lists`."""
    view: View
    run: Run
    known: Any
    """The rows of the table `messages` about messages with a latency, in order of publication."""
    lists: dict[str, int]
    """The numbers of the typical message and of the messages in `_LISTS`, by name."""
    trace: RunFacts | None = None
    trace_error: str = ""
    """The reason why the trace cannot be read; empty if it can."""

    def max_messages(self, max_bytes: int, max_rows: int) -> int:
        """Return the approximate number of messages that fit into `max_bytes` bytes and whose deliveries are in
        `max_rows` rows of the trace; 0 without a trace.
        """
        if self.trace is None:
            return 0
        largest = min(MAX_DELIVERIES, compute.max(self.known.column("delivered")).as_py() or 0)
        there = max(1, sum(file.rows for file in self.trace.files("message")))
        return min(max_bytes // (_MESSAGE_BYTES + _DELIVERY_BYTES * largest), max_rows * len(self.known) // there)


def add_messages(figures: Sequence[Figure], runs: Sequence[Run], max_bytes: int = MAX_BYTES) -> None:
    """Pack the messages of the chart `spread`, add further messages from the traces of the runs, and add notes with
    the numbers of messages. Each series has at most an equal share of `max_bytes` bytes, or only its typical message.
    """
    for figure in figures:
        if figure.id == ID:
            all_series = [_series(runs, each) for each in figure.series]
            for _, same in groupby(sorted(all_series, key=lambda one: one.view.place), lambda one: one.view.place):
                _add_messages(list(same), max_bytes // len(all_series), MAX_ROWS // len(all_series))
            figure.notes.extend((one.view, _note(one)) for one in all_series)


def _series(runs: Sequence[Run], chart_series: dict[str, Any]) -> _Series:
    run = runs[int(chart_series["run"])]
    view = next(each for each in run.topic_views if each.place == chart_series["topic"])
    known = view.rows(run.read("messages", *_COLUMNS))
    known = known.filter(compute.is_valid(known.column("p50_us"))).sort_by(
        [("published_us", "ascending"), ("message", "ascending")]
    )
    lists = {TYPICAL: chart_series["messages"][0]["number"]}
    for name, key, order in _LISTS if len(known) else ():
        lists[name] = known.sort_by([(key, order), ("message", "ascending")]).column("message")[0].as_py()
    one = _Series(chart_series, view, run, known, lists)
    try:
        if (run.folder / MANIFEST).exists():
            one.trace = load_runs([run.folder])[0]
        else:
            one.trace_error = NO_TRACE
    except RunFolderError as error:
        one.trace_error = str(error)
    return one


def _add_messages(same: Sequence[_Series], max_bytes: int, max_rows: int) -> None:
    """Add the messages of one topic in several runs. For each run, read about `max_rows` rows, and add at most
    `max_bytes` bytes.
    """
    most = min((one.max_messages(max_bytes, max_rows) for one in same if one.trace is not None), default=0)
    named = [number for one in same for number in one.lists.values()]
    for one in same:
        own = one.known.column("message").to_pylist()
        others = [own[place] for place in evenly(len(own), max(1, most)).tolist()]
        there = set(own) - {one.lists[TYPICAL]}
        chosen = [each for each in dict.fromkeys([*one.lists.values(), *named, *others]) if each in there][:most]
        drawn = [*one.chart_series["messages"], *_read(one, chosen)]
        one.chart_series["messages"] = list(_within(max_bytes, _packed(one, drawn)))
        carried = {each["number"] for each in one.chart_series["messages"]}
        one.chart_series["lists"] = {name: number for name, number in one.lists.items() if number in carried}


def _read(one: _Series, chosen: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yield the messages with the numbers `chosen`, in this order; none if the trace cannot be read."""
    if one.trace is None or not chosen:
        return
    try:
        rows = select_rows(
            one.trace, "message", _TRACED,
            lambda rows: (rows[Column.EVENT] == TraceEvent.DELIVER) & np.isin(rows[Column.MESSAGE], chosen),
        )  # fmt: skip
    except RunFolderError as error:
        one.trace_error = str(error)
        return
    rows = selected(rows, np.lexsort((rows[Column.PEER], rows[Column.TIME_US], rows[Column.MESSAGE])))
    lines = {line["message"]: line for line in one.known.to_pylist()}
    for number in chosen:
        deliveries = _deliveries(lines[number], selected(rows, indexes_of(rows[Column.MESSAGE], number)))
        if deliveries:
            yield drawn_spread(pa.Table.from_pylist(deliveries, schema=_SCHEMA))


def _deliveries(line: dict[str, Any], rows: ColumnArrays) -> list[dict[str, Any]]:
    """Return the deliveries of a message as rows of the table `spread`."""
    names = (Column.PEER, Column.REMOTE, Column.HOPS, Column.VIA, Column.TIME_US)
    found: list[dict[str, Any]] = []
    for values in zip(*(rows[name].tolist() for name in names), strict=True):
        node, remote, hops, via, time_us = (None if value == NONE else value for value in values)
        # Real nodes trace a delivery of their own publication, from themselves and without hops.
        own = line["publisher"] is not None and node == line["publisher"] and remote in (None, node)
        after_us = None if line["published_us"] is None else time_us - line["published_us"]
        delivery = {"message": line["message"], "node": node, "after_us": after_us}
        delivery |= {"remote": None, "hops": hops or 0} if own else {"remote": remote, "hops": hops}
        found.append(delivery | {"via": None if via is None else wire_name(Via(via))})
    return found


def _packed(one: _Series, drawn: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield packed messages with their ids and their columns of the table `messages`."""
    lines = {line["message"]: line for line in one.known.to_pylist()}
    try:
        ids = message_ids(one.run.folder)
    except RunFolderError:
        ids = {}
    for each in drawn:
        entry: dict[str, Any] = {"number": each["number"]}
        if (identifier := ids.get(each["number"])) is not None:
            entry["id"] = identifier
        line = lines.get(each["number"])
        if line is not None:
            at_us = None if line["published_us"] is None else line["published_us"] - one.run.start_us
            times = ((at_us, 1e6), (line["p50_us"], 1e3), (line["max_us"], 1e3))
            values = *(None if us is None else us / scale for us, scale in times), line["ratio"]
            at, half, last, ratio = numbers(values)
            entry |= {"publisher": None if one.run.is_script(line["publisher"]) else line["publisher"]}
            entry |= {"at": at, "half": half, "last": last, "delivered": line["delivered"], "ratio": ratio}
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


def _within(max_bytes: int, messages: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the first message, and then messages as long as all of them have at most `max_bytes` bytes of JSON."""
    used = 0
    for place, message in enumerate(messages):
        used += len(json_for_script(message)) + 1
        if place and used > max_bytes:
            return
        yield message


def _note(one: _Series) -> str:
    """Return in words how many messages of the series are on the page, and the reason if some are not."""
    shown, known = len(one.chart_series["messages"]), len(one.known)
    if shown >= known:
        return "the only message" if known == 1 else f"all {count(known)} messages"
    more = "`hearsay watch RUN` plays any message"
    if shown == 1:
        why = one.trace_error or f"the others are too large; {more}"
        return f"only message {one.lists[TYPICAL]} of {plural(known, 'message')}: {why}"
    which = "named messages, and others evenly spread over the run"
    return f"{count(shown)} of {plural(known, 'message')}: {which}; {more}"


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
