"""Run folders that live nodes left, as a source like any other: what one node saw, in its own numbers.

Peers are told apart by their ids, topics by their names, messages by the numbers that live traces make of ids, which
are the same at every node; the ids themselves are in the dictionaries. What is read is the run folders that a node's
trace is made of (`hearsay.trace.run_series`), sealed or not: of a node that was killed, those it had written
by then. Such a node is down from there, and a row says so (`hearsay.trace.run_series`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hearsay.core.language.actions import Reason
from hearsay.ingest.identifiers import peer_of_name
from hearsay.ingest.parts import BadSource, PartWriter
from hearsay.trace.folder.arrow import read_table
from hearsay.trace.folder.manifest import MANIFEST, load_manifest
from hearsay.trace.language.errors import RunFolderError
from hearsay.trace.language.rows import Rows
from hearsay.trace.language.schema import NONE, WIDTH, Column, TraceEvent, wire_name
from hearsay.trace.read.reader import read_groups
from hearsay.trace.run_series import WHOLE, lost_at, numbered_folders, speaks_of_whole
from hearsay.trace.write.run_folder import DICTIONARIES

Numbers: TypeAlias = NDArray[np.int64]

LIVE = "live"
_LAST_US = np.iinfo(np.int64).max // 1000
_DICTIONARIES = {
    "peers": {"peer": int, "name": str, "role": str | None, "implementation": str | None},
    "topics": {"topic": int, "name": str},
    "messages": {"message": int, "bytes": int | None, "id": str | None},
}
"""The columns that are read, and what is in them. Runs of 0.1 have no ids and no roles."""


def different_folders(runs: Sequence[Path]) -> list[Path]:
    """The run folders to read for these traces; RunFolderError if one is none, or repeats what another tells.

    A node writes one trace at a time, so two that tell of it at the same time are copies, whole or in part.
    """
    told: dict[str, list[tuple[int, int, Path]]] = {}
    folders = [folder for path in runs for folder in _sealed_folders(path)]
    for folder in folders:
        files = load_manifest(folder).trace.files
        since = min((file.min_time_us for file in files), default=0)
        until = max((file.max_time_us for file in files), default=0)
        of_node = told.setdefault(next(iter(_dictionary(folder, "peers")["name"]), ""), [])
        for other_since, other_until, other in of_node:
            if since <= other_until and other_since <= until:
                raise RunFolderError(f"{folder}: tells of the same node and time as {other}; give each trace once")
        of_node.append((since, until, folder))
    return folders


def _sealed_folders(path: Path) -> list[Path]:
    """The run folders that a node's trace is made of; RunFolderError if this is none."""
    folders = [path]
    if path.is_dir():
        pieces = [path / WHOLE] if speaks_of_whole(path) else numbered_folders(path)
        folders = [piece for piece in pieces if (piece / MANIFEST).exists()] or folders
    for folder in folders:
        manifest = load_manifest(folder)
        if manifest.seed is not None:
            raise RunFolderError(f"{path}: the run of a simulation; only traces of live nodes can be joined")
        source = manifest.created_by.get("source")
        if source is not None:
            why = "joined already; give the runs it was made from" if source == LIVE else f"imported ({source})"
            raise RunFolderError(f"{path}: {why}; only traces of live nodes can be joined")
    return folders


def message_ids(folders: Sequence[Path]) -> dict[bytes, str]:
    """By a message's name in parts its id in hexadecimal, as far as the dictionaries know."""
    found: dict[bytes, str] = {}
    for folder in folders:
        table = _dictionary(folder, "messages")
        for number, text in zip(table["message"], table["id"], strict=True):
            if text is not None:
                found[_name(number)] = text
    return found


def router_of(folders: Sequence[Path]) -> str | None:
    """The router that the nodes ran, or all of them; None if no trace says it."""
    named = {next(iter(_dictionary(folder, "peers")["role"]), None) for folder in folders}
    if named <= {None}:
        return None
    routers = sorted(name or "unknown" for name in named)
    return routers[0] if len(routers) == 1 else f"mixed: {', '.join(routers)}"


def decode_live_run(run: Path, part: PartWriter) -> None:
    """Read a run folder into the part; BadSource if it is not wholly good."""
    try:
        _Run(run, part).decode()
    except RunFolderError as error:
        raise BadSource(str(error)) from None
    except (IndexError, ValueError) as error:
        raise BadSource(f"not the trace of a live node ({error})") from None


