"""Small scenarios of every kind, and functions that make run folders from them."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest
from _pytest.mark.structures import ParameterSet

from hearsay.pipeline.analyze import analyze
from hearsay.pipeline.output.folders import Folder
from hearsay.pipeline.run_facts import load_runs
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.sim.simulate import Simulation
from hearsay.trace.folder.run_folder import RunFolder
from hearsay.trace.folder.writer import TraceWriter
from hearsay.trace.reader import read_rows

SMALL = [("network.nodes", "60"), ("workload.messages", "12"), ("workload.interval_s", "0.5")]
RUNS = {
    name: (run["preset"], run["router"], [*SMALL, *run.get("set", {}).items()])
    for name, run in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")).items()
}


GO_DATA = Path(__file__).parents[1] / "ingest" / "data"
GO_TRACES = ("go-0.15", "go-0.16")
"""Traces recorded from go-libp2p-pubsub, of ten hosts each."""
NAMES = (*RUNS, "spanning")
"""The run `spanning` has the rows of `churning` in many small files."""
CHOSEN = ("churning", "episub")
"""The runs that `make test` analyses. They have churn, crashes, a mesh and trees."""


def runs_named(*names: str) -> list[ParameterSet]:
    """Return parameters of tests, one for each run; runs that are not in `CHOSEN` are marked as thorough."""
    return [pytest.param(name, marks=() if name in CHOSEN else pytest.mark.thorough) for name in names]


def simulate_into(path: Path, preset: str, router: str, overrides: list[tuple[str, str]]) -> Path:
    state = [("trace.state_interval_s", "3")]
    scenario = load_scenario(None, preset, [*overrides, *state], router=router)
    assert Simulation(scenario, folder=RunFolder.create(path)).run().summary.complete
    return path


def rewrite(source: Path, target: Path) -> Path:
    """Copy a run with its trace in many small files, so that messages span several files."""
    folder = RunFolder.create(target)
    for name in ("scenario.toml", "summary.json"):
        folder.write_text_atomic(name, (source / name).read_text(encoding="utf-8"))
    for dictionary in (source / "dictionary").iterdir():
        (target / "dictionary").mkdir(exist_ok=True)
        (target / "dictionary" / dictionary.name).write_bytes(dictionary.read_bytes())
    rows = read_rows(source)
    with TraceWriter(target, row_group_rows=100, target_file_bytes=10_000) as writer:
        writer.add(rows[np.random.default_rng(1).permutation(len(rows))])
        written = writer.close()
    assert len(written.spanning_messages) > 3
    folder.write_manifest(written, seed=1, complete=True)
    return target


def analyse_runs(spark, folders: dict[str, Path]) -> dict[str, Path]:
    """Analyse runs, with the tables in their own folders; return the folders."""
    runs = load_runs(list(folders.values()))
    analyze(spark, runs, {run.name: Folder(run.path) for run in runs}, lambda _: None)
    return folders
