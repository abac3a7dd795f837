"""The array engine as Python sees it: an object that is built from a plan, runs to the end, and returns figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hearsay.core.language.identifiers import Micros
from hearsay.core.language.rpc import PartKind
from hearsay.core.rules.randomness import Randomness
from hearsay.sim.array.build import build
from hearsay.sim.array.compiling import zeros
from hearsay.sim.array.run.loop import (
    ADVANCE,
    BEGIN,
    CHECK,
    CLOSE,
    COLLECT,
    DRAIN,
    FINISH,
    LATENCIES_AT_ONCE,
    SHARE,
    work,
    work_10,
    work_10_checked,
    work_11,
    work_checked,
    work_of_features,
    work_of_mixes,
    work_of_overlays,
    work_of_slots,
    work_of_trees,
)
from hearsay.sim.array.world import layout as at
from hearsay.sim.array.world import record
from hearsay.sim.array.world.layout import Arrays
from hearsay.sim.plan.engines import CapacityExceeded
from hearsay.sim.plan.network import make_latency
from hearsay.sim.plan.plan import Plan
from hearsay.sim.summary import Figures, Latencies
from hearsay.trace.language.rows import Rows

_STEPS = 200
MAX_REPORTED = 20
"""The maximum number of findings of a check that are reported one by one."""
_WORTH_SHARING = 5_000
"""Threads share a part of a bucket only if it has more events than this, because starting the threads takes as long
as handling a few hundred events."""


class RunCheck(Protocol):
    """The check of a run.

    Some nodes are witnesses: the engine writes notes of all calls of their routers. The check names these nodes, and
    receives the notes, and findings about all nodes.
    """

    @property
    def nodes(self) -> Sequence[int]: ...

    def take(self, rows: Rows) -> Rows:
        """Store the rows and notes of the witnesses from a batch of rows; return the batch without the notes."""
        ...

    def found(self, count: int, some: Sequence[Sequence[int]]) -> None:
        """Receive the findings of the check of all nodes: `count` is their number, and `some` has the earliest ones.

        A finding is a broken invariant: a sequence of time (-1 at the end of the run), kind, node, peer, topic and
        number.
        """
        ...


class ArrayEngine:
    """One run of a plan on the array engine."""

    def __init__(
        self, plan: Plan, take_rows: Callable[[Rows], None] | None, threads: int = 1, check: RunCheck | None = None
    ) -> None:
        """Build the arrays of a run. Raise `CapacityExceeded` if there is not enough memory for them.

        `take_rows` is called with batches of trace rows; a batch is valid only during the call. If it is None, the
        engine only computes the hash of the trace. `check.take` is called with the same batches, notes included
        (`rules/checks.py`); without `take_rows`, these batches have only the rows of the witnesses. A run with
        partial messages, or with routers that choose their neighbours, uses one thread only.
        """
        randomness = Randomness(plan.scenario.seed)
        self._end_us = plan.end_us
        self.latency = make_latency(plan.scenario.links, plan.scenario.network.nodes, randomness)
        try:
            kept = record.ROWS_OF_WITNESSES if check else record.NO_ROWS
            kept = kept if take_rows is None else record.ALL_ROWS
            self.arrays = build(plan, self.latency, randomness, tracing=kept, threads=threads)
        except MemoryError as error:
            raise CapacityExceeded("out of memory: the array engine has no room for its tables") from error
        if check is not None:
            self.arrays["witnesses"] = np.zeros(plan.scenario.network.nodes + 1, np.uint8)
            self.arrays["witnesses"][list(check.nodes)] = record.IS_WITNESS
            self.arrays.world[at.WITNESSES] = 1
            self._begin_check()
        self._work = _smallest_entry(self.arrays)
        self.step_us: Micros = max(1, self._end_us // _STEPS)
        """The simulated time between two calls of `progress`, approximately. The caller may change it at any time."""
        self.stop_requested = False
        """The caller may set it, from any thread, to end the run early."""
        self.complete = False
        self._take_rows = take_rows
        self._check = check
        self._longer: Counter[int] = Counter()
        """The number of deliveries by latency in microseconds, for latencies that are too long for
        `latency_counts`."""
        helpers = int(self.arrays.world[at.THREADS]) - 1
        self._threads = ThreadPoolExecutor(helpers) if helpers else None

    @property
    def now(self) -> Micros:
        """The simulated time."""
        return int(self.arrays.world[at.NOW])

    @property
    def changeable(self) -> None:
        """None, because the plan cannot change during the run."""

    def router_failure(self, error: Exception) -> None:
        """Return None, because this engine has no router objects that could have raised the error."""

    def run(self, progress: Callable[[Micros], None] | None = None) -> bool:
        """Run to the end; return False if a requested stop ended the run early.

        The engine calls `progress` with the simulated time after each step of the run except the last. Raise
        `CapacityExceeded` if an array that fills during the run is full.
        """
        self._run(progress)
        self._work(self.arrays.world, DRAIN, 0)
        self._hand_over_rows()
        if self._check is not None:
            self._end_check(self._check)
        return self.complete

    def _run(self, progress: Callable[[Micros], None] | None) -> None:
        w = self.arrays.world
        while not self.stop_requested:
            if self._threads is None:
                self._work(w, ADVANCE, self.now + self.step_us)
            else:
                self._advance_together(self._threads, self.now + self.step_us)
            self._free_first_dials()
            self._hand_over_rows()
            self._take_long_latencies(LATENCIES_AT_ONCE // 2)
            match int(w[at.STATUS]):
                case at.FINISHED:
                    self.complete = True
                    return
                case at.OK | at.ROWS_WAIT:
                    pass
                case at.NEEDS_LINKS:
                    self._make_room_for_links()
                case at.NEEDS_COLUMNS:
                    self._add_columns()
                case at.NEEDS_SLOTS:
                    self._grow_slots()
                case limit:
                    raise CapacityExceeded(f"the array engine has no room for {at.LIMIT_WORDS[limit]}")
            if progress is not None:
                progress(self.now)

    def _advance_together(self, helpers: ThreadPoolExecutor, until: Micros) -> None:
        """Do the task ADVANCE with several threads. They share the nodes in each part of a bucket with many
        events."""
        w = self.arrays.world
        others = range(1, int(w[at.THREADS]))
        while w[at.NOW] < until:
            if not self._work(w, BEGIN, 0):
                return
            if w[at.PART_EVENTS] > _WORTH_SHARING:
                shares = [helpers.submit(self._work, w, SHARE, thread) for thread in others]
                self._work(w, SHARE, 0)
                for share in shares:
                    share.result()
            elif w[at.PART_EVENTS]:
                for thread in (0, *others):
                    self._work(w, SHARE, thread)
            if not self._work(w, FINISH, 0):
                return

    def _free_first_dials(self) -> None:
        """Free the arrays of the first dials once all of them have arrived. These arrays are nearly as large as the
        arrays of neighbours."""
        w = self.arrays.world
        if w[at.BUCKET] > w[at.DIALS_UP_TO] and not w[at.NETWORK_STARTS] and len(self.arrays["dial_starts"]) > 1:
            for name in ("dial_targets", "dial_starts", "dial_buckets"):
                self.arrays[name] = np.zeros(1, self.arrays[name].dtype)

    def _hand_over_rows(self) -> None:
        counts = self.arrays["counts"]
        for thread in range(len(counts)):
            count = int(counts[thread, record.ROWS])
            if count:
                rows = self.arrays["rows"][thread, :count]
                if self._check is not None:
                    rows = self._check.take(rows)
                if self._take_rows is not None:
                    self._take_rows(rows)
                counts[thread, record.ROWS] = 0

    def _add_columns(self) -> None:
        """Double the number of columns, and move all data about a message from its old column to its new column."""
        w = self.arrays.world
        known = np.arange(int(w[at.FIRST_MESSAGE]), int(w[at.NEWEST]))
        columns = int(w[at.COLUMNS])
        serials = ("seen_serials", "cache_serials", "record_serials")
        for name in ("cells", "first_us", *serials, "records", "senders", "unwanted", "kept32", "kept64", "group_of"):
            before = self.arrays[name]
            if before.shape[1] == columns:
                after = zeros((len(before), 2 * columns, *before.shape[2:]), before.dtype)
                after[:, known % (2 * columns)] = before[:, known % columns]
                self.arrays[name] = after
        for name in ("seen", "cached"):
            self.arrays[name] = _with_columns_doubled(self.arrays[name], columns, known)
        self.arrays.make("revived", 2 * columns, value=1)
        w[at.COLUMNS] = 2 * columns

    def _make_room_for_links(self) -> None:
        """Free the links that are no longer used. If that frees at most a quarter of all links, or if fewer than
        LINKS_WANTED links are unused then, enlarge the arrays of links."""
        w = self.arrays.world
        self._work(w, COLLECT, 0)
        spare = w[at.LINKS_SPARE]
        if 4 * spare > w[at.LINKS] and w[at.LINKS_USED] + w[at.LINKS_WANTED] <= w[at.LINKS] + spare:
            return
        w[at.LINKS] = 2 * w[at.LINKS] + 2 * w[at.REDIAL] * (w[at.NODES] if w[at.NODES] < 100_000 else 1000)
        for name in ("links32", "links64", "link_marks"):
            self._enlarge(name, int(w[at.LINKS]))

    def _grow_slots(self) -> None:
        w = self.arrays.world
        if w[at.MOST_SLOTS] > w[at.WIDEN_FROM]:
            before = self.arrays["senders"]
            self.arrays.make("senders", *before.shape[:2], 2 * before.shape[2])
            self.arrays["senders"][:, :, : before.shape[2]] = before
            w[at.WIDEN_FROM] += 64 * before.shape[2]
            return
        w[at.SLOTS] = 4 * w[at.SLOTS] + 64 * w[at.NODES]
        for scalar, names in at.SLOT_ARRAYS.items():
            for name in names if w[scalar] else ():
                self._enlarge(name, int(w[at.SLOTS]))

    def _enlarge(self, name: str, room: int) -> None:
        before = self.arrays[name]
        after = zeros((room, *before.shape[1:]), before.dtype)
        after[: len(before)] = before
        self.arrays[name] = after

    def _begin_check(self) -> None:
        """Create the arrays for a check of all nodes (`rules/checks.py`)."""
        threads = int(self.arrays.world[at.THREADS])
        self.arrays.make("tallies", threads)
        self.arrays.make("findings", threads, MAX_REPORTED)
        self.arrays.make("known_topics apart", *self.arrays["flags"].shape)

    def _end_check(self, check: RunCheck) -> None:
        """Check sent parts and mesh links at the end of the run, and report the earliest findings of the whole run to
        `check`."""
        w = self.arrays.world
        self.arrays.make("slot_marks", int(w[at.SLOTS_USED]) + 1)
        self._work(w, CHECK, 0)
        counts = self.arrays["tallies"][:, record.FOUND].tolist()
        findings = [
            line
            for found, count in zip(self.arrays["findings"].tolist(), counts, strict=True)
            for line in found[:count]
        ]
        findings.sort(key=lambda line: (line[0] < 0, *line))
        check.found(sum(counts), findings[:MAX_REPORTED])

    # Results.

    @property
    def delivered(self) -> int:
        """The number of deliveries so far."""
        return self.count(record.DELIVERIES)

    def figures(self) -> Figures:
        """Return the figures of the run so far."""
        self._work(self.arrays.world, CLOSE, 0)
        sent = self.arrays["counts"][:, record.SENT : record.SENT + len(PartKind)].sum(axis=0)
        return Figures(
            publishes=self.count(record.PUBLISHES),
            delivered=self.delivered,
            duplicates=self.count(record.DUPLICATES),
            refused=int(np.count_nonzero(self.arrays["verdicts"][:, at.REFUSED])),
            events=self.count(record.EVENTS),
            sent=sent.tolist(),
            latencies=self._latencies(),
            hops_sum=self.count(record.AWAY_HOPS),
            hops_max=int(self.arrays["counts"][:, record.MOST_HOPS].max()),
            bytes_sum=int(self.arrays["bytes_out"].sum()),
            bytes_max=int(self.arrays["bytes_out"].max()),
            eligible=self.count(record.ELIGIBLE) + self._accepted(slice(at.DUE_OF, at.REACHED_OF)),
            reached=self.count(record.REACHED) + self._accepted(slice(at.REACHED_OF, None)),
            trace_hash=self.trace_hash,
        )

    def _accepted(self, fields: slice) -> int:
        """Return the sum of some columns of `verdicts` over all messages that no node refused."""
        verdicts = self.arrays["verdicts"]
        return int(verdicts[verdicts[:, at.REFUSED] == 0, fields].sum())

    def _latencies(self) -> Latencies:
        self._take_long_latencies(0)
        within = self.arrays["latency_counts"].sum(axis=0)
        known = np.flatnonzero(within)
        longer = np.array(sorted(self._longer.items()), dtype=np.int64).reshape(-1, 2)
        return Latencies(np.concatenate([known, longer[:, 0]]), np.concatenate([within[known], longer[:, 1]]))

    def _take_long_latencies(self, least: int) -> None:
        """If a thread has more than `least` entries in `long_latencies`, move all of them to `_longer`."""
        waiting = self.arrays["counts"][:, record.LONG]
        if waiting.max() > least:
            arrived = [self.arrays["long_latencies"][thread, :count] for thread, count in enumerate(waiting.tolist())]
            values, counts = np.unique(np.concatenate(arrived), return_counts=True)
            self._longer.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
            waiting[:] = 0

    @property
    def trace_hash(self) -> str:
        """The hash of all trace rows so far."""
        sums = self.arrays["sums"].astype(object).sum(axis=0)
        upper, low, high = int(sums[record.UPPER]), int(sums[record.LOWER_LOW]), int(sums[record.LOWER_HIGH])
        return f"{((upper << 64) + (high << 32) + low) % (1 << 128):032x}"

    def count(self, counter: int) -> int:
        return int(self.arrays["counts"][:, counter].sum())


def _with_columns_doubled(before: NDArray[np.uint64], columns: int, known: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return a copy of `seen` or `cached` with twice as many columns. `before` is the array and `columns` the number
    of its columns; `known` are the messages whose bits are copied to their new columns."""
    old = np.unpackbits(before.view(np.uint8), bitorder="little").reshape(-1, columns)
    new = np.zeros((len(old), 2 * columns), np.uint8)
    new[:, known % (2 * columns)] = old[:, known % columns]
    after = zeros((2 * len(before),), np.uint64)
    after[...] = np.packbits(new, bitorder="little").view(np.uint64)
    return after


def _smallest_entry(arrays: Arrays) -> Callable[..., bool]:
    """Return the entry that is compiled with the fewest kernels, among the entries that support all features of the
    run."""
    uses_11 = arrays.world[[*at.WITHOUT_11]].any() or (
        arrays.world[at.HAS_DIALS] and not arrays.world[at.HAS_OVERLAY]
    )
    if arrays.world[at.WITNESSES]:
        return work_checked if uses_11 or arrays.world[at.HAS_EPISUB] else work_10_checked
    if uses_11:
        if arrays.world[at.HAS_FEATURES]:
            return work if arrays.world[at.HAS_EPISUB] else work_of_features
        return work_of_mixes if arrays.world[at.HAS_EPISUB] else work_11
    if arrays.world[at.HAS_EPISUB]:
        return work_of_overlays if arrays.world[at.HAS_OVERLAY] else work_of_trees
    return work_10 if arrays.world[[*at.WITHOUT_LINKS]].any() else work_of_slots
