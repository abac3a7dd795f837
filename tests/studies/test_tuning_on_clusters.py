"""Tuning on a standalone cluster and over Spark Connect: killed and gone on with, the same as in processes here.

The router is one from outside, which lies next to the file and travels to the tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from known_best import HEAVIEST, RANGE, command, kill_once_something_is_kept, left_by, tuned, write_problem
from standalone import free_port
from tasks_python import python_of_tasks

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def problem(tmp_path_factory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("problem")
    path = write_problem(folder, module="hill_of_clusters")
    few = path.read_text().replace(RANGE, "values = [3, 5, 6, 7]", 1).replace(RANGE, "values = [1, 2, 3]", 1)
    path.write_text(few)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield path


@pytest.fixture(scope="module")
def left_here(problem) -> dict[str, bytes]:
    tuned(problem, problem.with_name("here"))
    return left_by(problem.with_name("here"))


def test_standalone_cluster(master_of_two, problem, left_here, tmp_path):
    """The tasks' Python has the libraries but not this program, which comes with the job."""
    python = python_of_tasks(tmp_path)
    out = tmp_path / "out"
    tune_with_a_kill(problem, out, "--master", master_of_two, PYSPARK_PYTHON=str(python))
    assert left_by(out) == left_here


def test_spark_connect(connect, problem, left_here, tmp_path):
    out = tmp_path / "out"
    tune_with_a_kill(problem, out, "--remote", connect)
    assert left_by(out) == left_here


def test_a_cluster_that_is_not_there_is_one_line(problem, tmp_path):
    done = command(problem, tmp_path / "out", "--master", f"spark://127.0.0.1:{free_port()}")
    assert done.returncode == 1
    assert "no session at spark://" in done.stderr
    assert "0 runs are kept in" in done.stderr
    assert "Traceback" not in done.stderr


def tune_with_a_kill(path: Path, out: Path, *where: str, **variables: str) -> None:
    kill_once_something_is_kept(path, out, *where, **variables)
    kept = len(list((out / "results").glob("*.parquet")))
    assert kept > 0
    assert not (out / "answer").exists()
    done = command(path, out, *where, **variables)
    assert done.returncode == 0, done.stderr
    assert f"best: router.x {HEAVIEST}, router.y 3: " in done.stdout
