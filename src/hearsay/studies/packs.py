"""Packs of runs: one task executes the runs of a pack in turn. A run has a point and a seed; its result is a row."""

from __future__ import annotations

import json
import os
import resource
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time, time
from typing import Any, Protocol, TypeAlias

from hearsay.metrics import shown_in
from hearsay.sim.reference import action_handler
from hearsay.sim.reference.action_handler import RouterFailed
from hearsay.sim.results.summary import Summary
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.scenario_error import ScenarioError
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.sim.simulate import run_on_fitting_engine

Value: TypeAlias = float | int | str | bool | None

FIGURES = shown_in("study")
BY_NAME = {metric.name: metric for metric in FIGURES}
COSTS = shown_in("cost")
"""Metrics that depend on the machine. They are neither compared nor bounded by budgets."""
COMPARED = tuple(metric.name for metric in shown_in("compared"))
"""Metrics of a comparison. Each additional one raises the smallest detectable difference."""

_NO_CONTROL = ("publish", "subscribe", "unsubscribe", "connect")


def headline(summary: Summary) -> dict[str, Value]:
    """Return the metrics of a run by name; None where there was nothing to count."""
    control = sum(count for kind, count in summary.sent.items() if kind not in _NO_CONTROL)
    copies = summary.deliver + summary.duplicates
    return {
        "delivery_ratio": summary.delivery_ratio,
        **{f"latency_{name}_ms": value for name, value in summary.latency_ms.items()},
        "hops_mean": None if summary.hops["mean"] is None else float(summary.hops["mean"]),
        "hops_max": summary.hops["max"],
        "copies_per_delivery": copies / summary.deliver if summary.deliver else None,
        "control_per_delivery": control / summary.deliver if summary.deliver else None,
        "bytes_per_node": summary.bytes_out["mean"],
        "uplink_share": summary.uplink_share["mean"],
        "messages": summary.messages,
        "publish": summary.publish,
        "deliver": summary.deliver,
        "duplicates": summary.duplicates,
        "sent": sum(summary.sent.values()),
        "simulated_seconds": summary.simulated_seconds,
    }


Row: TypeAlias = dict[str, Any]
"""A run as a row of `tables.RESULTS`."""

_LONGEST_ERROR = 300
_STATUS, _RESET_PEAK = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass(frozen=True, slots=True)
class Task:
    """Input of a run, independent of the machine that planned it."""

    run: str
    point: str
    seed: int
    scenario: str
    files: tuple[tuple[str, str], ...]
    engine: str
    trace: bool
    threads: int = 1


def perform(task: Task, traces: Path | None = None) -> Row:
    """Execute a run and return its row, which has the error if it fails. With `traces`, write the run folder there,
    named after the run.
    """
    started, clock, cpu = time(), perf_counter(), process_time()
    _forget_peak()
    row: Row = {"run": task.run, "point": task.point, "seed": task.seed, "error": None}
    try:
        with TemporaryDirectory(prefix="hearsay-run-") as folder:
            scenario = _scenario(Path(folder), task)
            out = None if traces is None else traces / task.run
            summary = run_on_fitting_engine(scenario, task.engine, out=out, threads=task.threads).summary
        row |= headline(summary)
        row["trace_hash"] = summary.trace_hash
        row["sent_by_kind"] = [{"kind": kind, "parts": count} for kind, count in sorted(summary.sent.items())]
        row["latencies"] = [{"up_to_ms": edge, "deliveries": count} for edge, count in summary.histogram]
        row |= {"engine": summary.engine, "events": summary.events}
    except Exception as error:
        row["error"] = describe_error(error)
    row["wall_s"], row["cpu_s"] = perf_counter() - clock, process_time() - cpu
    row |= {"started": started, "peak_bytes": _peak_bytes(), "host": socket.gethostname(), "pid": os.getpid()}
    return row


def failed(task: Task, error: str) -> Row:
    """Return the row of a run whose process died."""
    return {"run": task.run, "point": task.point, "seed": task.seed, "error": error[:_LONGEST_ERROR]}


def describe_error(error: BaseException) -> str:
    """Return an error in one line."""
    if isinstance(error, ScenarioError):
        return "; ".join(error.problems)[:_LONGEST_ERROR]
    if isinstance(error, MemoryError):
        return "out of memory"
    return (str(error) if isinstance(error, RouterFailed) else action_handler.describe_error(error))[:_LONGEST_ERROR]


def files_of(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield all files below a folder, with their relative paths."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield str(path.relative_to(folder)), path


def _scenario(folder: Path, task: Task) -> Scenario:
    # A scenario with files is loaded in `folder`, which exists until the run ends: the run may read them.
    scenario = _load(folder, task) if task.files else _parsed(task.scenario)
    return scenario.model_copy(update={"seed": task.seed})


@lru_cache(maxsize=8)
def _parsed(text: str) -> Scenario:
    """Return the scenario of a point. It is kept for the next run, which mostly has the same point."""
    with TemporaryDirectory(prefix="hearsay-run-") as folder:
        file = Path(folder) / "scenario.toml"
        file.write_text(text, encoding="utf-8")
        return load_scenario(file)


def _load(folder: Path, task: Task) -> Scenario:
    for name, content in task.files:
        (folder / name).write_text(content, encoding="utf-8")
    file = folder / "scenario.toml"
    file.write_text(task.scenario, encoding="utf-8")
    return load_scenario(file)


def _forget_peak() -> None:
    """Reset the peak of memory before a run, if the kernel allows it: a process makes many runs."""
    with suppress(OSError):
        _RESET_PEAK.write_text("5")


def _peak_bytes() -> int:
    with suppress(OSError):
        for line in _STATUS.read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


_CHUNK = 4 << 20


@dataclass(frozen=True, slots=True)
class Made:
    """A result: the row of a run (`file` is None), or a piece of a file of its trace."""

    run: str
    file: str | None
    place: int
    """Offset of the piece in the file."""
    data: bytes

    @property
    def row(self) -> Row:
        return json.loads(self.data)


class PackMaker(Protocol):
    """An object that executes packs of runs, `slots` at a time. Several threads call it."""

    @property
    def slots(self) -> int:
        """Return the number of packs that are executed at a time."""
        ...

    def run(self, pack: Sequence[Task]) -> Iterator[Made]:
        """Execute the runs of a pack and yield their results. Block until a slot is free and the runs have finished;
        raise an exception if the pack cannot be executed.
        """
        ...

    def alive(self) -> bool:
        """Return True if other packs can be executed after a failure."""
        ...

    def cancel(self) -> None:
        """Stop all running packs."""
        ...


def make_pack(tasks: Sequence[Task]) -> Iterator[Made]:
    """Execute the runs of a pack. Yield for each run the files of its trace, if requested, and then its row."""
    for task in tasks:
        with TemporaryDirectory(prefix="hearsay-traces-") as folder:
            row = perform(task, Path(folder) if task.trace else None)
            if row["error"] is None:
                for name, path in files_of(Path(folder) / task.run):
                    yield from _pieces(task.run, name, path)
        yield Made(task.run, None, 0, json.dumps(row).encode())


def _pieces(run: str, name: str, path: Path) -> Iterator[Made]:
    with path.open("rb") as file:
        place = 0
        while data := file.read(_CHUNK):
            yield Made(run, name, place, data)
            place += len(data)
