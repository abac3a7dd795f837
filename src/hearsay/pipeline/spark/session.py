"""The one place that yields a Spark session: embedded, on a cluster, or over Spark Connect.

Rules:

* Embedded is the default: a JVM of our own with as many task slots as there are cores.
* `--master spark://… | yarn | k8s://…` starts the driver here and the tasks there; `--remote sc://…` starts nothing
  here, and `--remote local[N]` a server that PySpark keeps for later commands. In all three cases this package
  travels along (`package_zip.py`), so the cluster needs Python with numpy, pyarrow and scipy, not us.
* The JVM hands out tasks, which takes no optimising compiler; it has one where the trace is so large that Spark adds
  up what the tasks say. What Spark's own queries need is chosen by the number of trace rows, too.
* What a session keeps on the disk lies in a folder of its own that nobody else may read and that goes with it; the
  driver here takes no connection without its secret. Addresses are shown without tokens.
* Sums of integers and ordered work everywhere, so all three give equal tables.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
import warnings
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from hearsay.extras import DISTRIBUTION, pip_install
from hearsay.pipeline.spark.failures import quiet_the_gateway, say_nothing, without_secrets
from hearsay.pipeline.spark.java_home import java_home
from hearsay.pipeline.spark.jvm import Jvm, JvmFailed, NoJava, find_java, python_of_workers, spark_home, start_jvm
from hearsay.pipeline.spark.package_zip import zip_package
from hearsay.pipeline.spark.place import HEAP, SparkUnavailable, Where, cores, heap, shown
from hearsay.pipeline.spark.settings import SMALL_ROWS, settings_for
from hearsay.pipeline.spark.started_jvm import (
    FIRST_JAVA,
    UNFINISHED,
    NotPrepared,
    create,
    folder_to_write,
    options_with,
    recording_options,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MANY_ROWS = 1_000_000_000
FAST_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:MetaspaceSize=256m")
"""Without the last, Java collects all garbage while it loads Spark's classes."""
_THROUGHPUT = ("-XX:+UseParallelGC",)
_PORTS = {"sc": 15002, "spark": 7077}
_REACH_S = 5
_NOTE_S = 300
"""How long a JVM may take to write what it noted."""
_jvm: Jvm | None = None


def require_spark(where: Where) -> None:
    """Raise `SparkUnavailable` before anything is begun, for what can be known without starting a session."""
    _require_pyspark()
    for address in filter(None, (where.remote, where.master)):
        _require_listener(address)
    if where.remote is None:
        try:
            find_java()
        except NoJava as error:
            raise SparkUnavailable(str(error)) from None


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
        session = _remote_session(where.remote, rows, say)
    else:
        session = _session_here(where.master, rows, say, cores_per_task)
    work = Path(tempfile.mkdtemp(prefix="hearsay-package-"))
    try:
        own = [] if where.master is None and where.remote is None else [zip_package(work)]
        for file in (*own, *modules):
            _ship(session, where, file)
        yield session
    except KeyboardInterrupt:
        with suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # cut off in the middle of a word, the JVM may not answer
            session.stop()
        raise
    except BaseException:
        _stop(session, where)
        raise
    else:
        _stop(session, where)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def prepare(work: Callable[[SparkSession], None], say: Callable[[str], None]) -> Path:
    """Make the file with which later JVMs start faster, by what one loads for `work`."""
    global _jvm
    _require_pyspark()
    try:
        java = find_java()
        if java.version < FIRST_JAVA:
            raise SparkUnavailable(f"{java} cannot, Java {FIRST_JAVA} can; {DISTRIBUTION}[spark] brings one")
        folder = folder_to_write()
        with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=folder) as fresh:
            configuration = Path(fresh) / "noted"
            say("watching a session at work")
            _jvm = start_jvm(java, heap(), [*FAST_START, *recording_options(configuration)])
            with spark_session(Where(), 0, lambda _: None) as session:
                work(session)
            _jvm.stop(_NOTE_S)
            say("writing what it loaded")
            return create(java, heap(), configuration, folder)
    except (NoJava, JvmFailed, NotPrepared) as error:
        raise SparkUnavailable(str(error)) from None


def _stop(session: SparkSession, where: Where) -> None:
    try:
        session.stop()
    except Exception:
        raise SparkUnavailable(_how_it_ended(where)) from None


def _how_it_ended(where: Where) -> str:
    """What is known of a Spark that is gone, and what can be done about it: the same again would end the same way."""
    if where.remote is not None:
        return f"the Spark server at {where} has ended before its work was done; its own log says why"
    code = None if _jvm is None else _jvm.process.poll()
    how = "does not answer" if code is None else "was killed" if code < 0 else f"ended with code {code}"
    return (
        f"Spark's JVM {how}, and its work is not done. If memory ran out: its heap is {heap()}, {HEAP} "
        "sets another, and fewer runs at once need less. Tables of earlier analyses are whole"
    )


