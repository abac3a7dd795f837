"""A live node's trace, in the format of `hearsay.trace`.

Rows are collected in memory. Every few seconds, or when there are many rows, a thread writes them as a run folder in
the trace's directory: `00000`, `00001`, … A folder is complete when its manifest exists, so a killed node loses only
the rows of the last interval. The next node that writes to this directory adds the row `node_down` of the killed
node, with the reason `lost`. A node that closes seals the directory, which is then one run
(`hearsay.trace.run_series`).

Every folder has the dictionaries of peers and topics. While the disk is slow, a bounded number of rows waits. Further
rows are lost and counted. The next folder, and so the whole run, is then marked as incomplete.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from logging import getLogger
from pathlib import Path

import numpy as np

from hearsay.core.language.actions import Reason
from hearsay.core.language.identifiers import Micros
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.libp2p.node_host import Tasks
from hearsay.node.trace_rows import MessageFacts, TraceRows
from hearsay.trace.folder.arrow import use_system_allocator
from hearsay.trace.folder.writer import TraceWriter
from hearsay.trace.language.event_rows import Codes, node_down_row
from hearsay.trace.language.rows import RowBuffer, Rows, pack_row
from hearsay.trace.language.schema import NONE, Column
from hearsay.trace.run_series import RunSeries, lost_at, numbered_folders, write_names

_log = getLogger(__name__)
INTERVAL_S = 5.0
"""Seconds between two writes of the collected rows."""
MAX_ROWS = 100_000
"""Number of collected rows that are written at once, without waiting for the end of the interval."""
MAX_WAITING_ROWS = 200_000
"""Maximum rows in memory that are not being written yet; further rows are lost."""


class LiveTrace(TraceRows):
    """The trace rows of a node, which are also written to a directory."""

    def __init__(
        self,
        directory: Path,
        node: PeerId,
        clock: Callable[[], Micros],
        agent: str,
        router: str | None = None,
        *,
        return_memory: bool = True,
        watcher: Callable[[Codes], None] | None = None,
    ) -> None:
        """Create the trace and write the row of the node's start.

        With `return_memory`, Arrow uses the heap of the C library, whose free memory can be returned to the system.
        """
        if return_memory:
            use_system_allocator()
        self._series = RunSeries(directory, router)
        predecessors = numbered_folders(directory)
        lost_us = lost_at(predecessors[-1]) if predecessors else None
        self._agent = agent
        self._rows = RowBuffer()
        named = self._series.names()
        super().__init__(node, clock, watcher, _in_order(named.peers), _in_order(named.topics))
        self._lost = 0
        """Number of rows that were lost since the last folder, for lack of room or because the folder could not be
        written."""
        self.rows_lost = 0
        """Number of rows that were lost since the start of the node."""
        self._writing: asyncio.Task[None] | None = None
        self._tasks = Tasks()
        self._closed = False
        if lost_us is not None:
            self._row(node_down_row(lost_us, self._own, Reason.LOST))
        self.begin()
        self._tasks.start(self._write_periodically())

    async def close(self) -> None:
        """Write the remaining rows and seal the directory. Further calls do nothing."""
        if self._closed:
            return
        self._closed = True
        await self._tasks.close()
        await self._wait_for_write()
        if len(self._rows) >= MAX_ROWS:
            self._write()
        self._row(node_down_row(self._clock(), self._own, NONE))
        await self._wait_for_write()
        self._write()
        await self._wait_for_write()
        self._writing = asyncio.ensure_future(asyncio.to_thread(self._series.seal, *self.names(), self._agent))
        self._writing.add_done_callback(partial(self._finished, 0))
        await self._wait_for_write()

    async def _wait_for_write(self) -> None:
        """Wait until the current write has ended. If the write fails, for example on a full disk, raise nothing."""
        if self._writing is not None:
            await asyncio.wait([self._writing])

    def _row(self, codes: Codes) -> None:
        super()._row(codes)
        if not self._has_room:
            self._lose(1)
            return
        self._rows.values.frombytes(pack_row(*codes))
        if len(self._rows) >= MAX_ROWS:
            self._write()

    @property
    def _has_room(self) -> bool:
        return len(self._rows) < MAX_WAITING_ROWS

    def _lose(self, rows: int) -> None:
        if rows and not self._lost:
            _log.warning("trace rows are lost: writing to the disk is too slow or fails")
        self._lost += rows
        self.rows_lost += rows

    async def _write_periodically(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_S)
            self._write()

    def _write(self) -> None:
        """Start to write the collected rows into a new folder, unless there are none or a write is running."""
        if not len(self._rows) or (self._writing is not None and not self._writing.done()):
            return
        rows, messages = self._rows.to_numpy(), self._messages
        self._rows.clear()
        self._messages = {}
        complete, self._lost = not self._lost, 0
        names = self.names()
        work = asyncio.to_thread(_write_folder, self._series, rows, *names, messages, self._agent, complete)
        self._writing = asyncio.ensure_future(work)
        self._writing.add_done_callback(partial(self._finished, len(rows)))

    def _finished(self, rows: int, writing: asyncio.Future[None]) -> None:
        if not writing.cancelled() and writing.exception() is not None:
            _log.error("cannot write the trace: %s", writing.exception())
            self._lose(rows)


def _in_order(names: Mapping[int, str]) -> list[str]:
    return [names[number] for number in range(len(names))]


def _write_folder(
    series: RunSeries,
    rows: Rows,
    peers: list[str],
    topics: list[str],
    messages: dict[int, MessageFacts],
    agent: str,
    complete: bool,
) -> None:
    series.write_names(peers, topics, agent)
    folder = series.next_folder()
    with TraceWriter(folder.path, row_group_rows=max(1, len(rows))) as writer:
        writer.add(rows)
        written = writer.close()
    known = [(number, *messages[number]) for number in sorted(messages)]
    message, topic, author, sizes, times, ids = zip(*known, strict=True) if known else [()] * 6
    named: set[int] = {0, *author, *np.unique(rows[:, [Column.PEER, Column.REMOTE]]).tolist()} - {NONE}
    used_topics: set[int] = {*topic, *np.unique(rows[:, Column.TOPIC]).tolist()} - {NONE}
    write_names(
        folder,
        {number: peers[number] for number in sorted(named)},
        {number: topics[number] for number in sorted(used_topics)},
        agent,
        series.router,
    )
    folder.write_messages(message, topic, author, sizes, times, [each.hex() for each in ids])
    folder.write_manifest(written, seed=None, complete=complete)
