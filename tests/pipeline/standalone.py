"""Spark's own daemons as processes, started from the installed package, on loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from hearsay.pipeline.java import find_java, home_for_workers
from hearsay.pipeline.jvm import java_options, spark_home, write_logging
from hearsay.pipeline.session import FAST_START

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
        command = [*java_options(self.java, heap, logging), *FAST_START, main, *arguments]
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

    def start_master(self) -> str:
        """The URL of a master that listens."""
        port = free_port()
        where = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", str(free_port()))
        output = self.start("master", "org.apache.spark.deploy.master.Master", *where)
        self.wait_for(port, self.processes[-1], output)
        return f"spark://127.0.0.1:{port}"

    def start_worker(self, name: str, master: str) -> subprocess.Popen:
        """A worker of one core."""
        where = ("--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", str(free_port()))
        self.start(name, "org.apache.spark.deploy.worker.Worker", *where, master)
        return self.processes[-1]

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
