"""Equal tables wherever Spark runs: embedded, on a standalone cluster on loopback, and over Spark Connect."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from kills import environment
from pyarrow import dataset
from standalone import free_port
from tasks_python import write_task_python

from hearsay.pipeline.output.tables import TABLES, read_table
from hearsay.pipeline.spark.java import java_home
from hearsay.pipeline.spark.session import zip_package
from hearsay.pipeline.spark.settings import spark_home

CHOSEN = ("topics", "spanning")


@pytest.mark.thorough
def test_standalone_cluster(two_runs, tmp_path, master_of_two):
    """The tasks' Python has pyspark and pyarrow. The analysis sends it the package hearsay."""
    python = str(write_task_python(tmp_path))
    assert_equal_tables(two_runs, tmp_path / "tables", "--master", master_of_two, PYSPARK_PYTHON=python)


@pytest.mark.thorough
def test_a_job_of_spark_submit(two_runs, tmp_path, master_of_two):
    """The job is `examples/slow_messages.py`. Its tasks import hearsay from the zip file of `--py-files`."""
    packages = zip_package(tmp_path)
    job = Path(__file__).parents[2] / "examples" / "slow_messages.py"
    where = ("--master", master_of_two, "--py-files", str(packages), "--conf", "spark.ui.enabled=false")
    runs = [str(two_runs[name]) for name in CHOSEN]
    done = subprocess.run(
        [spark_home() / "bin" / "spark-submit", *where, job, *runs, "--over-ms", "80", "--out", tmp_path / "slow"],
        env=os.environ
        | {
            "JAVA_HOME": str(java_home()),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYSPARK_PYTHON": str(write_task_python(tmp_path)),
        },
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found = dataset.dataset(tmp_path / "slow", partitioning="hive").to_table(columns=["run", "message", "p99_us"])
    expected = [
        {name: row[name] for name in ("run", "message", "p99_us")}
        for name in CHOSEN
        for row in read_table(two_runs[name], "messages").to_pylist()
        if row["p99_us"] is not None and row["p99_us"] > 80_000
    ]
    assert expected
    assert sorted(found.to_pylist(), key=str) == sorted(expected, key=str)


@pytest.mark.thorough
def test_spark_connect(connect, two_runs, tmp_path):
    assert_equal_tables(two_runs, tmp_path, "--remote", connect)


def test_an_unreachable_cluster_is_reported_in_one_line(small_run, tmp_path):
    done = run_analyze([small_run], tmp_path, "--remote", f"sc://127.0.0.1:{free_port()}")
    assert done.returncode == 1
    assert "no session at sc://" in done.stderr
    assert "Traceback" not in done.stderr


def run_analyze(runs: list[Path], out: Path, *where: str, **variables: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "hearsay", "analyze", *map(str, runs), "--out", str(out), *where]
    return subprocess.run(command, capture_output=True, text=True, env=environment() | variables, timeout=400)


def assert_equal_tables(two_runs: dict[str, Path], out: Path, *where: str, **variables: str) -> None:
    done = run_analyze([two_runs[name] for name in CHOSEN], out, *where, **variables)
    assert done.returncode == 0, done.stderr[-3000:]
    for name in CHOSEN:
        for table in TABLES:
            embedded, elsewhere = (read_table(path, table) for path in (two_runs[name], out / name))
            assert sorted_rows(elsewhere) == sorted_rows(embedded), table


def sorted_rows(table) -> list[tuple]:
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)
