"""Spark sessions: embedded, on a cluster, or over Spark Connect. Only this module creates them.

Rules:

* Sessions are PySpark's own (`SparkSession.builder`). Settings of the user by `--conf` override the settings of this
  module. Settings in `spark-defaults.conf` do so when a driver on this machine starts. SQL options that are set in an
  open session (`adapt`, or over Spark Connect) override them.
* By default Spark is embedded, and runs as many tasks at the same time as this machine has cores. With
  `--master spark://… | yarn | k8s://…` the driver runs on this machine and the tasks run on the cluster. With
  `--remote sc://…` both run on the server. `--remote local[N]` starts a server on this machine, which PySpark uses
  again in later commands. Unless Spark is embedded, tasks import this package from a zip (`zip_package`).
* Temporary files of the driver, and those of tasks on this machine, are in a folder of this process. No other user
  may read the folder, and it is removed when the process ends. If all tasks run on this machine, Spark's connections
  require a secret. Messages have addresses without tokens.
* A session is built in a thread of its own, except over Spark Connect. So it can start early. PySpark replaces the
  handler of Ctrl-C only on the main thread, so the handler stays.
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
from zipfile import ZIP_DEFLATED, ZipFile

from hearsay.pipeline.spark.failures import first_line, quiet_the_gateway
from hearsay.pipeline.spark.java import find_java, java_home, options_with
from hearsay.pipeline.spark.settings import (
    HEAP,
    SMALL_ROWS,
    SparkUnavailable,
    Where,
    address_without_secrets,
    cores,
    heap,
    settings_for,
    spark_home,
)
from hearsay.pipeline.spark.work_folder import made_work_folder
from hearsay.user_errors import pip_install

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SMALL = ("-XX:TieredStopAtLevel=1",)
"""JVM options for small analyses. In these, the JVM's second compiler takes more time than it saves."""
_LARGE = ("-XX:+UnlockDiagnosticVMOptions", "-XX:-AOTReplayTraining")
"""JVM options for large analyses. The cache of `java.py` also has profiles of a small analysis. Tasks that use these
would take 50 % longer."""
_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr", "-XX:-UsePerfData")
_LOGGING = Path(__file__).with_name("log4j2.properties")
_OWN_FILES = "spark.submit.pyFiles"
"""Setting of Spark with the Python files that tasks need. If the user sets it, the session does not send this package
to the tasks."""
_HERE = "127.0.0.1"
_LOOPBACK = (_HERE, "localhost")
_ON_LOOPBACK = {"spark.driver.host": _HERE, "spark.driver.bindAddress": _HERE}
_PORTS = {"sc": 15002, "spark": 7077}
_REACH_S = 5
_START_S = 30
_starting: dict[Where, Future[SparkSession]] = {}
_PACKAGE = Path(__file__).parents[2]


def require_spark(where: Where) -> None:
    """Raise `SparkUnavailable` if a session would fail for a reason that is known before its start.

    Such reasons are: PySpark or Java is missing, or no server listens at an address of `where`.
    """
    if find_spec("pyspark") is None:
        raise SparkUnavailable(f"PySpark is not installed; run {pip_install('spark')}")
    for address in filter(None, (where.remote, where.master)):
        _require_listener(address)
    if where.remote is None:
        find_java()


