"""Spark sessions: embedded, on a cluster, or over Spark Connect. Only this module creates them.

Rules:

* Sessions are PySpark's own (`SparkSession.builder`). Settings of the user, by `--conf` or in `spark-defaults.conf`,
  override the settings of this module.
* Embedded is the default: as many task slots as there are cores. `--master spark://… | yarn | k8s://…` starts the
  driver here and the tasks there; `--remote sc://…` starts nothing here, and `--remote local[N]` a server that
  PySpark keeps for later commands. Unless embedded, tasks get this package as a zip (`package_zip.py`).
* Files of a session are in its own folder, which no other user may read and which is removed with it; the
  driver here accepts no connection without its secret. Addresses are shown without tokens.
* A session is built in a thread. So it can start early, and PySpark does not replace the handler of Ctrl-C, which it
  does on the main thread only.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import socket
import sys
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from hearsay.extras import pip_install
from hearsay.pipeline.spark import aot_cache
from hearsay.pipeline.spark.failures import first_line, quiet_the_gateway
from hearsay.pipeline.spark.java_home import find_java, java_home
from hearsay.pipeline.spark.package_zip import zip_package
from hearsay.pipeline.spark.place import HEAP, SparkUnavailable, Where, cores, heap, shown, spark_home
from hearsay.pipeline.spark.settings import SMALL_ROWS, settings_for
from hearsay.pipeline.spark.work_folder import made_work_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SMALL = ("-XX:TieredStopAtLevel=1",)
"""In small analyses the second compiler takes longer than it saves."""
_LARGE = ("-XX:+UnlockDiagnosticVMOptions", "-XX:-AOTReplayTraining")
"""Options for large analyses. The prepared file's profiles of a small run would slow tasks down by half."""
_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr", "-XX:-UsePerfData")
_LOGGING = Path(__file__).with_name("log4j2.properties")
_OWN_FILES = "spark.submit.pyFiles"
"""If a user sets this, the session does not send this package to the tasks: the user has to send it."""
_HERE = "127.0.0.1"
_LOOPBACK = (_HERE, "localhost")
_ON_LOOPBACK = {"spark.driver.host": _HERE, "spark.driver.bindAddress": _HERE}
_PORTS = {"sc": 15002, "spark": 7077}
_REACH_S = 5
_START_S = 30
_starting: dict[Where, Future[SparkSession]] = {}


def require_spark(where: Where) -> None:
    """Raise `SparkUnavailable` early, for all reasons that can be found without starting a session."""
    if find_spec("pyspark") is None:
        raise SparkUnavailable(f"PySpark is not installed; run {pip_install('spark')}")
    for address in filter(None, (where.remote, where.master)):
        _require_listener(address)
    if where.remote is None:
        find_java()


def start_ahead(where: Where, rows: int) -> None:
    """Start an embedded session, without waiting for it, for work on about `rows` trace rows.

    If it cannot start, `spark_session` raises the error.
    """
    if where.is_embedded:
        with suppress(SparkUnavailable):
            require_spark(where)
            _starting[where] = _begun(_settings_here(where, rows, 1))


@contextmanager
def spark_session(
    where: Where,
    rows: int,
    say: Callable[[str], None],
    *,
    cores_per_task: int = 1,
    modules: Sequence[Path] = (),
) -> Generator[SparkSession]:
    """Open a session for work on about `rows` trace rows; `say` gets progress messages.

    `modules` are files of Python and zips of packages that the tasks need in addition to this package.
    """
    require_spark(where)
    say(f"connecting to Spark at {where}" if where.remote else f"starting Spark ({where}, {find_java()})")
    session = _opened(where, rows, cores_per_task)
    try:
        with TemporaryDirectory(prefix="hearsay-package-") as work:
            travels = not where.is_embedded and _OWN_FILES not in dict(where.conf)
            for file in (*([zip_package(Path(work))] if travels else ()), *modules):
                _ship(session, where, file)
            yield session
    except KeyboardInterrupt:
        with suppress(SparkUnavailable):  # a JVM whose call was interrupted may not answer
            _stop(session, where)
        raise
    except BaseException:
        _stop(session, where)
        raise
    else:
        _stop(session, where)


def adapt(session: SparkSession, rows: int, conf: Mapping[str, str]) -> None:
    """Set the options of Spark SQL for this number of rows in an open session; the options in `conf` win."""
    for name, value in {**settings_for(rows, embedded=True), **conf}.items():
        if name.startswith("spark.sql."):
            session.conf.set(name, value)


def _ship(session: SparkSession, where: Where, file: Path) -> None:
    if where.remote is not None:
        session.addArtifacts(str(file), pyfile=True)
    else:
        session.sparkContext.addPyFile(str(file))


def _stop(session: SparkSession, where: Where) -> None:
    try:
        with warnings.catch_warnings(action="ignore"):
            session.stop()
    except Exception:
        raise SparkUnavailable(_how_it_ended(where)) from None


def _how_it_ended(where: Where) -> str:
    """Return a message that Spark has ended, with advice, because a repetition would end the same way."""
    if where.remote is not None:
        return f"the Spark server at {where} has ended before its work was done; its own log says why"
    return (
        f"Spark's JVM has ended, and its work is not done. If memory ran out: its heap is {heap()}, {HEAP} "
        "sets another, and fewer runs at once need less. Tables of earlier analyses are complete"
    )


