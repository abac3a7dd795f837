"""Runs that are analysed once in the Spark session of the worker."""

from __future__ import annotations

from pathlib import Path

import pytest
from simulated_runs import GO_DATA, GO_TRACES, RUNS, rewritten, simulate_into

from hearsay.ingest.run.import_traces import import_traces
from hearsay.pipeline.analyze import analyze
from hearsay.pipeline.input.run_facts import load_runs
from hearsay.trace.write.run_folder import RunFolder


@pytest.fixture(scope="session")
def analysed(spark, tmp_path_factory) -> dict[str, Path]:
    """A run of every kind, with metrics."""
    base = tmp_path_factory.mktemp("runs")
    folders = {name: simulated(base, name) for name in RUNS}
    for version in GO_TRACES:
        folders[version] = base / version
        import_traces([GO_DATA / f"{version}.pb.gz"], RunFolder.create(folders[version]))
    folders["spanning"] = spanning(base, folders["churning"])
    return with_metrics(spark, folders)


@pytest.fixture(scope="session")
def two_runs(spark, tmp_path_factory) -> dict[str, Path]:
    """Two of them, for tests that analyse them once more, elsewhere or under attack."""
    base = tmp_path_factory.mktemp("two")
    churning = simulated(base, "churning")
    return with_metrics(spark, {"topics": simulated(base, "topics"), "spanning": spanning(base, churning)})


@pytest.fixture(scope="session")
def small_run(tmp_path_factory) -> Path:
    """One of them, without metrics."""
    return simulated(tmp_path_factory.mktemp("small"), "topics")


@pytest.fixture(scope="session")
def facts(analysed):
    return {run.name: run for run in load_runs(list(analysed.values()))}


def simulated(base: Path, name: str) -> Path:
    preset, router, overrides = RUNS[name]
    return simulate_into(base / name, preset, router, overrides)


def spanning(base: Path, churning: Path) -> Path:
    return rewritten(churning, base / "spanning", max_rows_per_file=300)


def with_metrics(spark, folders: dict[str, Path]) -> dict[str, Path]:
    runs = load_runs(list(folders.values()))
    analyze(spark, runs, {run.name: run.path for run in runs}, lambda _: None)
    return folders
