"""Equal tables wherever Spark runs: embedded, on a standalone cluster on loopback, and over Spark Connect."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from standalone import free_port
from tasks_python import python_of_tasks

from hearsay.pipeline.output import tables
from hearsay.pipeline.output.stored_tables import read_table

CHOSEN = ("topics", "spanning")


@pytest.mark.thorough
def test_standalone_cluster(two_runs, tmp_path, master_of_two):
    """The tasks' Python has the libraries but not this program, which comes with the analysis."""
    python = str(python_of_tasks(tmp_path))
    assert_equal_tables(two_runs, tmp_path / "tables", "--master", master_of_two, PYSPARK_PYTHON=python)


@pytest.mark.thorough
def test_spark_connect(connect, two_runs, tmp_path):
    assert_equal_tables(two_runs, tmp_path, "--remote", connect)


def test_a_cluster_that_is_not_there_is_one_line(small_run, tmp_path):
    done = run_analyze([small_run], tmp_path, "--remote", f"sc://127.0.0.1:{free_port()}")
    assert done.returncode == 1
    assert "no session at sc://" in done.stderr
    assert "Traceback" not in done.stderr


def run_analyze(runs: list[Path], out: Path, *where: str, **variables: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "hearsay", "analyze", *map(str, runs), "--out", str(out), *where]
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_GATEWAY", "SPARK_"))
    }
    return subprocess.run(command, capture_output=True, text=True, env=environment | variables, timeout=400)


def assert_equal_tables(two_runs: dict[str, Path], out: Path, *where: str, **variables: str) -> None:
    done = run_analyze([two_runs[name] for name in CHOSEN], out, *where, **variables)
    assert done.returncode == 0, done.stderr[-3000:]
    for name in CHOSEN:
        for table in tables.TABLES.values():
            embedded, elsewhere = (read_table(path, table) for path in (two_runs[name], out / name))
            assert sorted_rows(elsewhere) == sorted_rows(embedded), table.name


def sorted_rows(table) -> list[tuple]:
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)