def _opened(where: Where, rows: int, cores_per_task: int) -> SparkSession:
    try:
        if where.remote is not None:
            return _remote_session(where, where.remote, rows)
        begun = _starting.pop(where, None)
        return (begun or _begun(_settings_here(where, rows, cores_per_task))).result()
    except Exception as error:
        raise SparkUnavailable(f"no session at {where}: {first_line(error)}") from None


def _begun(settings: Mapping[str, str]) -> Future[SparkSession]:
    """Start a session in a thread. Returns its future."""
    made: Future[SparkSession] = Future()

    def make() -> None:
        try:
            from pyspark.sql import SparkSession

            quiet_the_gateway()
            made.set_result(_with_settings(SparkSession.builder, settings).getOrCreate())
        except BaseException as error:
            made.set_exception(error)

    Thread(target=make, name="spark-start", daemon=True).start()
    atexit.register(_end, made)
    return made


def _end(made: Future[SparkSession]) -> None:
    """Stop a session that no caller has stopped, so that it writes no more files; PySpark cannot cancel a start."""
    wait([made], _START_S)
    with suppress(Exception), warnings.catch_warnings(action="ignore"):
        made.result(0).stop()


def _with_settings(builder: Any, settings: Mapping[str, str]) -> Any:
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder


def _settings_here(where: Where, rows: int, cores_per_task: int) -> dict[str, str]:
    """Return the settings of a session with the driver here, and set the environment of its JVM."""
    master = where.master or f"local[{cores()}]"
    is_here = master.startswith("local")
    on_loopback = is_here or urlsplit(master).hostname in _LOOPBACK
    _set_environment(on_loopback)
    work = str(_work())
    settings = {
        **settings_for(rows, where.is_embedded),
        "spark.app.name": "hearsay",
        "spark.driver.memory": heap(),
        "spark.driver.defaultJavaOptions": shlex.join(_java_options(rows, work)),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": f"{work}/warehouse",
        "spark.task.cpus": str(cores_per_task),
    }
    if rows < SMALL_ROWS:  # each sum and sort takes a page at once; the default of 64 MiB is slow to clear
        settings["spark.buffer.pageSize"] = "256k"
    if on_loopback:
        settings |= _ON_LOOPBACK
    if is_here:
        settings |= {"spark.local.dir": work, "spark.executorEnv.TMPDIR": work, "spark.authenticate": "true"}
    return {**_unless_set(settings), **dict(where.conf), "spark.master": master}


def _java_options(rows: int, work: str) -> list[str]:
    size = _SMALL if rows < SMALL_ROWS else _LARGE
    own_logging = (_conf_folder() / _LOGGING.name).exists()
    logging = [] if own_logging else [f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"]
    return [*_QUIET, *size, *aot_cache.options_with(find_java()), f"-Djava.io.tmpdir={work}", *logging]


def _remote_session(where: Where, remote: str, rows: int) -> SparkSession:
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder.remote(remote)
    if remote.startswith("sc://"):
        session = builder.create()
    else:
        session = _with_settings(builder, _settings_of_kept_server(where)).getOrCreate()
    for name, value in {**settings_for(rows, embedded=False), **dict(where.conf)}.items():
        session.conf.set(name, value)
    session.range(1).collect()
    return session


def _settings_of_kept_server(where: Where) -> dict[str, str]:
    """Return settings for the Connect server that PySpark starts once for its user and keeps.

    They take effect only in the command that starts the server.
    """
    _set_environment(on_loopback=True)
    settings = {"spark.driver.memory": heap(), "spark.authenticate": "true", "spark.ui.enabled": "false"}
    return {**_unless_set(settings | _ON_LOOPBACK), **dict(where.conf), "spark.local.connect.reuse": "true"}


def _set_environment(on_loopback: bool) -> None:
    """Set the variables with which PySpark starts a JVM. A Python or IP address that the user has set is kept."""
    try:
        os.environ["JAVA_HOME"] = str(java_home())
    except OSError as error:
        raise SparkUnavailable(f"no launcher of Java can be written: {error}") from None
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        os.environ.setdefault(name, sys.executable)
    if on_loopback:
        os.environ.setdefault("SPARK_LOCAL_IP", _HERE)


@cache
def _work() -> Path:
    """Return the folder for temporary files of this process and of its JVM. A process has one JVM only."""
    folder = made_work_folder()
    atexit.register(folder.remove)
    return folder.path


def _unless_set(settings: dict[str, str]) -> dict[str, str]:
    """Return the settings except those that `spark-defaults.conf` has: Spark would prefer ours to that file."""
    try:
        lines = (_conf_folder() / "spark-defaults.conf").read_text(encoding="utf-8").splitlines()
    except OSError:
        return settings
    theirs = {re.split(r"[\s=:]", line.strip(), maxsplit=1)[0] for line in lines}
    return {name: value for name, value in settings.items() if name not in theirs}


def _conf_folder() -> Path:
    return Path(os.environ.get("SPARK_CONF_DIR") or spark_home() / "conf")


def _require_listener(address: str) -> None:
    """Raise at once if no server listens at an address: Spark's own clients try for many minutes."""
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
