"""A series: a run that a process writes as several run folders, because the process may be killed.

The run folders `00000`, `00001`, … are in the folder of the series. At the end, `seal` writes a manifest of the
series, and joins the run folders into one, `whole`, if there are several.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hearsay.trace.folder.arrow import read_table, spanning_messages
from hearsay.trace.folder.manifest import MANIFEST, RunFolderError, TraceFile, WrittenTrace, load_manifest
from hearsay.trace.folder.own_folders import Holds, claim, held_by, require_ours
from hearsay.trace.folder.run_folder import DICTIONARIES, RunFolder, dictionary_file, remove_run
from hearsay.trace.folder.writer import TraceWriter
from hearsay.trace.language.rows import hash_of_parts
from hearsay.trace.language.schema import NONE, Column, TraceEvent
from hearsay.trace.reader import Names, RowFilter, load_names, read_groups

_UP_OR_DOWN = RowFilter(events=(TraceEvent.NODE_UP, TraceEvent.NODE_DOWN))
WHOLE = "whole"
_NUMBER = re.compile(r"[0-9]{5,}")
_MAX_ROWS_IN_MEMORY = 1_000_000
_MESSAGE_COLUMNS = ("message", "topic", "publisher", "bytes", "published_us")


def lost_at(folder: Path) -> int | None:
    """Return the time at which the node of a run folder was lost: one microsecond after the last row, 0 without rows.

    Return None if the last of the node's rows of NODE_UP and NODE_DOWN is a NODE_DOWN, or if the folder is not the
    last run folder of its series.
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


class RunSeries:
    """The folder of a series, for writing. If an earlier writer left a series there, this writer continues it."""

    def __init__(self, path: Path, router: str | None = None) -> None:
        self.router = router
        self._own = claim(path, Holds.SERIES, inner=(DICTIONARIES,))
        self.path = path
        with self._own.released_on_error():
            (path / DICTIONARIES).mkdir(exist_ok=True)
            self._reopen()
        self._next = _free_number(path)
        self._named = 0, 0
        """Numbers of peers and of topics that this writer has written to the dictionaries of the series."""

    def names(self) -> Names:
        """Return the names that the dictionaries of the series have so far.

        Raises `RunFolderError` if the numbers in a dictionary are not 0, 1, 2 …
        """
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
        """Write the dictionaries of the series if there are new names. Callers must never remove or reorder names."""
        if self._named != (len(peers), len(topics)):
            write_names(RunFolder(self.path), dict(enumerate(peers)), dict(enumerate(topics)), agent, self.router)
            self._named = len(peers), len(topics)

    def seal(self, peers: Sequence[str], topics: Sequence[str], agent: str) -> None:
        """Join the run folders into one run, write its manifest, and release the folder. This is the last call."""
        if (self.path / MANIFEST).exists():
            raise ValueError(f"{self.path}: the series is already sealed")

        def seal_folder(folder: RunFolder, trace: WrittenTrace) -> None:
            write_names(folder, dict(enumerate(peers)), dict(enumerate(topics)), agent, self.router)
            folder.write_manifest(trace, seed=None, complete=complete)

        try:
            pieces = numbered_folders(self.path)
            complete = all(load_manifest(piece).complete for piece in pieces)
            seal_folder(RunFolder(self.path), self._trace_of(pieces))
            if len(pieces) > 1:
                whole = RunFolder.create(self.path / WHOLE)
                written = _written_together(whole, pieces)
                seal_folder(whole, written)
                seal_folder(RunFolder(self.path), replace(written, files=_inside(WHOLE, written.files)))
                for folder in pieces:
                    remove_run(folder)
        finally:
            self._own.release()

    def _reopen(self) -> None:
        """Prepare the series of an earlier writer for more run folders: remove its manifest and unfinished run
        folders.

        A finished run folder `whole` becomes the only numbered run folder if the removed manifest names its files, or
        if no numbered run folder is left. Otherwise `whole` is removed.
        """
        whole = self.path / WHOLE
        is_there = require_ours(whole, Holds.RUN) is not None
        if is_there and names_whole(self.path):
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

    def _trace_of(self, pieces: Sequence[Path]) -> WrittenTrace:
        parts = [(folder.name, load_manifest(folder).trace) for folder in pieces]
        files = tuple(file for name, part in parts for file in _inside(name, part.files))
        rows = sum(part.rows for _, part in parts)
        trace_hash = hash_of_parts([part.hash for _, part in parts])
        return WrittenTrace(files, rows, trace_hash, spanning_messages(self.path, files))


