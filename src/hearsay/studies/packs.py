"""The execution of runs in packs. A run is a simulation of a point of a study with one seed; its result is a row. A
pack is a list of runs that one process or one task of Spark executes one after the other.
"""

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
from typing import Any, TypeAlias

from hearsay.metrics import shown_in
from hearsay.sim.reference import action_handler
from hearsay.sim.reference.action_handler import RouterFailed
from hearsay.sim.scenario.reading import ScenarioError
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.sim.simulate import run_on_fitting_engine
from hearsay.sim.summary import Summary

Value: TypeAlias = float | int | str | bool | None

FIGURES = shown_in("study")
"""The metrics of the tables of a study."""
BY_NAME = {metric.name: metric for metric in FIGURES}
COSTS = shown_in("cost")
"""Metrics of the machine that executes a run, such as the time. No comparison and no budget uses them."""
COMPARED = tuple(metric.name for metric in shown_in("compared"))
"""Names of the metrics of a comparison. Each additional metric raises the smallest detectable difference."""

_NO_CONTROL = ("publish", "subscribe", "unsubscribe", "connect")


def metrics_of(summary: Summary) -> dict[str, Value]:
    """Return the metrics of a run by name. A metric is None if it is undefined, such as a latency without
    deliveries.
    """
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
"""Values by column. The row of a run has columns of `results.RESULTS`."""

_LONGEST_ERROR = 300
_STATUS, _RESET_PEAK = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass(frozen=True, slots=True)
class Task:
    """The input of a run. It contains all files of the scenario, so that any machine can execute the run."""

    run: str
    point: str
    seed: int
    scenario: str
    files: tuple[tuple[str, str], ...]
    engine: str
    trace: bool
    threads: int = 1


def perform(task: Task, traces: Path | None = None) -> Row:
    """Execute a run and return its row. If the run fails, the row has the text of the error. With `traces`, write the
    run folder to a folder in `traces` with the name of the run.
    """
    started, clock, cpu = time(), perf_counter(), process_time()
    _forget_peak()
    row: Row = {"run": task.run, "point": task.point, "seed": task.seed, "error": None}
    try:
        with TemporaryDirectory(prefix="hearsay-run-") as folder:
            scenario = _scenario(Path(folder), task)
            out = None if traces is None else traces / task.run
            summary = run_on_fitting_engine(scenario, task.engine, out=out, threads=task.threads).summary
        row |= metrics_of(summary)
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
    """Return the row of a run that could not be executed, for instance because its process died."""
    return {"run": task.run, "point": task.point, "seed": task.seed, "error": error[:_LONGEST_ERROR]}


def describe_error(error: BaseException) -> str:
    """Return the text of an error on one line, shortened to `_LONGEST_ERROR` characters."""
    if isinstance(error, ScenarioError):
        return "; ".join(error.problems)[:_LONGEST_ERROR]
    if isinstance(error, MemoryError):
        return "out of memory"
    return (str(error) if isinstance(error, RouterFailed) else action_handler.describe_error(error))[:_LONGEST_ERROR]


def files_of(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield for each file below a folder its path relative to the folder, and its whole path, in sorted order."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield str(path.relative_to(folder)), path


def _scenario(folder: Path, task: Task) -> Scenario:
    # A scenario with files is loaded in `folder`, which exists until the run ends: the run may read them.
    scenario = _load(folder, task.scenario, task.files) if task.files else _parsed(task.scenario)
    return scenario.model_copy(update={"seed": task.seed})


@lru_cache(maxsize=8)
def _parsed(text: str) -> Scenario:
    """Return the scenario in this text. The results are cached, since the next run often has the same scenario."""
    with TemporaryDirectory(prefix="hearsay-run-") as folder:
        return _load(Path(folder), text)


def _load(folder: Path, text: str, files: Sequence[tuple[str, str]] = ()) -> Scenario:
    for name, content in (*files, ("scenario.toml", text)):
        (folder / name).write_text(content, encoding="utf-8")
    return load_scenario(folder / "scenario.toml")


def _forget_peak() -> None:
    """Reset the kernel's record of this process's peak memory, if allowed, because a process executes many runs."""
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
    """A part of the result of a run: its row as JSON (`file` is None), or a piece of a file of its run folder."""

    run: str
    file: str | None
    """Path of the file relative to the run folder."""
    place: int
    """Offset of the piece in the file."""
    data: bytes

    @property
    def row(self) -> Row:
        return json.loads(self.data)


def make_pack(tasks: Sequence[Task]) -> Iterator[Made]:
    """Execute the runs of a pack. Yield for each run the pieces of its run folder, if the task requests a trace and
    the run succeeds, and then its row.
    """
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
