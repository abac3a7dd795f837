"""The interface of the array engine: it is built from a plan, runs to the end, and returns figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hearsay.core.language.identifiers import Micros
from hearsay.core.language.rpc import PartKind
from hearsay.core.shell.randomness import Randomness
from hearsay.sim.array.build import build
from hearsay.sim.array.machine.memory import filled, zeros
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
from hearsay.sim.plan.latency import make_latency
from hearsay.sim.plan.plan import Plan
from hearsay.sim.results.summary import Figures, Latencies
from hearsay.trace.language.rows import Rows

_STEPS = 200
MAX_REPORTED = 20
"""The most findings of a check that are reported one by one."""
_WORTH_SHARING = 5_000
"""A part of a bucket with more events than this is shared among threads: starting them takes as long as a few hundred
events."""


class Witness(Protocol):
    """The receiver of the notes and findings of a check, and the nodes whose calls are noted."""

    @property
    def nodes(self) -> Sequence[int]: ...

    def take(self, rows: Rows) -> Rows:
        """Store the rows and notes of the witnesses; return `rows` without the notes."""
        ...

    def found(self, count: int, some: Sequence[Sequence[int]]) -> None:
        """Receive the number of findings in all nodes, and some of the findings.

        A finding is a sequence of time (-1 at the end of the run), kind, node, peer, topic and number.
        """
        ...


class ArrayEngine:
    def __init__(
        self, plan: Plan, take_rows: Callable[[Rows], None] | None, threads: int = 1, witnesses: Witness | None = None
    ) -> None:
        """`take_rows` gets the trace in batches of rows, which are overwritten later; without it only the hash is
        computed.

        `witnesses` gets the rows of its nodes, notes of their calls (`rules/notes.py`), and findings in all nodes. A
        run whose routers choose their neighbours, or with partial messages, uses one thread only.
        """
        randomness = Randomness(plan.scenario.seed)
        self._end_us = plan.end_us
        self.latency = make_latency(plan.scenario.links, plan.scenario.network.nodes, randomness)
        try:
            kept = (
                record.ALL_ROWS
                if take_rows is not None
                else record.ROWS_OF_WITNESSES
                if witnesses
                else record.NO_ROWS
            )
            self.arrays = build(plan, self.latency, randomness, tracing=kept, threads=threads)
        except MemoryError as error:
            raise CapacityExceeded("out of memory: the array engine has no room for its tables") from error
        if witnesses is not None:
            self.arrays["witnesses"] = np.zeros(plan.scenario.network.nodes + 1, np.uint8)
            self.arrays["witnesses"][list(witnesses.nodes)] = record.IS_WITNESS
            self.arrays.world[at.WITNESSES] = 1
            self._begin_check()
        self._work = _smallest_entry(self.arrays)
        self.step_us: Micros = max(1, self._end_us // _STEPS)
        """Simulated microseconds between two calls of `progress`. The caller may change it at any time."""
        self.stop_requested = False
        self.complete = False
        self._take_rows = take_rows
        self._witnesses = witnesses
        self._longer = Latencies(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
        helpers = int(self.arrays.world[at.THREADS]) - 1
        self._threads = ThreadPoolExecutor(helpers) if helpers else None

    @property
    def now(self) -> Micros:
        return int(self.arrays.world[at.NOW])

    @property
    def changeable(self) -> None:
        return None

    def router_failure(self, error: Exception) -> None:
        """Return None: there are no routers whose method could have raised the error."""

    def run(self, progress: Callable[[Micros], None] | None = None) -> bool:
        self._run(progress)
        self._work(self.arrays.world, DRAIN, 0)
        self._hand_over_rows()
        if self._witnesses is not None:
            self._end_check(self._witnesses)
        return self.complete

    def _run(self, progress: Callable[[Micros], None] | None) -> None:
        w = self.arrays.world
        while not self.stop_requested:
            if self._threads is None:
                self._work(w, ADVANCE, self.now + self.step_us)
            else:
                self._advance_together(self._threads, self.now + self.step_us)
            self._let_go_of_dials()
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
        """Do the task ADVANCE, but share the nodes among threads in parts with many events."""
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

    def _let_go_of_dials(self) -> None:
        """Free the arrays of first dials, nearly as large as those of neighbours, once all dials have arrived."""
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
                if self._witnesses is not None:
                    rows = self._witnesses.take(rows)
                if self._take_rows is not None:
                    self._take_rows(rows)
                counts[thread, record.ROWS] = 0

    def _add_columns(self) -> None:
        """Double the number of columns, one for each message; what nodes know of a message moves to its new one."""
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
        self.arrays["revived"] = filled((2 * columns,), np.uint8, 1)
        w[at.COLUMNS] = 2 * columns

    def _make_room_for_links(self) -> None:
        """Free the links that are no longer used; enlarge the arrays of links if these are too few."""
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
            self.arrays["senders"] = zeros((*before.shape[:2], 2 * before.shape[2]), before.dtype)
            self.arrays["senders"][:, :, : before.shape[2]] = before
            w[at.WIDEN_FROM] += 64 * before.shape[2]
            return
        w[at.SLOTS] = 4 * w[at.SLOTS] + 64 * w[at.NODES]
        with_12 = ("idontwants",) if w[at.USES_12] else ()
        with_retained = ("retained",) if w[at.RETAINS] else ()
        with_scores = at.SLOT_SCORES if w[at.HAS_SCORES] else ()
        with_gater = ("gated",) if w[at.HAS_GATER] else ()
        with_episub = ("tree_marks",) if w[at.HAS_EPISUB] else ()
        with_episub += ("slot_times", "detours") if w[at.HAS_OVERLAY] else ()
        with_check = ("known_topics", "apart") if w[at.WITNESSES] else ()
        with_features = ("traits",) if w[at.HAS_FEATURES] else ()
        optional = (*with_features, *with_12, *with_scores, *with_retained, *with_gater, *with_episub, *with_check)
        for name in ("peers", "flags", "links_of", *optional):
            self._enlarge(name, int(w[at.SLOTS]))

    def _enlarge(self, name: str, room: int) -> None:
        before = self.arrays[name]
        after = zeros((room, *before.shape[1:]), before.dtype)
        after[: len(before)] = before
        self.arrays[name] = after

    def _begin_check(self) -> None:
        """Create the arrays of a check of all nodes (`rules/checks.py`)."""
        threads = int(self.arrays.world[at.THREADS])
        self.arrays["tallies"] = zeros((threads, at.TALLIES), np.int64)
        self.arrays["findings"] = zeros((threads, MAX_REPORTED, at.FINDING), np.int64)
        self.arrays["known_topics"] = zeros(self.arrays["flags"].shape, np.uint8)
        self.arrays["apart"] = zeros(self.arrays["flags"].shape, np.int64)

    def _end_check(self, witnesses: Witness) -> None:
        """Check sent parts and mesh links at the end, and report the earliest findings of the whole run."""
        w = self.arrays.world
        self.arrays["slot_marks"] = zeros((int(w[at.SLOTS_USED]) + 1,), np.uint8)
        self._work(w, CHECK, 0)
        counts = self.arrays["tallies"][:, record.FOUND].tolist()
        findings = [
            line
            for found, count in zip(self.arrays["findings"].tolist(), counts, strict=True)
            for line in found[:count]
        ]
        findings.sort(key=lambda line: (line[0] < 0, *line))
        witnesses.found(sum(counts), findings[:MAX_REPORTED])

    # Results.

    @property
    def delivered(self) -> int:
        return self.count(record.DELIVERIES)

    def figures(self) -> Figures:
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
        """Return the sum of some fields of `verdicts` over the messages that no node refused."""
        verdicts = self.arrays["verdicts"]
        return int(verdicts[verdicts[:, at.REFUSED] == 0, fields].sum())

    def _latencies(self) -> Latencies:
        self._take_long_latencies(0)
        within = self.arrays["latency_counts"].sum(axis=0)
        known = np.flatnonzero(within)
        longer = self._longer
        return Latencies(np.concatenate([known, longer.microseconds]), np.concatenate([within[known], longer.counts]))

    def _take_long_latencies(self, least: int) -> None:
        """If a thread has more than `least` entries in `long_latencies`, move all of them to `_longer`."""
        waiting = self.arrays["counts"][:, record.LONG]
        if waiting.max() > least:
            arrived = [self.arrays["long_latencies"][thread, :count] for thread, count in enumerate(waiting.tolist())]
            values, counts = np.unique(np.concatenate(arrived), return_counts=True)
            all_values, places = np.unique(np.concatenate([self._longer.microseconds, values]), return_inverse=True)
            totals = np.zeros(len(all_values), dtype=np.int64)
            np.add.at(totals, places, np.concatenate([self._longer.counts, counts]))
            self._longer = Latencies(all_values, totals)
            waiting[:] = 0

    @property
    def trace_hash(self) -> str:
        sums = self.arrays["sums"].astype(object).sum(axis=0)
        upper, low, high = int(sums[record.UPPER]), int(sums[record.LOWER_LOW]), int(sums[record.LOWER_HIGH])
        return f"{((upper << 64) + (high << 32) + low) % (1 << 128):032x}"

    def count(self, counter: int) -> int:
        return int(self.arrays["counts"][:, counter].sum())


def _with_columns_doubled(before: NDArray[np.uint64], columns: int, known: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return `seen` or `cached` with twice as many columns, and the bits of `known` messages in their new columns."""
    old = np.unpackbits(before.view(np.uint8), bitorder="little").reshape(-1, columns)
    new = np.zeros((len(old), 2 * columns), np.uint8)
    new[:, known % (2 * columns)] = old[:, known % columns]
    after = zeros((2 * len(before),), np.uint64)
    after[...] = np.packbits(new, bitorder="little").view(np.uint64)
    return after


def _smallest_entry(arrays: Arrays) -> Callable[..., bool]:
    """Return the entry for the run that is compiled with the fewest kernels."""
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