def _written_together(folder: RunFolder, pieces: Sequence[Path]) -> WrittenTrace:
    """Write the trace and the messages of all run folders `pieces` into one run folder."""
    rows = sum(load_manifest(piece).trace.rows for piece in pieces)
    with TraceWriter(folder.path, row_group_rows=min(max(rows, 1), _MAX_ROWS_IN_MEMORY)) as writer:
        for piece in pieces:
            for group in read_groups(piece):
                writer.add(group)
        written = writer.close()
    _write_messages(folder, pieces)
    return written


def numbered_folders(path: Path) -> list[Path]:
    """Return the numbered run folders of a series, in ascending order."""
    folders = [folder for folder in path.iterdir() if _NUMBER.fullmatch(folder.name)]
    return sorted((each for each in folders if held_by(each) is Holds.RUN), key=lambda folder: int(folder.name))


def _free_number(path: Path) -> int:
    """Return the number of the next run folder: one more than the largest number among the names in the folder."""
    return max((int(entry.name) for entry in path.iterdir() if _NUMBER.fullmatch(entry.name)), default=-1) + 1


def write_names(
    folder: RunFolder, peers: Mapping[int, str], topics: Mapping[int, str], agent: str, router: str | None = None
) -> None:
    """Write the dictionaries of peers and topics, which map numbers to names.

    Peer 0 is the node itself: its implementation is `agent`, and its role is `router`.
    """
    roles = [None if number else router for number in peers]
    agents = [None if number else agent for number in peers]
    folder.write_peers([*peers], [*peers.values()], roles, [None] * len(peers), agents)
    folder.write_topics([*topics], [*topics.values()])


def _inside(folder: str, files: Sequence[TraceFile]) -> tuple[TraceFile, ...]:
    return tuple(replace(file, name=f"{folder}/{file.name}") for file in files)


def names_whole(path: Path) -> bool:
    """Return True if the manifest of a series names files in its run folder `whole`."""
    try:
        files = load_manifest(path).trace.files
    except RunFolderError:
        return False
    return any(file.name.startswith(f"{WHOLE}/") for file in files)


def _write_messages(folder: RunFolder, pieces: Sequence[Path]) -> None:
    """Write a dictionary of messages. For each message, it has the first entry in the dictionaries of `pieces`."""
    paths = [dictionary_file(piece, "messages") for piece in pieces]
    tables = [_message_table(path) for path in paths if path.exists()]
    columns = [np.concatenate([_codes(table[name]) for table in tables] or [_codes([])]) for name in _MESSAGE_COLUMNS]
    _, first = np.unique(columns[0], return_index=True)
    message, topic, publisher, size, published_us = (column[first] for column in columns)
    ids = [each for table in tables for each in table["id"]]
    folder.write_messages(message, topic, publisher, size, published_us, [ids[place] for place in first.tolist()])


def _message_table(path: Path) -> dict[str, list[Any]]:
    """Return a dictionary of messages. Its ids are None in a run folder of version 0.1."""
    table = read_table(path, _MESSAGE_COLUMNS)
    return {"id": [None] * len(table["message"]), **read_table(path)}


def _codes(values: Sequence[int | None]) -> NDArray[np.int64]:
    return np.array([NONE if value is None else value for value in values], dtype=np.int64)
