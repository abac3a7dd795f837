"""The rows of a run folder, shown at their times. A simulation or a node may still be writing the folder.

Files of a trace appear whole, so each file is read once. Rows wait, in the order of time, until the clock of the
source reaches their times. While many rows wait, no more files are read.
"""

from __future__ import annotations

from pathlib import Path
from threading import Event
from time import monotonic

import numpy as np

from hearsay.core.language.identifiers import Micros
from hearsay.trace.folder.arrow import open_trace_file, read_group, rows_of
from hearsay.trace.folder.manifest import MANIFEST, RunFolderError, load_manifest
from hearsay.trace.language.rows import Rows, no_rows
from hearsay.trace.language.schema import TRACE_FOLDER, Column
from hearsay.trace.reader import load_names
from hearsay.watch.broadcast import MOST_NAMED_PEERS, Broadcast
from hearsay.watch.links import DrawnNodes
from hearsay.watch.pacing import Pacing
from hearsay.watch.picture import Changes, Picture

MOST_WAITING = 5_000_000
"""Number of waiting rows from which no more files are read, and maximum rows of a complete run."""
CHECK_INTERVAL_S = 0.5
"""Seconds between two searches for new files."""
PORTIONS = 120
"""Number of steps in which waiting rows are shown if the pace has no limit. A single step would show no progress."""
_SCRIPT = "script"


class RunFolderSource:
    """A run folder as a source."""

    def __init__(self, path: Path, pace: float | None, *, paused: bool = False) -> None:
        """Open a run folder. `pace` is the time of the run per real time; None means as fast as possible.

        Raise `RunFolderError` if the folder has no run with a trace, lacks a file of the run, or has too many rows
        for a page.
        """
        self._path = path
        _require_run(path)
        self._pacing = Pacing(pace, paused=paused)
        names = load_names(path)
        self._topics = dict(names.topics)
        nodes = [number for number, name in names.peers.items() if name != _SCRIPT]
        self.picture = Picture(DrawnNodes(max(nodes) + 1 if (path / "scenario.toml").exists() and nodes else 0))
        self._read: set[Path] = set()
        self._waiting = no_rows()
        self._portion = 1
        self._origin_us: Micros | None = None
        self._now_us: Micros = 0
        self._latest_us: Micros = -1
        self._next_check_s = 0.0
        self._ended = False
        self._closed = Event()

    def about(self) -> Changes:
        about: Changes = {"source": "run folder", "names": self._topics, "can": ["pause", "pace"]}
        if self.picture.drawn.known:
            about["of"] = self.picture.drawn.known
        return about

    def run(self, broadcast: Broadcast, *, until_complete: bool) -> None:
        """Show rows until `close`; with `until_complete`, at most until the run is complete and all rows are shown.
        Raise `RunFolderError` if a file is damaged.
        """
        self._pacing.begin(0)
        while not self._closed.is_set() and not (until_complete and self._is_over):
            self.step(broadcast)
            broadcast.wait_until_due()

    def step(self, broadcast: Broadcast) -> None:
        """Read new files, show the rows that are due, and answer requests."""
        self._read_new_files(broadcast)
        self._show_due()
        state = {**self._pacing.state(), "over": self._is_over}
        broadcast.answer_and_send(self._now_us, state, lambda request: self._pacing.perform(request, self._now_us))

    def close(self) -> None:
        """End `run`; any thread may call this."""
        self._closed.set()

    @property
    def _is_over(self) -> bool:
        return self._ended and not len(self._waiting)

    def _read_new_files(self, broadcast: Broadcast) -> None:
        """Read new files, unless too many rows wait or the last search was less than `CHECK_INTERVAL_S` ago."""
        if self._ended or monotonic() < self._next_check_s or len(self._waiting) >= MOST_WAITING:
            return
        self._next_check_s = monotonic() + CHECK_INTERVAL_S
        ended = (self._path / MANIFEST).exists()  # checked before the files: a manifest names existing files
        new = sorted(file for file in _files(self._path, ended) if file not in self._read)
        if new:
            rows = np.concatenate([no_rows(), *(rows for file in new for rows in _rows_in(file))])
            if any(not file.exists() for file in self._read):  # a node's trace was sealed: its folders were joined
                rows = rows[rows[:, Column.TIME_US] > self._latest_us]
            self._read.update(new)
            self._add_waiting(rows)
            self._send_names(broadcast)
        self._ended = ended

    def _add_waiting(self, rows: Rows) -> None:
        if not len(rows):
            return
        if self._origin_us is None:
            self._origin_us = 0 if self.picture.drawn.known else int(rows[:, Column.TIME_US].min())
        self._latest_us = max(self._latest_us, int(rows[:, Column.TIME_US].max()))
        rows = np.concatenate([self._waiting, rows])
        self._waiting = rows[np.argsort(rows[:, Column.TIME_US], kind="stable")]
        self._portion = -(-len(rows) // PORTIONS)

    def _show_due(self) -> None:
        due_us = self._pacing.due_us()
        if not len(self._waiting):
            self._pacing.begin(self._now_us)  # the clock stops while there is no row to show
            return
        assert self._origin_us is not None
        times = self._waiting[:, Column.TIME_US] - self._origin_us
        last_us = int(times[min(self._portion, len(times)) - 1]) if due_us is None else min(due_us, int(times[-1]))
        stop = int(np.searchsorted(times, last_us, side="right"))
        rows = self._waiting[:stop].copy()
        rows[:, Column.TIME_US] -= self._origin_us
        self.picture.add_rows(rows)
        self._waiting = self._waiting[stop:]
        self._now_us = max(self._now_us, last_us)

    def _send_names(self, broadcast: Broadcast) -> None:
        names = load_names(self._path)
        broadcast.add_state(names=dict(names.topics))
        if not self.picture.drawn.known:
            first = sorted(names.peers)[:MOST_NAMED_PEERS]
            broadcast.add_state(peers={number: names.peers[number] for number in first})


def _require_run(path: Path) -> None:
    """Raise `RunFolderError` unless the path has a complete run of at most `MOST_WAITING` rows, or a run that is
    being written.
    """
    if (path / MANIFEST).exists():
        manifest = load_manifest(path)
        rows = manifest.trace.rows
        if not manifest.trace.files:
            raise RunFolderError(f"{path}: has no trace; simulate with --trace full")
        if rows > MOST_WAITING:
            raise RunFolderError(f"{path}: has {rows:,} rows; a page plays at most {MOST_WAITING:,}")
        for file in (*manifest.trace.files, *manifest.others):
            if not (path / file.name).exists():
                raise RunFolderError(f"{path / file.name}: is missing; the run's manifest names it")
    elif not (path / TRACE_FOLDER).is_dir() and not (path / "dictionary").is_dir():
        load_manifest(path)  # raises the error that says what the path is instead


def _files(path: Path, ended: bool) -> list[Path]:
    if ended:
        return [path / file.name for file in load_manifest(path).trace.files if (path / file.name).exists()]
    whole = [*path.glob(f"{TRACE_FOLDER}/*/part-*.parquet")]
    pieces = [piece.parent for piece in path.glob(f"[0-9]*/{MANIFEST}")]
    return whole + [file for piece in pieces for file in piece.glob(f"{TRACE_FOLDER}/*/part-*.parquet")]


def _rows_in(file: Path) -> list[Rows]:
    if not file.exists():
        return []  # joined with other folders meanwhile; its rows are read from the joined run
    opened = open_trace_file(file)
    return [rows_of(read_group(opened, group, file)) for group in range(opened.num_row_groups)]
