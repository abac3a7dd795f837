"""Simulated runs of every kind, analysed once in one Spark session."""

from __future__ import annotations

from pathlib import Path

import pytest
from simulated_runs import GO_DATA, GO_TRACES, RUNS, rewritten, simulate_into

from hearsay.ingest.run.import_traces import import_traces
from hearsay.pipeline.analyze import analyze
from hearsay.pipeline.input.run_facts import load_runs
from hearsay.trace.write.run_folder import RunFolder


@pytest.fixture(scope="session")
def run_folders(tmp_path_factory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("runs")
    folders = {}
    for name, (preset, router, overrides) in RUNS.items():
        folders[name] = simulate_into(base / name, preset, router, overrides)
    for version in GO_TRACES:
        folders[version] = base / version
        import_traces([GO_DATA / f"{version}.pb.gz"], RunFolder.create(folders[version]))
    folders["spanning"] = rewritten(folders["churning"], base / "spanning", max_rows_per_file=300)
    return folders


@pytest.fixture(scope="session")
def analysed(spark, run_folders) -> dict[str, Path]:
    """The run folders, with metrics."""
    runs = load_runs(list(run_folders.values()))
    analyze(spark, runs, {run.name: run.path for run in runs}, lambda _: None)
    return run_folders


@pytest.fixture(scope="session")
def facts(run_folders):
    return {run.name: run for run in load_runs(list(run_folders.values()))}
