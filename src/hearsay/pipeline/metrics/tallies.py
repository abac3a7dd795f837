"""What the scan of a run adds up to in few lines: sizes that are told, repeated deliveries, fates of single parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.metrics.bargains import PartCount, counts_of
from hearsay.pipeline.metrics.whole_files import COUNT, REPEATED, SIZES


@dataclass(frozen=True, slots=True)
class Tally:
    """Of one run."""

    sent_sizes: int
    """Parts sent of which the trace tells the bytes."""
    received_sizes: int
    repeated: int | None
    """Deliveries of a message at a node beyond the first; None without a row of messages."""
    counts: tuple[PartCount, ...]


def tallies_by_run(lines: Iterable[Mapping[str, Any]], runs: Sequence[RunFacts]) -> dict[str, Tally]:
    """From the lines of `whole_files.tallies_of`."""
    of_runs: dict[str, list[Mapping[str, Any]]] = {run.name: [] for run in runs}
    for line in lines:
        of_runs[line["run"]].append(line)
    return {run.name: _tally(run, of_runs[run.name]) for run in runs}


def _tally(run: RunFacts, lines: Sequence[Mapping[str, Any]]) -> Tally:
    sizes = [line for line in lines if line["what"] == SIZES]
    repeated = [line["first"] for line in lines if line["what"] == REPEATED]
    return Tally(
        sum(line["first"] or 0 for line in sizes),
        sum(line["second"] or 0 for line in sizes),
        sum(repeated) if repeated else None,
        tuple(counts_of(run, [line for line in lines if line["what"] == COUNT])),
    )