class _Run:
    def __init__(self, run: Path, part: PartWriter) -> None:
        self._run = run
        self._part = part
        names = part.identifiers
        peers = _dictionary(run, "peers")
        self._peers = names.peers.number([peer_of_name(name) for name in _by_number(peers, "peer")])
        self._topics = names.topics.number(
            [name.encode() for name in _by_number(_dictionary(run, "topics"), "topic")]
        )
        for number, agent in zip(self._peers.tolist(), peers["implementation"], strict=True):
            if agent is not None:
                part.implementations[number] = agent

    def decode(self) -> None:
        for rows in read_groups(self._run):
            if len(rows):
                self._add(rows)
        lost_us = lost_at(self._run)
        if lost_us is not None:
            self._part.add(self._lost(lost_us))
        messages = _dictionary(self._run, "messages")
        known = [place for place, size in enumerate(messages["bytes"]) if size is not None]
        numbers = self._part.identifiers.messages.number([_name(messages["message"][place]) for place in known])
        self._part.add_sizes(numbers, np.array([messages["bytes"][place] for place in known], dtype=np.int64))

    def _lost(self, time_us: int) -> Rows:
        """The end of a node that could not tell of it; a node is number 0 of its own trace."""
        row = np.full((1, WIDTH), NONE, dtype=np.int64)
        row[0, [Column.TIME_US, Column.EVENT, Column.PEER]] = time_us * 1000, TraceEvent.NODE_DOWN, self._peers[0]
        row[0, Column.REASON] = self._part.identifiers.reasons.number([_reason_name(Reason.LOST)])[0]
        return row

    def _add(self, rows: Rows) -> None:
        if not 0 <= rows[:, Column.TIME_US].min() <= rows[:, Column.TIME_US].max() <= _LAST_US:
            raise ValueError("a time is out of range")
        rows[:, Column.TIME_US] *= 1000
        for column, numbers in (
            (Column.PEER, self._peers),
            (Column.REMOTE, self._peers),
            (Column.TOPIC, self._topics),
        ):
            rows[:, column] = _renumbered(rows[:, column], numbers)
        names = self._part.identifiers
        rows[:, Column.MESSAGE] = _named(rows[:, Column.MESSAGE], _name, names.messages.number)
        rows[:, Column.REASON] = _named(rows[:, Column.REASON], _reason_name, names.reasons.number)
        self._part.identifiers.count_events(rows[:, Column.PEER], rows[:, Column.EVENT], rows[:, Column.TIME_US])
        self._part.add(rows)


def _name(number: int) -> bytes:
    return number.to_bytes(8, "big")


def _reason_name(code: int) -> bytes:
    return wire_name(Reason(code)).encode()


def _named(values: Numbers, name: Callable[[int], bytes], number: Callable[[list[bytes]], Numbers]) -> Numbers:
    """The numbers of the names of these values."""
    distinct, places = np.unique(values, return_inverse=True)
    known = distinct != NONE
    numbers = np.full(len(distinct), NONE, dtype=np.int64)
    numbers[known] = number([name(value) for value in distinct[known].tolist()])
    return numbers[places]


def _renumbered(values: Numbers, numbers: Numbers) -> Numbers:
    if not NONE <= values.min() <= values.max() < len(numbers):
        raise ValueError("a row has a number that no dictionary names")
    return np.append(numbers, NONE)[np.where(values == NONE, len(numbers), values)]


def _by_number(table: dict[str, list[Any]], key: str) -> Iterator[str]:
    if table[key] != list(range(len(table[key]))):
        raise ValueError(f"the {key}s are not numbered from 0")
    yield from table["name"]


def _dictionary(run: Path, name: str) -> dict[str, list[Any]]:
    path = run / DICTIONARIES / f"{name}.parquet"
    table = read_table(path)
    table.setdefault("id", [None] * len(table.get("message", ())))
    table.setdefault("role", [None] * len(table.get("peer", ())))
    for column, kind in _DICTIONARIES[name].items():
        values = table.get(column)
        if values is None or not all(isinstance(value, kind) for value in values):
            raise RunFolderError(f"{path}: column {column} is not what a live trace has there")
        if kind is int and any(value < 0 for value in values):
            raise RunFolderError(f"{path}: a negative number in column {column}")
    return table
