"""Counts the kinds of rows in the traces of a soak, and moments that are rare.

A moment is a combination of events, such as a crash during a validation. The trace of the reference engine is counted
row by row. Moments that never happened have the count 0, to show what the random scenarios have not tried.
"""

from __future__ import annotations

from collections import Counter

from hearsay.core.language.rpc import PartKind
from hearsay.sim.scenario.scenario import Scenario
from hearsay.trace.language.schema import TraceEvent, TraceRow, wire_name

CRASH_WITH_GRAFT = "a node went down while a GRAFT was on its way to it"
CRASH_IN_VALIDATION = "a node went down while its application validated a message"
PARTITION_IN_VALIDATION = "a partition began while applications validated messages"
LEFT_IN_VALIDATION = "a node left a topic while its application validated a message of it"
GRAFTS_CROSSED = "two GRAFTs crossed on their way"
JOINED_SOON = "a node joined a topic within ten seconds of leaving it"
BACK_BEFORE_OLD_PARTS = "a node came back while parts sent to it before its crash were on their way"
MOMENTS = (
    CRASH_WITH_GRAFT, CRASH_IN_VALIDATION, PARTITION_IN_VALIDATION, LEFT_IN_VALIDATION, GRAFTS_CROSSED, JOINED_SOON,
    BACK_BEFORE_OLD_PARTS,
)  # fmt: skip
SOON_US = 10_000_000


class Sightings:
    """A listener of one run; `seen` has the counts of rows and moments."""

    def __init__(self, scenario: Scenario) -> None:
        self.seen: Counter[str] = Counter(dict.fromkeys(MOMENTS, 0))
        self._validation_us = round(scenario.validation.delay_ms * 1000)
        self._partitions_us = sorted(round(each.at_s * 1_000_000) for each in scenario.faults.partition)
        self._grafts: dict[tuple[int, int], int] = {}
        """Arrival of the last GRAFT, by sender and receiver."""
        self._parts: dict[int, int] = {}
        """Arrival of the last part for a node, by node."""
        self._validations: dict[tuple[int, int], tuple[int, int, int]] = {}
        """First arrival, time of the verdict and topic, by node and message."""
        self._left: dict[tuple[int, int], int] = {}

    def __call__(self, row: TraceRow) -> None:
        reason = "" if row.reason is None else f", {wire_name(row.reason)}"
        kind = "" if row.kind is None else f" {wire_name(row.kind)}"
        self.seen[f"{wire_name(row.event)}{kind}{reason}"] += 1
        while self._partitions_us and self._partitions_us[0] <= row.time_us:
            self._count(PARTITION_IN_VALIDATION, bool(self._in_validation(self._partitions_us.pop(0))))
        match row.event:
            case TraceEvent.SEND_RPC:
                self._sent(row)
            case TraceEvent.NODE_DOWN:
                arriving = [at for (_, to), at in self._grafts.items() if to == row.peer]
                self._count(CRASH_WITH_GRAFT, any(at > row.time_us for at in arriving))
                self._count(
                    CRASH_IN_VALIDATION, any(node == row.peer for node, _ in self._in_validation(row.time_us))
                )
            case TraceEvent.NODE_UP:
                self._count(BACK_BEFORE_OLD_PARTS, self._parts.get(row.peer or 0, 0) > row.time_us)
            case TraceEvent.LEAVE:
                running = self._in_validation(row.time_us)
                self._count(
                    LEFT_IN_VALIDATION,
                    any(key[0] == row.peer and self._validations[key][2] == row.topic for key in running),
                )
                self._left[row.peer or 0, row.topic or 0] = row.time_us
            case TraceEvent.JOIN:
                left_us = self._left.get((row.peer or 0, row.topic or 0))
                self._count(JOINED_SOON, left_us is not None and row.time_us - left_us < SOON_US)
            case _:
                pass

    def _sent(self, row: TraceRow) -> None:
        peer, remote = row.peer or 0, row.remote or 0
        arrives = row.time_us + (row.delay_us or 0)
        self._parts[remote] = max(arrives, self._parts.get(remote, 0))
        if row.kind is PartKind.GRAFT:
            self._count(GRAFTS_CROSSED, self._grafts.get((remote, peer), 0) > row.time_us)
            self._grafts[peer, remote] = arrives
        elif row.kind is PartKind.PUBLISH and self._validation_us:
            key = remote, row.message or 0
            if key not in self._validations or arrives < self._validations[key][0]:
                self._validations[key] = arrives, arrives + self._validation_us, row.topic or 0

    def _in_validation(self, now: int) -> list[tuple[int, int]]:
        """Return node and message of each validation that runs at this time."""
        return [key for key, (arrives, ends, _) in self._validations.items() if arrives <= now < ends]

    def _count(self, moment: str, happened: bool) -> None:
        self.seen[moment] += happened