def start_ahead(where: Where, rows: int) -> None:
    """Begin to start an embedded session for work on about `rows` trace rows, and return at once.

    `spark_session` then opens this session, or raises the error of its start. If `where` is not embedded, nothing
    happens.
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
    """Open a session for work on about `rows` trace rows during a `with` block, and stop it afterwards.

    `say` gets messages about progress. A task occupies `cores_per_task` cores, except on a server. `modules` are
    files of Python and zips of packages that the tasks need in addition to this package. Raise `SparkUnavailable` if
    no session can start, or if Spark has ended before it is stopped.
    """
    require_spark(where)
    say(f"connecting to Spark at {where}" if where.remote else f"starting Spark ({where}, {find_java()})")
    session = _opened(where, rows, cores_per_task)
    try:
        with TemporaryDirectory(prefix="hearsay-package-") as work:
            sends_package = not where.is_embedded and _OWN_FILES not in dict(where.conf)
            for file in (*([zip_package(Path(work))] if sends_package else ()), *modules):
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
    """Set the options of Spark SQL in an open session for this number of rows. Options in `conf` override them."""
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
    """Return a message that Spark has ended, with advice, because an attempt without a change would end like this."""
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
        raise SparkUnavailable(f"no session of Spark could be opened ({where}): {first_line(error)}") from None


def _begun(settings: Mapping[str, str]) -> Future[SparkSession]:
    """Start a session in a thread, and return the future result of the thread."""
    made: Future[SparkSession] = Future()

    def make() -> None:
        try:
            from pyspark.sql import SparkSession

            quiet_the_gateway()
            made.set_result(SparkSession.builder.config(map=dict(settings)).getOrCreate())
        except BaseException as error:
            made.set_exception(error)

    Thread(target=make, name="spark-start", daemon=True).start()
    atexit.register(_end, made)
    return made


def _end(made: Future[SparkSession]) -> None:
    """Stop a session that no caller has stopped, so that it writes no more files.

    PySpark cannot cancel a start, so wait for one that is not complete, for at most `_START_S` seconds.
    """
    wait([made], _START_S)
    with suppress(Exception), warnings.catch_warnings(action="ignore"):
        made.result(0).stop()


def _settings_here(where: Where, rows: int, cores_per_task: int) -> dict[str, str]:
    """Return the settings of a session whose driver runs on this machine, and set the environment of its JVM."""
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
    return [*_QUIET, *size, *options_with(find_java()), f"-Djava.io.tmpdir={work}", *logging]


def _remote_session(where: Where, remote: str, rows: int) -> SparkSession:
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder.remote(remote)
    if remote.startswith("sc://"):
        session = builder.create()
    else:
        session = builder.config(map=_settings_of_kept_server(where)).getOrCreate()
    for name, value in {**settings_for(rows, embedded=False), **dict(where.conf)}.items():
        session.conf.set(name, value)
    session.range(1).collect()
    return session


def _settings_of_kept_server(where: Where) -> dict[str, str]:
    """Return settings for the Connect server of this machine, which PySpark starts once and uses again.

    The settings have an effect only in the command that starts the server.
    """
    _set_environment(on_loopback=True)
    settings = {"spark.driver.memory": heap(), "spark.authenticate": "true", "spark.ui.enabled": "false"}
    return {**_unless_set(settings | _ON_LOOPBACK), **dict(where.conf), "spark.local.connect.reuse": "true"}


def _set_environment(on_loopback: bool) -> None:
    """Set the environment variables with which PySpark starts a JVM. With `on_loopback`, also set Spark's IP address.

    `JAVA_HOME` is always replaced. The other variables keep the values that the user has set. Raise
    `SparkUnavailable` if the launcher of Java cannot be written.
    """
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
    """Return the folder for temporary files of this process and of its JVM. A process has only one JVM."""
    folder = made_work_folder()
    atexit.register(folder.remove)
    return folder.path


def _unless_set(settings: dict[str, str]) -> dict[str, str]:
    """Return the settings that the user's `spark-defaults.conf` lacks, because a session's settings override it."""
    try:
        lines = (_conf_folder() / "spark-defaults.conf").read_text(encoding="utf-8").splitlines()
    except OSError:
        return settings
    theirs = {re.split(r"[\s=:]", line.strip(), maxsplit=1)[0] for line in lines}
    return {name: value for name, value in settings.items() if name not in theirs}


def _conf_folder() -> Path:
    return Path(os.environ.get("SPARK_CONF_DIR") or spark_home() / "conf")


def _require_listener(address: str) -> None:
    """Raise `SparkUnavailable` if no server listens at any host of an address, after at most `_REACH_S` seconds each.

    Spark's own clients would try for many minutes. Addresses other than `sc://` and `spark://` are not checked.
    """
    parts = urlsplit(address)
    if parts.scheme not in _PORTS:
        return
    servers = [urlsplit(f"//{server}") for server in parts.netloc.split(",")]
    problem = "it names no server"
    for server in servers:
        try:
            socket.create_connection((server.hostname, server.port or _PORTS[parts.scheme]), _REACH_S).close()
            return
        except (OSError, ValueError) as error:
            problem = getattr(error, "strerror", None) or str(error)
    raise SparkUnavailable(f"no session at {address_without_secrets(address)}: {problem}")


def zip_package(folder: Path) -> Path:
    """Create the zip in `folder` from all Python and TOML files of the package, and return its path."""
    target = folder / "hearsay.zip"
    with ZipFile(target, "w", ZIP_DEFLATED) as archive:
        for file in sorted([*_PACKAGE.rglob("*.py"), *_PACKAGE.rglob("*.toml")]):
            archive.write(file, file.relative_to(_PACKAGE.parent))
    return target
