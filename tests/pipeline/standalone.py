"""Spark's own daemons as processes, started from the installed package, on loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from time import monotonic

from hearsay.pipeline.spark.java import java_home
from hearsay.pipeline.spark.settings import spark_home

UP_S = 90
"""Maximum seconds until a daemon prints a line that a test waits for."""


class Daemon:
    """A process whose output is stored in a file; tests can wait for a text in it."""

    def __init__(self, command: list[str], environment: dict[str, str], folder: Path) -> None:
        self.process = subprocess.Popen(
            command, env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            encoding="utf-8", errors="replace",
        )  # fmt: skip
        self._output = folder / "output"
        self._lines: Queue[str | None] = Queue()
        Thread(target=self._read, daemon=True).start()

    def wait_until_it_says(self, words: str) -> None:
        """Wait until a line of the output has these words; fail with the end of the output if that takes too long."""
        end = monotonic() + UP_S
        said = False
        while not said:
            try:
                line = self._lines.get(timeout=max(0, end - monotonic()))
            except Empty:
                line = None
            assert line is not None, self._output.read_text(encoding="utf-8")[-2000:]
            said = words in line

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as said, self._output.open("w", encoding="utf-8", buffering=1) as file:
            for line in said:
                file.write(line)
                self._lines.put(line)
        self._lines.put(None)


class Cluster:
    """JVMs of Spark's own daemons, from the installed package, on loopback."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.daemons: list[Daemon] = []

    def start(self, name: str, main: str, *arguments: str) -> Daemon:
        work = self.folder / name
        work.mkdir()
        command = [str(spark_home() / "bin" / "spark-class"), main, *arguments]
        environment = {
            **os.environ,
            "SPARK_HOME": str(spark_home()),
            "JAVA_HOME": str(java_home()),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_PUBLIC_DNS": "127.0.0.1",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_WORKER_DIR": str(work / "apps"),
        }
        self.daemons.append(Daemon(command, environment, work))
        return self.daemons[-1]

    def start_master(self) -> str:
        """Start a master, and return its URL when it listens."""
        port = free_port()
        where = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", str(free_port()))
        self.start("master", "org.apache.spark.deploy.master.Master", *where).wait_until_it_says("New state: ALIVE")
        return f"spark://127.0.0.1:{port}"

    def start_worker(self, name: str, master: str) -> subprocess.Popen:
        """Start a worker with one core."""
        where = ("--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", str(free_port()))
        return self.start(name, "org.apache.spark.deploy.worker.Worker", *where, master).process

    def stop(self) -> None:
        for daemon in reversed(self.daemons):
            daemon.stop()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
