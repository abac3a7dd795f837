"""Tuning on a standalone cluster and over Spark Connect, continued after a kill: the files equal those of tuning in
processes of this machine.

The router is a module next to the tune file. The command sends it to the tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from known_best import HEAVIEST, RANGE, command, kill_after_first_results, output_files, tune, write_problem
from standalone import free_port
from tasks_python import write_task_python

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
def local_files(problem) -> dict[str, bytes]:
    tune(problem, problem.with_name("local"))
    return output_files(problem.with_name("local"))


def test_standalone_cluster(master_of_two, problem, local_files, tmp_path):
    """The tasks' Python has pyspark and pyarrow. The command sends it the package hearsay."""
    out = tmp_path / "out"
    python = str(write_task_python(tmp_path))
    tune_with_a_kill(problem, out, "--master", master_of_two, PYSPARK_PYTHON=python)
    assert output_files(out) == local_files


def test_spark_connect(connect, problem, local_files, tmp_path):
    out = tmp_path / "out"
    tune_with_a_kill(problem, out, "--remote", connect)
    assert output_files(out) == local_files


def test_an_unreachable_cluster_is_reported_in_one_line(problem, tmp_path):
    done = command(problem, tmp_path / "out", "--master", f"spark://127.0.0.1:{free_port()}")
    assert done.returncode == 1
    assert "no session at spark://" in done.stderr
    assert "0 runs are kept in" in done.stderr
    assert "Traceback" not in done.stderr


def tune_with_a_kill(path: Path, out: Path, *where: str, **variables: str) -> None:
    kill_after_first_results(path, out, *where, **variables)
    kept = len(list((out / "results").glob("*.parquet")))
    assert kept > 0
    assert not (out / "answer").exists()
    done = command(path, out, *where, **variables)
    assert done.returncode == 0, done.stderr
    assert f"best: router.x {HEAVIEST}, router.y 3: " in done.stdout
