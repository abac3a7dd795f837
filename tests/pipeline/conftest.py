"""Runs that are analysed once for all tests of a worker."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import hearsay
from kills import environment
from simulated_runs import CHOSEN, GO_DATA, GO_TRACES, NAMES, RUNS, analyse_runs, rewrite, simulate_into

from hearsay.ingest.import_traces import import_traces
from hearsay.pipeline.run_facts import load_runs
from hearsay.trace.folder.run_folder import RunFolder


@pytest.fixture(scope="session")
def analysed(request, tmp_path_factory) -> dict[str, Path]:
    """Return analysed runs by name: those of `CHOSEN` or, if a thorough test needs them, runs of every kind."""
    base = tmp_path_factory.mktemp("runs")
    asked = [item for item in request.session.items if "analysed" in item.fixturenames]
    thorough = any(item.get_closest_marker("thorough") for item in asked)
    folders = {name: make_run(base, name) for name in ((*NAMES, *GO_TRACES) if thorough else CHOSEN)}
    done = hearsay("analyze", *folders.values(), new_process=True, env=environment())
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in folders)
    return folders


@pytest.fixture(scope="session")
def two_runs(spark, tmp_path_factory) -> dict[str, Path]:
    """Return two analysed runs, for tests that analyse them again or damage them."""
    base = tmp_path_factory.mktemp("two")
    churning = simulated(base, "churning")
    return analyse_runs(spark, {"topics": simulated(base, "topics"), "spanning": spanning(base, churning)})


@pytest.fixture(scope="session")
def small_run(tmp_path_factory) -> Path:
    """Return a simulated run that is not analysed."""
    return simulated(tmp_path_factory.mktemp("small"), "topics")


@pytest.fixture(scope="session")
def facts(analysed):
    return {run.name: run for run in load_runs(list(analysed.values()))}


def make_run(base: Path, name: str) -> Path:
    if name == "spanning":
        return spanning(base, simulated(base / "in large files", "churning"))
    if name in GO_TRACES:
        import_traces([GO_DATA / f"{name}.pb.gz"], RunFolder.create(base / name))
        return base / name
    return simulated(base, name)


def simulated(base: Path, name: str) -> Path:
    preset, router, overrides = RUNS[name]
    return simulate_into(base / name, preset, router, overrides)


def spanning(base: Path, churning: Path) -> Path:
    return rewrite(churning, base / "spanning")
