"""Equal tables wherever Spark runs: embedded, on a standalone cluster on loopback, and over Spark Connect."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from standalone import Cluster, free_port

from hearsay.pipeline import tables
from hearsay.pipeline.table_store import read_table

pytestmark = pytest.mark.xdist_group("spark")

CHOSEN = ("topics", "spanning")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    started = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="module")
def master(cluster) -> str:
    """A standalone master with two workers of one core each."""
    url = cluster.start_master()
    for number in (1, 2):
        cluster.start_worker(f"worker{number}", url)
    return url


@pytest.fixture(scope="module")
def connect(cluster) -> str:
    port = free_port()
    output = cluster.start(
        "connect", "org.apache.spark.deploy.SparkSubmit", "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", "local[2]",
        "--conf", f"spark.connect.grpc.binding.port={port}", "--conf", "spark.connect.grpc.binding.address=127.0.0.1",
        "--conf", "spark.ui.enabled=false", "--conf", "spark.sql.shuffle.partitions=2",
        "--conf", f"spark.sql.warehouse.dir={cluster.folder}/warehouse", "spark-internal", heap="1g",
    )  # fmt: skip
    cluster.wait_for(port, cluster.processes[-1], output)
    return f"sc://127.0.0.1:{port}"


def test_standalone_cluster(master, analysed, tmp_path):
    assert_equal_tables(analysed, tmp_path, "--master", master)


def test_spark_connect(connect, analysed, tmp_path):
    assert_equal_tables(analysed, tmp_path, "--remote", connect)


def test_a_cluster_that_is_not_there_is_one_line(analysed, tmp_path):
    done = run_analyze(analysed, tmp_path, "--remote", f"sc://127.0.0.1:{free_port()}")
    assert done.returncode == 1
    assert "no session at sc://" in done.stderr
    assert "Traceback" not in done.stderr


def run_analyze(analysed, out: Path, *where: str) -> subprocess.CompletedProcess:
    runs = [str(analysed[name]) for name in CHOSEN]
    command = [sys.executable, "-m", "hearsay", "analyze", *runs, "--out", str(out), *where]
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_GATEWAY", "SPARK_"))
    }
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=400)


def assert_equal_tables(analysed, out: Path, *where: str) -> None:
    done = run_analyze(analysed, out, *where)
    assert done.returncode == 0, done.stderr[-3000:]
    for name in CHOSEN:
        for table in tables.TABLES.values():
            embedded, elsewhere = (read_table(path, table) for path in (analysed[name], out / name))
            assert sorted_rows(elsewhere) == sorted_rows(embedded), table.name


def sorted_rows(table) -> list[tuple]:
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)
