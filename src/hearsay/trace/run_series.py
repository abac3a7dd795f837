"""A run that a process writes in parts, since it may be killed: run folders `00000`, `00001`, … in one folder.

At the end, `seal` writes a manifest of the series, and joins several parts into the run folder `whole`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hearsay.trace.folder.arrow import read_table, spanning_messages
from hearsay.trace.folder.manifest import MANIFEST, Manifest, TraceFile, WrittenTrace, load_manifest
from hearsay.trace.folder.own_folders import Holds, cannot_write, claim, held_by, require_ours
from hearsay.trace.language.errors import RunFolderError
from hearsay.trace.language.rows import hash_of_parts
from hearsay.trace.language.schema import NONE, Column, TraceEvent
from hearsay.trace.read.reader import RowFilter, read_groups
from hearsay.trace.read.show import Names, load_names
from hearsay.trace.write.run_folder import DICTIONARIES, RunFolder, remove_run
from hearsay.trace.write.writer import TraceWriter

_UP_OR_DOWN = RowFilter(events=(TraceEvent.NODE_UP, TraceEvent.NODE_DOWN))


def lost_at(folder: Path) -> int | None:
    """Return the time at which the node of a run folder was lost.

    None if the node stopped in an orderly way (NODE_DOWN), or if this is not the last run folder of its series.
    """
    pieces = numbered_folders(folder.resolve().parent)
    if folder.resolve() in pieces[:-1]:
        return None
    changes = [
        (time, event)
        for rows in read_groups(folder, {"node"}, _UP_OR_DOWN)
        for time, event in rows[:, [Column.TIME_US, Column.EVENT]].tolist()
    ]
    if changes and max(changes)[1] == TraceEvent.NODE_DOWN:
        return None
    return max((file.max_time_us for file in load_manifest(folder).trace.files), default=-1) + 1


WHOLE = "whole"
_NUMBER = re.compile(r"[0-9]{5,}")
_MAX_ROWS_IN_MEMORY = 1_000_000
_OF_MESSAGES = ("message", "topic", "publisher", "bytes", "published_us")


class RunSeries:
    """The folder of a series, for writing."""

    def __init__(self, path: Path, router: str | None = None) -> None:
        self.router = router
        self._own = claim(path, Holds.SERIES, inner=(DICTIONARIES,))
        self.path = path
        try:
            (path / DICTIONARIES).mkdir(exist_ok=True)
            self._reopen()
        except OSError as error:
            self._own.release()
            raise cannot_write(path, error) from None
        except RunFolderError:
            self._own.release()
            raise
        self._next = _free_number(path)
        self._named = 0, 0
        """How many peers and topics this writer has written to the dictionaries of the series."""

    def names(self) -> Names:
        """Return the names in the dictionaries so far."""
        names = load_names(self.path)
        for dictionary in (names.peers, names.topics):
            if set(dictionary) != set(range(len(dictionary))):
                raise RunFolderError(f"{self.path / DICTIONARIES}: numbers without a name; choose another folder")
        return names

    def next_folder(self) -> RunFolder:
        folder = RunFolder.create(self.path / f"{self._next:05d}")
        self._next += 1
        return folder

    def write_names(self, peers: Sequence[str], topics: Sequence[str], agent: str) -> None:
        """Write the dictionaries of the series if there are new names. Names are added, and never removed."""
        if self._named != (len(peers), len(topics)):
            write_names(RunFolder(self.path), dict(enumerate(peers)), dict(enumerate(topics)), agent, self.router)
            self._named = len(peers), len(topics)

    def seal(self, peers: Sequence[str], topics: Sequence[str], agent: str) -> None:
        """Join the run folders into one run. This is the last use of a series."""
        if (self.path / MANIFEST).exists():
            raise ValueError(f"{self.path} is sealed already")
        try:
            pieces = numbered_folders(self.path)
            complete = all(load_manifest(piece).complete for piece in pieces)
            self._write_seal(peers, topics, agent, self._trace_of_pieces(), complete)
            if len(pieces) > 1:
                written = self._compact(pieces, peers, topics, agent, complete)
                whole = replace(written, files=_inside(WHOLE, written.files))
                self._write_seal(peers, topics, agent, whole, complete)
                for folder in pieces:
                    remove_run(folder)
        finally:
            self._own.release()

    def _reopen(self) -> None:
        """Continue the series of an earlier writer: remove its manifest and unfinished run folders.

        A sealed series becomes one with a single numbered run folder.
        """
        whole = self.path / WHOLE
        is_there = require_ours(whole, Holds.RUN) is not None
        if is_there and speaks_of_whole(self.path):
            for folder in numbered_folders(self.path):
                remove_run(folder)
        (self.path / MANIFEST).unlink(missing_ok=True)
        if (whole / MANIFEST).exists() and not numbered_folders(self.path):
            whole.rename(self.path / f"{_free_number(self.path):05d}")
        elif is_there:
            remove_run(whole)
        for folder in numbered_folders(self.path):
            if not (folder / MANIFEST).exists():
                remove_run(folder)

    def _write_seal(
        self, peers: Sequence[str], topics: Sequence[str], agent: str, trace: WrittenTrace, complete: bool
    ) -> Manifest:
        folder = RunFolder(self.path)
        write_names(folder, dict(enumerate(peers)), dict(enumerate(topics)), agent, self.router)
        return folder.write_manifest(trace, seed=None, complete=complete)

    def _trace_of_pieces(self) -> WrittenTrace:
        parts = [(folder.name, load_manifest(folder).trace) for folder in numbered_folders(self.path)]
        files = tuple(file for name, part in parts for file in _inside(name, part.files))
        rows = sum(part.rows for _, part in parts)
        trace_hash = hash_of_parts([part.hash for _, part in parts])
        return WrittenTrace(files, rows, trace_hash, spanning_messages(self.path, files))

    def _compact(
        self, pieces: list[Path], peers: Sequence[str], topics: Sequence[str], agent: str, complete: bool
    ) -> WrittenTrace:
        """Write the rows of all run folders into one run folder."""
        folder = RunFolder.create(self.path / WHOLE)
        rows = sum(load_manifest(piece).trace.rows for piece in pieces)
        at_once = min(max(rows, 1), _MAX_ROWS_IN_MEMORY)
        with TraceWriter(folder.path, row_group_rows=at_once) as writer:
            for piece in pieces:
                for group in read_groups(piece):
                    writer.add(group)
            written = writer.close()
        write_names(folder, dict(enumerate(peers)), dict(enumerate(topics)), agent, self.router)
        _write_messages(folder, pieces)
        folder.write_manifest(written, seed=None, complete=complete)
        return written


def numbered_folders(path: Path) -> list[Path]:
    """Return the run folders of a series, in order."""
    folders = [folder for folder in path.iterdir() if _NUMBER.fullmatch(folder.name)]
    return sorted((each for each in folders if held_by(each) is Holds.RUN), key=lambda folder: int(folder.name))


def _free_number(path: Path) -> int:
    """Return the next number of a run folder: one above the largest number that is the name of an entry."""
    return max((int(entry.name) for entry in path.iterdir() if _NUMBER.fullmatch(entry.name)), default=-1) + 1


def write_names(
    folder: RunFolder, peers: Mapping[int, str], topics: Mapping[int, str], agent: str, router: str | None = None
) -> None:
    """Write dictionaries of peers and topics by number. Peer 0, the node, has `agent` as its implementation and
    `router` as its role."""
    nothing: list[str | None] = [None] * len(peers)
    roles = [None if number else router for number in peers]
    agents = [None if number else agent for number in peers]
    folder.write_peers([*peers], [*peers.values()], roles, nothing, agents)
    folder.write_topics([*topics], [*topics.values()])


def _inside(folder: str, files: Sequence[TraceFile]) -> tuple[TraceFile, ...]:
    return tuple(replace(file, name=f"{folder}/{file.name}") for file in files)


def speaks_of_whole(path: Path) -> bool:
    """Return whether the manifest of a series names files in `whole`."""
    try:
        files = load_manifest(path).trace.files
    except RunFolderError:
        return False
    return any(file.name.startswith(f"{WHOLE}/") for file in files)


def _write_messages(folder: RunFolder, pieces: list[Path]) -> None:
    """Write a dictionary of messages with the first entry of each message in the run folders' dictionaries."""
    paths = [piece / DICTIONARIES / "messages.parquet" for piece in pieces]
    tables = [read_table(path, _OF_MESSAGES) for path in paths if path.exists()]
    columns = [np.concatenate([_codes(table[name]) for table in tables] or [_codes([])]) for name in _OF_MESSAGES]
    _, first = np.unique(columns[0], return_index=True)
    message, topic, publisher, size, published_us = (column[first] for column in columns)
    ids = [each for table in tables for each in table.get("id", [None] * len(table["message"]))]
    folder.write_messages(message, topic, publisher, size, published_us, [ids[place] for place in first.tolist()])


def _codes(values: Sequence[int | None]) -> NDArray[np.int64]:
    return np.array([NONE if value is None else value for value in values], dtype=np.int64)
