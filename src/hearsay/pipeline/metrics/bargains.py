"""What peers agreed on and what came of it, and what was refused: over time, from the counts of single parts.

The scan has counted them by second (`kernels.part_counts`); what is left is few lines, which are added up here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hearsay.core.language.actions import Reason, Via
from hearsay.core.language.rpc import PartKind
from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.kernels.partial_sums import Fate, unpacked
from hearsay.pipeline.metrics.churn import stretch_s
from hearsay.pipeline.output.tables import IDONTWANT, PROMISES, REFUSALS, MetricTable
from hearsay.trace.language.schema import wire_name

_NEVER_ARRIVED = (Reason.LOST, Reason.UNREACHABLE)


@dataclass(frozen=True, slots=True)
class PartCount:
    """Parts of one kind that met one fate in a stretch of a run."""

    second: int
    seconds: int
    fate: Fate
    kind: PartKind | None
    via: Via | None
    reason: Reason | None
    rows: int
    count: int
    bytes: int


def counts_of(run: RunFacts, lines: Iterable[Mapping[str, Any]]) -> list[PartCount]:
    """From the scan's lines (k0, k1, k2: second, fate and kind, via and reason; a0, a1, a2: rows, counts, bytes), in
    the order of time."""
    found = [_count_of(run, line) for line in lines]
    return sorted(found, key=lambda one: (one.second, one.fate, one.kind or 0, one.reason or 0))


def refusals(counts: Iterable[PartCount]) -> list[dict[str, Any]]:
    """The table `refusals` of a run."""
    sums: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0, 0, 0])
    for one in counts:
        if one.fate in (Fate.DROPPED, Fate.REFUSED):
            kind, reason = (None if code is None else wire_name(code) for code in (one.kind, one.reason))
            line = sums[one.second, one.seconds, wire_name(one.fate), kind, reason]
            for place, amount in enumerate((one.rows, one.count, one.bytes)):
                line[place] += amount
    lines = [dict(zip(REFUSALS.names[1:], (*key, *amounts), strict=True)) for key, amounts in sums.items()]
    return [{**line, "bytes": None} if line["fate"] == wire_name(Fate.REFUSED) else line for line in lines]


def promises(run: RunFacts, counts: Iterable[PartCount]) -> list[dict[str, Any]]:
    """The table `promises` of a run. Real nodes do not see why a copy came to them."""
    lines = _over_time(PROMISES, ((one, _of_promises(one)) for one in counts))
    return lines if run.simulated else [{**line, "answered": None} for line in lines]


def idontwant(counts: Iterable[PartCount]) -> list[dict[str, Any]]:
    """The table `idontwant` of a run."""
    return _over_time(IDONTWANT, ((one, _of_idontwant(one)) for one in counts))


def _of_promises(one: PartCount) -> dict[str, int]:
    match one:
        case PartCount(fate=Fate.SENT, kind=PartKind.IWANT):
            return {"requests": one.rows, "asked": one.count}
        case PartCount(fate=Fate.ARRIVED, via=Via.IWANT):
            return {"answered": one.rows}
        case PartCount(fate=Fate.DROPPED, via=Via.IWANT) if one.reason in _NEVER_ARRIVED:
            return {"answered": -one.rows}
        case PartCount(fate=Fate.REFUSED, kind=PartKind.IHAVE, reason=Reason.GIVEN_UP):
            return {"broken": one.count}
        case _:
            return {}


def _of_idontwant(one: PartCount) -> dict[str, int]:
    match one:
        case PartCount(fate=Fate.SENT, kind=PartKind.IDONTWANT):
            return {"told": one.count}
        case PartCount(fate=Fate.ARRIVED, kind=PartKind.IDONTWANT):
            return {"arrived": one.count}
        case PartCount(fate=Fate.DROPPED, kind=PartKind.IDONTWANT) if one.reason in _NEVER_ARRIVED:
            return {"arrived": -one.count}
        case PartCount(fate=Fate.REFUSED, kind=PartKind.IDONTWANT):
            return {"refused": one.count}
        case PartCount(fate=Fate.DROPPED, kind=PartKind.PUBLISH, reason=Reason.WITHDRAWN):
            return {"withdrawn": one.rows, "withdrawn_bytes": one.bytes}
        case PartCount(fate=Fate.DROPPED, kind=PartKind.PUBLISH, reason=Reason.UNWANTED):
            return {"withheld": one.rows, "withheld_bytes": one.bytes}
        case _:
            return {}


def _over_time(table: MetricTable, told: Iterable[tuple[PartCount, Mapping[str, int]]]) -> list[dict[str, Any]]:
    """A line for each stretch in which there was something to count."""
    lines: dict[int, dict[str, Any]] = {}
    for one, amounts in told:
        if amounts:
            nothing = {**dict.fromkeys(table.names[1:], 0), "second": one.second, "seconds": one.seconds}
            line = lines.setdefault(one.second, nothing)
            for name, amount in amounts.items():
                line[name] += amount
    return list(lines.values())


def _count_of(run: RunFacts, line: Mapping[str, Any]) -> PartCount:
    seconds = stretch_s(run)
    fate, kind = unpacked(line["k1"])
    via, reason = unpacked(line["k2"])
    return PartCount(
        line["k0"] // seconds * seconds,
        seconds,
        Fate(fate),
        None if kind < 0 else PartKind(kind),
        None if via < 0 else Via(via),
        None if reason < 0 else Reason(reason),
        line["a0"],
        line["a1"],
        line["a2"],
    )
