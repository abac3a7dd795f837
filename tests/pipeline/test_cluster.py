"""Equal tables wherever Spark runs: embedded, on a standalone cluster on loopback, and over Spark Connect."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from hearsay.pipeline import tables
from hearsay.pipeline.java import find_java, home_for_workers
from hearsay.pipeline.jvm import java_options, spark_home, write_logging
from hearsay.pipeline.table_store import read_table

pytestmark = pytest.mark.xdist_group("spark")

CHOSEN = ("lossy", "topics", "spanning")
UP_S = 90


class Cluster:
    """JVMs of Spark's own daemons, from the installed package, on loopback."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen] = []
        self.java = find_java()
        self.home = home_for_workers(self.java, folder / "java")

    def start(self, name: str, main: str, *arguments: str, heap: str = "512m") -> Path:
        """Start a daemon; returns the file it writes its output to."""
        work = self.folder / name
        work.mkdir()
        logging = write_logging(work)
        logging.write_text(logging.read_text().replace("rootLogger.level = error", "rootLogger.level = info"))
        output = work / "output"
        command = [*java_options(self.java, heap, logging), main, *arguments]
        environment = {
            **os.environ,
            "SPARK_HOME": str(spark_home()),
            "SPARK_SCALA_VERSION": "2.13",
            "JAVA_HOME": str(self.home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_PUBLIC_DNS": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_WORKER_DIR": str(work / "apps"),
        }
        for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"):
            environment.pop(name, None)
        with output.open("wb") as file:
            process = subprocess.Popen(command, env=environment, stdout=file, stderr=subprocess.STDOUT, cwd=work)
        self.processes.append(process)
        return output

    def wait_for(self, port: int, process: subprocess.Popen, output: Path) -> None:
        """Until something listens on the port, or the process is dead."""
        waited = subprocess.Popen([sys.executable, "-c", _WAIT, str(port), str(UP_S)])
        code = waited.wait()
        assert process.poll() is None, output.read_text()[-2000:]
        assert code == 0, output.read_text()[-2000:]

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.kill()
            process.wait()


_WAIT = """
import socket, sys, time
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    try:
        socket.create_connection(("127.0.0.1", int(sys.argv[1])), 1).close()
        sys.exit(0)
    except OSError:
        time.sleep(0.1)
sys.exit(1)
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


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
    port, ui = free_port(), free_port()
    where = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", str(ui))
    output = cluster.start("master", "org.apache.spark.deploy.master.Master", *where)
    cluster.wait_for(port, cluster.processes[-1], output)
    for number in (1, 2):
        arguments = ("--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", str(free_port()))
        main = "org.apache.spark.deploy.worker.Worker"
        cluster.start(f"worker{number}", main, *arguments, f"spark://127.0.0.1:{port}")
    return f"spark://127.0.0.1:{port}"


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
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def assert_equal_tables(analysed, out: Path, *where: str) -> None:
    done = run_analyze(analysed, out, *where)
    assert done.returncode == 0, done.stderr[-3000:]
    for name in CHOSEN:
        for table in tables.TABLES.values():
            embedded, elsewhere = (read_table(path, table) for path in (analysed[name], out / name))
            assert sorted_rows(elsewhere) == sorted_rows(embedded), table.name


def sorted_rows(table) -> list[tuple]:
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)
