"""Equal tables, to the last bit, of runs on a standalone cluster, over Spark Connect, and in this process."""

from __future__ import annotations

import subprocess

from small_study import assert_tables_of_local_runs, hearsay, table, write_study
from standalone import free_port
from tasks_python import write_task_python


def test_standalone_cluster(master, tmp_path):
    """The tasks' Python has pyspark and pyarrow. The sweep sends it the package hearsay."""
    python = write_task_python(tmp_path)
    done = subprocess.run([python, "-c", "import hearsay"], capture_output=True, cwd=tmp_path)
    assert b"No module named 'hearsay'" in done.stderr
    assert_equal_sweep(tmp_path, "--master", master, PYSPARK_PYTHON=str(python))


def test_spark_connect(connect, tmp_path):
    assert_equal_sweep(tmp_path, "--remote", connect)


def test_an_unreachable_cluster_is_reported_in_one_line(tmp_path):
    done = hearsay(
        "sweep", write_study(tmp_path), "--out", tmp_path / "out", "--master", f"spark://127.0.0.1:{free_port()}"
    )
    assert done.returncode == 1
    assert "no session at spark://" in done.stderr
    assert "0 of 12 runs are kept" in done.stderr


def assert_equal_sweep(tmp_path, *where: str, **variables: str) -> None:
    study = write_study(tmp_path)
    done = hearsay("sweep", study, "--out", tmp_path / "out", *where, variables=variables)
    assert done.returncode == 0, done.stderr
    assert_tables_of_local_runs(tmp_path / "out", study)
    assert table(tmp_path / "out", "resources").column("engine").null_count == 0
