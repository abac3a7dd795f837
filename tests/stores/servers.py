"""An S3 server and an HDFS on loopback, for tests of runs and tables in a store.

`make test-all` installs the S3 server, moto, from requirements.lock. Maven fetches the jars into the user's cache, by
the coordinates and hashes of s3.jars and hdfs.jars. A test is skipped if its server or its jars are missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from hashlib import sha256
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

import pytest
from standalone import free_port

from hearsay.pipeline.spark.java import java_home
from hearsay.trace.language.places import user_cache

HERE = Path(__file__).parent
MOTO = HERE.parents[1] / "build" / "stores-tools" / "bin" / "moto_server"
BUCKET = "bucket"
_START_S = 120
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
"""The full name, because Maven finds a plugin by its short name only if its registry lists all plugins."""
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>hearsay</groupId><artifactId>jars</artifactId><version>1</version><dependencies>{}</dependencies></project>"""
_DEPENDENCY = """<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version><exclusions>
<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"""


def jars(name: str) -> list[Path]:
    """Return the jars of a list; fetch missing ones."""
    lines = [line.split(" sha256:") for line in (HERE / f"{name}.jars").read_text().splitlines()]
    wanted = {"{1}-{2}.jar".format(*coordinates.split(":")): digest for coordinates, digest in lines}
    folder = user_cache() / "hearsay" / "test-jars" / name
    if not all((folder / jar).is_file() for jar in wanted):
        _fetch([coordinates.split(":") for coordinates, _ in lines], folder)
    for jar, digest in wanted.items():
        assert sha256((folder / jar).read_bytes()).hexdigest() == digest, f"{folder / jar} is not the one listed"
    return [folder / jar for jar in wanted]


def _fetch(coordinates: list[list[str]], folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip("Maven is not installed, which fetches jars of Hadoop")
    with TemporaryDirectory() as work:
        pom = _POM.format("".join(_DEPENDENCY.format(*each) for each in coordinates))
        Path(work, "pom.xml").write_text(pom)
        command = [maven, "-q", "-B", _COPY, f"-DoutputDirectory={folder}"]
        # A session of Spark sets JAVA_HOME; Maven runs on its own Java, which knows this machine's certificates.
        environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
        done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, timeout=300)
    if done.returncode:
        pytest.skip("Maven cannot fetch jars of Hadoop: " + done.stdout.strip().partition("\n")[0])


@contextmanager
def s3() -> Generator[tuple[str, dict[str, str]]]:
    """Yield the URI of a bucket on a running S3 server, and the settings of Spark for it."""
    if not MOTO.is_file():
        pytest.skip("moto, an S3 server, is not installed; `make test-all` does it")
    port = free_port()
    conf = {
        "spark.jars": ",".join(map(str, jars("s3"))),
        "spark.hadoop.fs.s3a.endpoint": f"http://127.0.0.1:{port}",
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": "key",
        "spark.hadoop.fs.s3a.secret.key": "secret",
    }
    with _running([str(MOTO), "-H", "127.0.0.1", "-p", str(port)]) as server:
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        _until(lambda: _answers(connection), server)
        connection.request("PUT", f"/{BUCKET}", headers={"Authorization": "AWS key:"})
        assert connection.getresponse().status == 200
        connection.close()
        yield f"s3a://{BUCKET}", conf


@contextmanager
def hdfs() -> Generator[tuple[str, dict[str, str]]]:
    """Yield the URI of a folder in a running HDFS of one node, and the settings of Spark for it."""
    classes, port = ":".join(map(str, jars("hdfs"))), free_port()
    with TemporaryDirectory() as work:
        manager = "org.apache.hadoop.mapreduce.MiniHadoopClusterManager"
        details = Path(work, "details.json")
        options = ["-nomr", "-format", "-datanodes", "1", "-nnport", str(port), "-writeDetails", str(details)]
        with _running([str(java_home() / "bin" / "java"), "-cp", classes, manager, *options], work) as server:
            _until(lambda: details.exists() and details.stat().st_size > 0, server)
            yield f"hdfs://127.0.0.1:{port}/runs", {"spark.hadoop.dfs.replication": "1"}


@contextmanager
def _running(command: list[str], folder: str | None = None) -> Generator[subprocess.Popen[bytes]]:
    quiet = subprocess.DEVNULL
    server = subprocess.Popen(command, cwd=folder, stdin=quiet, stdout=quiet, stderr=quiet)
    try:
        yield server
    finally:
        server.kill()
        server.wait()


def _answers(connection: HTTPConnection) -> bool:
    try:
        connection.request("GET", "/moto-api/")
        connection.getresponse().read()
    except OSError:
        connection.close()
        return False
    return True


def _until(ready, server: subprocess.Popen[bytes]) -> None:
    end = monotonic() + _START_S
    while not ready():
        assert monotonic() < end, "the server does not start"
        try:
            raise AssertionError(f"the server ended with {server.wait(0.1)}")
        except subprocess.TimeoutExpired:
            pass
