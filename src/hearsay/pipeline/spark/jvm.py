"""Spark's driver JVM, started directly and found by PySpark through its gateway variables.

Rules:

* No shell script and no launcher stand between: it starts on any Java, quietly, and a second faster.
* Jars that patch Spark come first on the class path, then Spark's own, then the rest: on new Javas some of Spark's
  classes are replaced by patched ones, and the order decides.
* The JVM lives as long as its standard input is open: when this process dies, however it dies, the JVM goes too.
* Ctrl-C reaches this process alone, which then closes the JVM in good order.
* Temporary files, those of the JVM and of its workers, lie in one folder, which goes when the JVM goes.
"""

from __future__ import annotations

import atexit
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import IO

from hearsay.pipeline.spark.java import Java

_OPENED = (
    "java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util",
    "java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs",
    "sun.util.calendar",
)  # fmt: skip

_LOGGING = """status = error
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = console
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
logger.python.name = org.apache.spark.api.python
logger.python.level = off
logger.executor.name = org.apache.spark.executor
logger.executor.level = off
logger.tasks.name = org.apache.spark.scheduler
logger.tasks.level = off
logger.context.name = org.apache.spark.TaskContextImpl
logger.context.level = off
logger.util.name = org.apache.spark.util
logger.util.level = off
logger.execution.name = org.apache.spark.sql.execution
logger.execution.level = off
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = off
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = spark: %m%n%ex{0}
"""

_POLL_S = 0.02
_STOP_S = 10
_CLEARINGS = 50


class JvmFailed(Exception):
    """The JVM ended before Spark was there."""


class Jvm:
    """A running driver JVM. There is one per process: PySpark keeps its gateway for life."""

    def __init__(self, process: subprocess.Popen[bytes], work: Path) -> None:
        self.process = process
        self._work = work

    @property
    def work(self) -> Path:
        """A folder of this process alone, which goes with the JVM."""
        return self._work

    @property
    def pid(self) -> int:
        return self.process.pid

    def stop(self, within_s: float = _STOP_S) -> None:
        """Let it end by itself, which it does as soon as its input ends."""
        stream: IO[bytes] | None = self.process.stdin
        if stream is not None and not stream.closed:
            stream.close()
        try:
            self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.kill()
        self._clear()

    def kill(self) -> None:
        """End it as it is: before Spark is up it listens to nobody."""
        self.process.kill()
        self.process.wait()
        self._clear()

    def _clear(self) -> None:
        """Workers end when the JVM has: what the last of them writes meanwhile goes in the next turn."""
        for _ in range(_CLEARINGS):
            shutil.rmtree(self._work, ignore_errors=True)
            if not self._work.exists():
                return
            Event().wait(_POLL_S)


def spark_home() -> Path:
    """Where the package pyspark lies, jars and all."""
    import pyspark

    return Path(pyspark.__file__).parent


def java_options(java: Java, heap: str, logging: Path) -> list[str]:
    """The command that starts a JVM of Spark, up to the main class."""
    home = spark_home()
    jars = sorted((home / "jars").glob("*.jar"), key=_class_path_order)
    return [
        str(java.program),
        f"-Xmx{heap}",
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
        "-XX:+IgnoreUnrecognizedVMOptions",
        "-Djdk.reflect.useDirectMethodHandle=false",
        "-Dio.netty.tryReflectionSetAccessible=true",
        "--sun-misc-unsafe-memory-access=allow",
        "--enable-native-access=ALL-UNNAMED",
        f"-Dlog4j2.configurationFile=file:{logging}",
        "-Xlog:disable",
        "-Xlog:all=error:stderr",
        "-cp",
        os.pathsep.join(map(str, jars)),
    ]


def write_logging(folder: Path) -> Path:
    """A log4j2 configuration that speaks of errors alone."""
    file = folder / "log4j2.properties"
    file.write_text(_LOGGING, encoding="utf-8")
    return file


def start_jvm(java: Java, heap: str, extra: Sequence[str] = (), spark_options: Sequence[str] = ()) -> Jvm:
    """Start the driver JVM and tell PySpark where it listens."""
    work = Path(tempfile.mkdtemp(prefix="hearsay-spark-"))
    information = work / "gateway"
    command = java_options(java, heap, write_logging(work))
    command += [*extra, f"-Djava.io.tmpdir={work}", "-XX:-UsePerfData"]
    environment = {
        **os.environ,
        "SPARK_HOME": str(spark_home()),
        "JAVA_HOME": str(java.home),
        "SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", "127.0.0.1"),
        "SPARK_CONNECT_MODE": "0",
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(information),
        "TMPDIR": str(work),
    }
    process = subprocess.Popen(
        [*command, "org.apache.spark.deploy.SparkSubmit", *spark_options, "pyspark-shell"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    )
    jvm = Jvm(process, work)
    waiting = Event()
    try:
        while process.poll() is None and not information.exists():
            waiting.wait(_POLL_S)
    except BaseException:
        jvm.kill()
        raise
    if not information.exists():
        jvm.stop()
        raise JvmFailed(f"{java} ended with code {process.returncode} before Spark was up")
    content = information.read_bytes()
    port, length = struct.unpack(">ii", content[:8])
    os.environ.update(
        PYSPARK_GATEWAY_PORT=str(port),
        PYSPARK_GATEWAY_SECRET=content[8 : 8 + length].decode(),
        SPARK_HOME=str(spark_home()),
        PYSPARK_PYTHON=environment["PYSPARK_PYTHON"],
    )
    atexit.register(jvm.stop)
    return jvm


def _class_path_order(jar: Path) -> tuple[int, str]:
    if "patch" in jar.name:
        return 0, jar.name
    return (1 if jar.name.startswith("spark-") else 2), jar.name
