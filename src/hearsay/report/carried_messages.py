"""Messages that a page carries beside the typical one, so that its animation can play them: of small runs all.

Rules:

* A page has room for `MOST_BYTES` of them; each run and topic has the same share. Where not all fit, those that can
  be chosen by what they are come first (the slowest, the first, …), then others evenly over the run. Runs side by
  side carry the same numbers, as far as they have them.
* They are read from the trace beside the tables, about `MOST_ROWS` rows of it at most. What cannot be read leaves the
  typical message, which the tables hold; the page says how many are left out, and why.
* A message is packed as whole numbers, column after column: nodes and times as differences from the delivery before,
  parents as places back, rings and angles as differences from the parent's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from hearsay.pipeline.input.run_facts import RunFacts, load_runs
from hearsay.pipeline.metrics.spread import TypicalMessage, spread_lines
from hearsay.pipeline.output.stored_tables import arrow_schema
from hearsay.pipeline.output.tables import MESSAGES, SPREAD
from hearsay.report import thinning
from hearsay.report.figure import Figure, numbers
from hearsay.report.figures.spread import ID, MOST_DELIVERIES, drawn_spread
from hearsay.report.markup import json_for_script
from hearsay.report.packed_integers import packed_integers
from hearsay.report.run import Run, View
from hearsay.text.numbers import count, plural
from hearsay.trace.folder.arrow import pa, read_table
from hearsay.trace.folder.arrow_compute import compute
from hearsay.trace.folder.manifest import MANIFEST
from hearsay.trace.language.errors import RunFolderError
from hearsay.trace.write.run_folder import DICTIONARIES

MOST_BYTES = 2_000_000
MOST_ROWS = 20_000_000
_DELIVERY_BYTES, _MESSAGE_BYTES = 14, 300
"""About what they take."""
_COLUMNS = (
    "topic", "message", "publisher", "published_us", "delivered", "ratio", "p50_us", "max_us",
)  # fmt: skip
TYPICAL = "typical"
_LISTS = (
    ("slowest", "p50_us", "descending"),
    ("fastest", "p50_us", "ascending"),
    ("longest tail", "max_us", "descending"),
    ("least delivered", "ratio", "ascending"),
    ("first", "published_us", "ascending"),
    ("last", "published_us", "descending"),
)
NO_TRACE = "the trace is not beside the tables"


@dataclass
class _Series:
    """What is played of a topic of a run."""

    shown: dict[str, Any]
    view: View
    run: Run
    known: Any
    """Its messages that have a latency, in the order of their publication."""
    lists: dict[str, int]
    trace: RunFacts | None = None
    why_not: str = ""

    def most(self, room: int, rows: int) -> int:
        """How many messages there is room for, and time to read."""
        if self.trace is None:
            return 0
        largest = min(MOST_DELIVERIES, compute.max(self.known.column("delivered")).as_py() or 0)
        there = max(1, sum(file.rows for file in self.trace.files("message")))
        return min(room // (_MESSAGE_BYTES + _DELIVERY_BYTES * largest), rows * len(self.known) // there)


def carry_messages(figures: Sequence[Figure], runs: Sequence[Run], room: int = MOST_BYTES) -> None:
    """Put messages of the runs' traces beside the typical ones of the animation, all of them packed."""
    for figure in figures:
        if figure.id == ID:
            all_series = [_series(runs, each) for each in figure.series]
            for _, same in groupby(sorted(all_series, key=lambda one: one.view.place), lambda one: one.view.place):
                _carry(list(same), room // len(all_series), MOST_ROWS // len(all_series))
            figure.notes.extend((one.view, _words(one)) for one in all_series)


def _series(runs: Sequence[Run], shown: dict[str, Any]) -> _Series:
    run = runs[int(shown["run"])]
    view = next(each for each in run.topic_views if each.place == shown["topic"])
    known = view.rows(run.read(MESSAGES, *_COLUMNS))
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
    """The messages of one topic in several runs; room and rows are for each."""
    most = min((one.most(room, rows) for one in same if one.trace is not None), default=0)
    named = list(dict.fromkeys(number for one in same for number in one.lists.values()))
    for one in same:
        typical = one.lists[TYPICAL]
        own = one.known.column("message").to_pylist()
        evenly = [own[place] for place in thinning.evenly(len(own), max(1, most)).tolist()]
        wanted = [each for each in dict.fromkeys([*one.lists.values(), *named, *evenly]) if each != typical]
        there = set(own)
        chosen = [each for each in wanted if each in there][:most]
        drawn = [*one.shown["messages"], *_read(one, chosen)]
        one.shown["messages"] = list(_within(room, _packed(one, drawn)))
        carried = {each["number"] for each in one.shown["messages"]}
        one.shown["lists"] = {name: number for name, number in one.lists.items() if number in carried}


def _read(one: _Series, chosen: Sequence[int]) -> Iterator[dict[str, Any]]:
    """In the order of `chosen`; none of them where the trace cannot be read."""
    if one.trace is None or not chosen:
        return
    lines = {line["message"]: line for line in one.known.to_pylist()}
    wanted = [
        TypicalMessage(
            *(lines[each][name] for name in ("topic", "message", "publisher", "published_us", "delivered"))
        )
        for each in chosen
    ]
    files = [file.name for file in one.trace.files("message")]
    schema = pa.schema([arrow_schema(SPREAD).field(name) for name in SPREAD.names if name != "run"])
    try:
        for _, rows in groupby(spread_lines(one.trace, files, wanted), lambda line: line["message"]):
            yield drawn_spread(pa.Table.from_pylist(list(rows), schema=schema))
    except RunFolderError as error:
        one.why_not = str(error)


def _packed(one: _Series, drawn: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """With what the tables say of each."""
    lines = {line["message"]: line for line in one.known.to_pylist()}
    ids = _ids(one.run, [each["number"] for each in drawn])
    for each in drawn:
        number = each["number"]
        told: dict[str, Any] = {"number": number, **({"id": ids[number]} if number in ids else {})}
        line = lines.get(number)
        if line is not None:
            at, half, last = numbers(
                (us - start) / scale if us is not None else None
                for us, start, scale in (
                    (line["published_us"], one.run.start_us, 1e6), (line["p50_us"], 0, 1e3), (line["max_us"], 0, 1e3),
                )
            )  # fmt: skip
            told |= {"publisher": None if one.run.is_script(line["publisher"]) else line["publisher"]}
            told |= {"at": at, "half": half, "last": last}
            told |= {"delivered": line["delivered"], "ratio": numbers([line["ratio"]])[0]}
        yield told | _packed_deliveries(each)


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
    """The first, and those after it that fit."""
    used = 0
    for place, message in enumerate(messages):
        used += len(json_for_script(message)) + 1
        if place and used > room:
            return
        yield message


def _ids(run: Run, wanted: Sequence[int]) -> dict[int, str]:
    """The ids of messages that have ids of their own."""
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
    """Which of its messages are on the page."""
    carried, known = len(one.shown["messages"]), len(one.known)
    if carried >= known:
        return "its only message" if known == 1 else f"all {count(known)} messages are here"
    more = "`hearsay watch RUN` plays any message"
    if carried == 1:
        why = f": {one.why_not}" if one.why_not else ", the others are too large"
        return f"message {one.lists[TYPICAL]} alone of {plural(known, 'message')} is here{why}; {more}"
    why = f" ({one.why_not})" if one.why_not else ""
    which = "those that can be chosen by what they are, and others evenly over the run"
    return f"{count(carried)} of {plural(known, 'message')} are here{why}: {which}; {more}"
