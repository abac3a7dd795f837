"""The one place that yields a Spark session: embedded, on a cluster, or over Spark Connect.

Rules:

* Embedded is the default: a JVM of our own with as many task slots as there are cores.
* `--master spark://… | yarn | k8s://…` starts the driver here and the tasks there; `--remote sc://…` starts nothing
  here. In both cases this package travels along, so the cluster needs Python with numpy, pyarrow and scipy, not us.
* Two profiles, chosen by the number of trace rows: a small trace is done before the optimising compiler of the JVM
  pays, a large one needs it.
* Sums of integers and ordered work everywhere, so all three give equal tables.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
import sys
import tempfile
import zipfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from hearsay.pipeline.java import NoJava, find_java
from hearsay.pipeline.jvm import Jvm, JvmFailed, start_jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL_ROWS = 3_000_000
_MEMORY_SHARE = 0.25
FAST_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
_THROUGHPUT = ("-XX:+UseParallelGC",)
_PORTS = {"sc": 15002, "spark": 7077}
_REACH_S = 5


class SparkUnavailable(Exception):
    """There is no session to be had; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Where:
    """Where Spark runs: embedded (both None), a cluster's master, or a Spark Connect server."""

    master: str | None = None
    remote: str | None = None

    def __str__(self) -> str:
        return self.remote or self.master or "embedded"


_jvm: Jvm | None = None


@contextmanager
def spark_session(
    where: Where,
    rows: int,
    say: Callable[[str], None],
    *,
    cores_per_task: int = 1,
    modules: Sequence[Path] = (),
) -> Generator[SparkSession]:
    """A session for work on about `rows` trace rows; `say` gets what there is to wait for.

    `modules` are files of Python and zips of packages that the tasks need beside this package.
    """
    for address in filter(None, (where.remote, where.master)):
        _require_listener(address)
    if where.remote is not None:
        session = _remote_session(where.remote, rows < SMALL_ROWS, say)
    else:
        session = _session_here(where.master, rows, say, cores_per_task)
    work = Path(tempfile.mkdtemp(prefix="hearsay-package-"))
    try:
        own = [] if where.master is None and where.remote is None else [zip_package(work)]
        for file in (*own, *modules):
            _ship(session, where, file)
        yield session
    finally:
        shutil.rmtree(work, ignore_errors=True)
        _stop(session, where)


def _stop(session: SparkSession, where: Where) -> None:
    try:
        session.stop()
    except Exception:
        gone = "Spark's JVM here" if where.remote is None else f"the Spark server at {where.remote}"
        raise SparkUnavailable(
            f"{gone} has ended before its work was done (killed, out of memory?); run the command again"
        ) from None


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def zip_package(folder: Path) -> Path:
    """This package as a zip that Python imports from."""
    root = Path(__file__).parents[1]
    target = folder / "hearsay.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(root.rglob("*.py")):
            archive.write(file, Path("hearsay") / file.relative_to(root))
    return target


def _ship(session: SparkSession, where: Where, package: Path) -> None:
    if where.remote is not None:
        session.addArtifacts(str(package), pyfile=True)
    else:
        session.sparkContext.addPyFile(str(package))


def _session_here(master: str | None, rows: int, say: Callable[[str], None], cores_per_task: int) -> SparkSession:
    global _jvm
    _require_pyspark()
    from pyspark.sql import SparkSession

    small = rows < SMALL_ROWS
    if _jvm is None or _jvm.process.poll() is not None:
        try:
            java = find_java()
            say(f"starting Spark ({master or 'embedded'}, {java})")
            _jvm = start_jvm(java, heap(), FAST_START if small else _THROUGHPUT)
        except (NoJava, JvmFailed) as error:
            raise SparkUnavailable(str(error)) from None
    slots, embedded = cores(), master is None
    settings = {
        **_of_the_session(small, embedded),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.default.parallelism": str(slots) if embedded else "",
        "spark.executor.extraJavaOptions": " ".join(FAST_START if small else _THROUGHPUT),
        "spark.sql.warehouse.dir": tempfile.gettempdir() + "/hearsay-warehouse",
        "spark.driver.host": "127.0.0.1" if _is_local(master) else "",
        "spark.driver.bindAddress": "127.0.0.1" if _is_local(master) else "",
        "spark.python.worker.reuse": "true",
        "spark.task.cpus": str(cores_per_task) if cores_per_task > 1 else "",
    }
    builder: Any = SparkSession.builder
    builder = builder.appName("hearsay").master(master or f"local[{slots}]")
    for name, value in settings.items():
        if value:
            builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
        _quiet(session)
        return session
    except Exception as error:
        raise SparkUnavailable(f"no session on {master or 'embedded Spark'}: {first_line(error)}") from None


def _quiet(session: Any) -> None:
    """When the JVM dies, two places in PySpark print tracebacks; `_stop` says it in a line."""
    session.sparkContext._accumulatorServer.handle_error = _say_nothing
    logging.root.addFilter(_not_of_the_gateway)


def _say_nothing(_request: object, _client: object) -> None: ...


def _not_of_the_gateway(record: logging.LogRecord) -> bool:
    return "py4j" not in record.pathname


def _of_the_session(small: bool, embedded: bool) -> dict[str, str]:
    """What a running server lets a session choose. How many parts large work has, a cluster knows better."""
    partitions = cores() if small else 2 * cores()
    return {
        **({"spark.sql.shuffle.partitions": str(partitions)} if small or embedded else {}),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "false" if small else "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.codegen.wholeStage": "false" if small else "true",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN" if small else "FALLBACK",
    }


def _remote_session(remote: str, small: bool, say: Callable[[str], None]) -> SparkSession:
    _require_pyspark()
    from pyspark.sql import SparkSession

    say(f"connecting to Spark at {remote}")
    builder: Any = SparkSession.builder
    try:
        session = builder.remote(remote).create()
        for name, value in _of_the_session(small, embedded=False).items():
            session.conf.set(name, value)
        session.range(1).collect()
        return session
    except Exception as error:
        raise SparkUnavailable(f"no session at {remote}: {first_line(error)}") from None


def _require_listener(address: str) -> None:
    """Spark's own clients try for many minutes to reach a server that is not there; this says so at once."""
    parts = urlsplit(address)
    if parts.scheme not in _PORTS:
        return
    servers = [urlsplit(f"//{server}") for server in parts.netloc.split(",")]
    problem = "no address in it"
    for server in servers:
        try:
            socket.create_connection((server.hostname, server.port or _PORTS[parts.scheme]), _REACH_S).close()
            return
        except (OSError, ValueError) as error:
            problem = getattr(error, "strerror", None) or str(error)
    raise SparkUnavailable(f"no session at {address}: {problem}")


def _require_pyspark() -> None:
    if find_spec("pyspark") is None:
        raise SparkUnavailable(f"PySpark is not installed; run {sys.executable} -m pip install 'hearsay[spark]'")


def _is_local(master: str | None) -> bool:
    return master is None or master.startswith("local") or "127.0.0.1" in master or "localhost" in master


def heap() -> str:
    """A quarter of the machine's memory, between 1 and 16 GB; `HEARSAY_SPARK_HEAP` says otherwise."""
    chosen = os.environ.get("HEARSAY_SPARK_HEAP")
    if chosen:
        return chosen
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        total = 8 << 30
    return f"{min(16_384, max(1024, int(total * _MEMORY_SHARE) >> 20))}m"


def first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0][:300]
