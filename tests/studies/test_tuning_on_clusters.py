"""Tuning on a standalone cluster and over Spark Connect: killed and gone on with, the same as in processes here.

The router is one from outside, which lies beside the file and travels to the tasks.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from kills import LOOK_AGAIN_S, descendants, ends_within, environment, gone
from known_best import HEAVIEST, RANGE, command, left_by, tuned, write_problem
from standalone import free_port

pytestmark = pytest.mark.thorough


@pytest.fixture
def problem(tmp_path, monkeypatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    path = write_problem(tmp_path, module=f"hill_of_{tmp_path.name}")
    few = path.read_text().replace(RANGE, "values = [3, 5, 6, 7]", 1).replace(RANGE, "values = [1, 2, 3]", 1)
    path.write_text(few)
    return path


def test_standalone_cluster(master_of_two, problem):
    """The tasks' Python has the libraries but not this program, which comes with the job."""
    python = problem.with_name("python")
    libraries = Path(pyspark.__file__).parents[1]
    python.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{libraries}" exec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    assert_it_goes_on_after_a_kill(problem, "--master", master_of_two, PYSPARK_PYTHON=str(python))


def test_spark_connect(connect, problem):
    assert_it_goes_on_after_a_kill(problem, "--remote", connect)


def test_a_cluster_that_is_not_there_is_one_line(problem):
    done = command(problem, problem.with_name("out"), "--master", f"spark://127.0.0.1:{free_port()}")
    assert done.returncode == 1
    assert "no session at spark://" in done.stderr
    assert "0 runs are kept in" in done.stderr
    assert "Traceback" not in done.stderr


def assert_it_goes_on_after_a_kill(path: Path, *where: str, **variables: str) -> None:
    out = path.with_name("out")
    kill_once_something_is_kept(path, out, *where, **variables)
    kept = len(list((out / "results").glob("*.parquet")))
    assert kept > 0
    assert not (out / "answer").exists()
    done = command(path, out, *where, **variables)
    assert done.returncode == 0, done.stderr
    assert f"best: router.x {HEAVIEST}, router.y 3: " in done.stdout
    tuned(path, path.with_name("here"))
    assert left_by(out) == left_by(path.with_name("here"))


def kill_once_something_is_kept(path: Path, out: Path, *where: str, **variables: str) -> None:
    words = [sys.executable, "-m", "hearsay", "tune", str(path), "--out", str(out), *where]
    process = subprocess.Popen(
        words, cwd=path.parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment() | variables
    )
    while not list(out.glob("results/*.parquet")):
        assert not ends_within(process.pid, LOOK_AGAIN_S)
    family = descendants(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait(60) == -signal.SIGKILL
    for pid in family:
        gone(pid)