def _ship(session: SparkSession, where: Where, package: Path) -> None:
    if where.remote is not None:
        session.addArtifacts(str(package), pyfile=True)
    else:
        session.sparkContext.addPyFile(str(package))


def start_ahead(where: Where, rows: int) -> None:
    """Start the JVM of an embedded session, without waiting for it, for work on about `rows` trace rows.

    A JVM that does not start is an error when the session is opened.
    """
    if where == Where():
        with suppress(SparkUnavailable):
            _require_pyspark()
            _jvm_here(None, rows)


def jvm_is_running() -> bool:
    return _jvm is not None and _jvm.process.poll() is None


def _jvm_here(master: str | None, rows: int) -> Jvm:
    """The JVM of this process, which may not be up yet."""
    global _jvm
    if _jvm is None or not jvm_is_running():
        try:
            java = find_java()
            options = [*_profile(rows), *options_with(java)]
            has_installed = master is None and python_of_workers() == sys.executable
            _jvm = start_jvm(java, heap(), options, None if has_installed else spark_home())
        except (NoJava, OSError) as error:
            raise SparkUnavailable(str(error)) from None
    return _jvm


def _profile(rows: int) -> Sequence[str]:
    return FAST_START if rows < _MANY_ROWS else _THROUGHPUT


def _session_here(master: str | None, rows: int, say: Callable[[str], None], cores_per_task: int) -> SparkSession:
    _require_pyspark()
    jvm = _jvm_here(master, rows)
    if not jvm.is_up:
        say(f"starting Spark ({master or 'embedded'}, {jvm.java})")
    from pyspark.sql import SparkSession

    try:
        jvm.wait_until_up()
    except JvmFailed as error:
        raise SparkUnavailable(str(error)) from None
    slots, embedded = cores(), master is None
    is_here = master is None or master.startswith("local")
    settings = {
        **settings_for(rows, embedded),
        # Every sum and sort takes a page at once; the default is 64 MiB, which take longer to clear than to fill.
        "spark.buffer.pageSize": "256k" if rows < SMALL_ROWS else "",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.default.parallelism": str(slots) if embedded else "",
        "spark.executor.extraJavaOptions": " ".join(_profile(rows)),
        "spark.sql.warehouse.dir": str(jvm.work / "warehouse"),
        "spark.local.dir": str(jvm.work) if is_here and "SPARK_LOCAL_DIRS" not in os.environ else "",
        "spark.authenticate": "true" if is_here else "",
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
    quiet_the_gateway()
    try:
        session = _created(builder, jvm)
        session.sparkContext._accumulatorServer.handle_error = say_nothing
        return session
    except Exception as error:
        raise SparkUnavailable(f"no session on {master or 'embedded Spark'}: {first_line(error)}") from None


def _created(builder: Any, jvm: Jvm) -> Any:
    """Made in a thread of its own: on the main thread PySpark would put its handler of Ctrl-C in place of ours."""
    with ThreadPoolExecutor(1, thread_name_prefix="spark-start") as thread:
        made = thread.submit(builder.getOrCreate)
        try:
            return made.result()
        except KeyboardInterrupt:
            jvm.kill()  # which ends the thread's work, too
            raise


def _remote_session(remote: str, rows: int, say: Callable[[str], None]) -> SparkSession:
    _require_pyspark()
    from pyspark.sql import SparkSession

    say(f"connecting to Spark at {shown(remote)}")
    builder: Any = SparkSession.builder.remote(remote)
    try:
        session = builder.create() if remote.startswith("sc://") else _session_on_kept_server(builder)
        for name, value in settings_for(rows, embedded=False).items():
            session.conf.set(name, value)
        session.range(1).collect()
        return session
    except Exception as error:
        raise SparkUnavailable(f"no session at {shown(remote)}: {first_line(error)}") from None


def _session_on_kept_server(builder: Any) -> Any:
    """Return a session on the local Connect server that PySpark starts once for its user and keeps.

    Only the command that starts the server decides its settings.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if "JAVA_HOME" not in os.environ:
        os.environ["JAVA_HOME"] = str(java_home())
    settings = {
        "spark.local.connect.reuse": "true",
        "spark.driver.memory": heap(),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.authenticate": "true",
        "spark.ui.enabled": "false",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


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
    raise SparkUnavailable(f"no session at {shown(address)}: {problem}")


def _require_pyspark() -> None:
    if find_spec("pyspark") is None:
        raise SparkUnavailable(f"PySpark is not installed; run {pip_install('spark')}")


def _is_local(master: str | None) -> bool:
    return master is None or master.startswith("local") or "127.0.0.1" in master or "localhost" in master


def first_line(error: BaseException) -> str:
    return without_secrets(str(error)).strip().partition("\n")[0][:300]
