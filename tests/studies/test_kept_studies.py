"""Studies in a kept session: the same runs, one after the other and beside each other, killed and stopped."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from commands import Process, started
from kept import Kept
from kills import JVM, LOOK_AGAIN_S, ends_within, find, gone
from small_study import assert_equal_tables, assert_tables_of_runs_made_here, write_study

from hearsay.studies.needs import MOST_SHARED_S, needs_of
from hearsay.studies.study_file import load_study

GOSSIPSUB = '[router]\nkind = "gossipsub"\n'
FROM_OUTSIDE = '[router]\nkind = "router_of_mine:KIND"\n'
ONE_OF_MANY = '[router]\nkind = "gossipsub"\n[[population]]\nrouter.kind = "router_of_mine:KIND"\n'
PYTHON = """
import hearsay
swept = hearsay.sweep({study!r}, out={out!r})
again = hearsay.sweep({study!r}, out={out!r} + "-again")
print(swept.made, again.made, swept.failures)
"""
LONG = """
seeds = {seeds}
[base]
preset = "r1"
network.nodes = 80
workload.messages = 12
workload.interval_s = 0.2
"""
WHAT_RUNS = """
from hearsay.pipeline.spark.borrowed import borrowed_session
from hearsay.pipeline.spark.kept_session import borrow
lent = borrow(print)
with borrowed_session(lent) as session:
    print(len(session.sparkContext.statusTracker().getActiveJobsIds()))
"""


@pytest.fixture
def study(tmp_path):
    return load_study(write_study(tmp_path))


def may_share(study, tmp_path: Path, scenario: str = GOSSIPSUB, seconds: float = 1.0) -> bool:
    return needs_of(study, [GOSSIPSUB, scenario], seconds, tmp_path).may_share


def test_short_runs_of_our_own_routers_may_share_a_session(study, tmp_path):
    assert may_share(study, tmp_path, seconds=MOST_SHARED_S)
    assert not may_share(study, tmp_path, seconds=MOST_SHARED_S + 1)


def test_what_would_stay_in_a_session_or_fill_it_is_not_for_one_that_others_use(study, tmp_path):
    assert not may_share(study, tmp_path, FROM_OUTSIDE)
    assert not may_share(study, tmp_path, ONE_OF_MANY)
    assert not may_share(replace(study, traces=True), tmp_path)
    assert not may_share(replace(study, cores_per_task=2), tmp_path)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    kept = Kept(tmp_path_factory.mktemp("kept"))
    pid = kept.keep()
    yield kept
    kept.run("spark", "stop")
    gone(pid)


@pytest.mark.thorough
def test_a_sweep_and_calls_from_python_take_it_and_come_to_the_same(kept, tmp_path):
    path = write_study(tmp_path)
    before = kept.status()["served"]
    done = kept.run("sweep", path, "--out", tmp_path / "swept")
    assert done.returncode == 0, done.stderr
    assert "starting Spark" not in done.stderr
    assert_tables_of_runs_made_here(tmp_path / "swept", path)
    assert kept.said_by(PYTHON.format(study=str(path), out=str(tmp_path / "called"))) == ["12 12 {}"]
    assert_equal_tables(tmp_path / "called-again", tmp_path / "swept")
    assert kept.status()["served"] == before + 3


def sweep(kept: Kept, path: Path, out: Path) -> Process:
    return started(
        "sweep", path, "--out", out, env=kept.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, afresh=True
    )  # fmt: skip


def wait_for(process: Process, out: Path, results: int = 1) -> None:
    """Until so many packs are kept, and others are being made."""
    while len(list(out.glob("results/*.parquet"))) < results:
        assert not ends_within(process.pid, LOOK_AGAIN_S)


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_one_that_is_stopped_leaves_the_session_to_others(kept, tmp_path, number):
    path, other = write_study(tmp_path, LONG.format(seeds=30), "long"), write_study(tmp_path)
    stopped, beside = sweep(kept, path, tmp_path / "long"), sweep(kept, other, tmp_path / "other")
    wait_for(stopped, tmp_path / "long")
    stopped.send_signal(number)
    _, told = stopped.communicate(timeout=300)
    assert stopped.wait() == (130 if number == signal.SIGINT else -number), told
    _, told = beside.communicate(timeout=300)
    assert beside.wait() == 0, told
    assert_tables_of_runs_made_here(tmp_path / "other", other)
    while kept.status()["now"]:
        ends_within(stopped.pid, LOOK_AGAIN_S)
    while kept.said_by(WHAT_RUNS) != ["0"]:
        ends_within(stopped.pid, LOOK_AGAIN_S)
    going_on = sweep(kept, path, tmp_path / "long")
    _, told = going_on.communicate(timeout=300)
    assert going_on.wait() == 0, told
    assert_tables_of_runs_made_here(tmp_path / "long", path)


@pytest.mark.thorough
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_when_it_vanishes_the_runs_that_are_missing_are_made_in_one_of_the_commands_own(tmp_path, end):
    (tmp_path / "kept").mkdir()
    kept = Kept(tmp_path / "kept")
    kept.environment["TMPDIR"] = str(tmp_path)
    path, out = write_study(tmp_path, LONG.format(seeds=30), "long"), tmp_path / "out"
    keeper = kept.keep()
    jvm = find(keeper, JVM)
    assert jvm is not None
    command = sweep(kept, path, out)
    wait_for(command, out)
    command.send_signal(signal.SIGSTOP)  # or it might have all its runs before the session has ended
    if end == "stop":
        assert kept.run("spark", "stop").returncode == 0
    else:
        assert list(tmp_path.glob("hearsay-spark-*"))
        os.kill(keeper, signal.SIGKILL)
        gone(jvm)
    gone(keeper)
    command.send_signal(signal.SIGCONT)
    _, told = command.communicate(timeout=300)
    assert command.wait() == 0, told
    assert "sweep: the kept Spark session has vanished; what is left is made in one of this command's own\n" in told
    assert_tables_of_runs_made_here(out, path)
    assert list(tmp_path.glob("hearsay-spark-*")) == []
