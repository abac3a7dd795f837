"""What the JVM knows before it starts: Spark's classes, loaded, linked and profiled once, in a file that it maps.

    ~/.cache/hearsay/jvm/java-25.0.2-spark-4.3.0-DIGEST.aot

Rules:

* The file fits one Java, one Spark and one way to start them, which its name says; others are not looked at. The JVM
  compares the jars itself, and starts without the file where it finds any difference.
* Nothing waits for it and nothing fails without it: it is made by `hearsay spark prepare` alone, in two steps, of
  which the first watches a session at work. It appears under its name when it is whole.
* At most `_MOST_FILES` are kept, the ones used last. What a killed maker left goes when the next file is made.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from time import time

from hearsay.pipeline.spark.jvm import Java, full_version, java_options, spark_home, write_logging
from hearsay.trace.language.cache_places import cache_places

FIRST_JAVA = 25
"""The first that keeps loaded classes in such a file, of those that run Spark."""
ROOM = 1 << 30
"""What making it takes on the disk meanwhile; what is kept is a fifth of that."""
_MOST_FILES = 2
_CREATE_S = 600
_LONGEST_S = 3600
"""Nobody makes a file for longer."""
UNFINISHED = ".new-"
"""How the names of folders begin in which files are made."""
_SUFFIX = ".aot"


class NotPrepared(Exception):
    """The file was not made; the message says why."""


def options_with(java: Java) -> tuple[str, ...]:
    """Options of a JVM that starts with the file, if there is one."""
    file = kept_file(java)
    if file is None:
        return ()
    with suppress(OSError):  # it may belong to somebody else
        os.utime(file)
    return "-XX:AOTMode=auto", f"-XX:AOTCache={file}", "-Xlog:aot*=off:stderr"


def recording_options(configuration: Path) -> tuple[str, ...]:
    """Options of a JVM that notes what it loads, until it ends."""
    return "-XX:AOTMode=record", f"-XX:AOTConfiguration={configuration}"


def kept_file(java: Java) -> Path | None:
    """Where the file is."""
    if java.version < FIRST_JAVA:
        return None
    return next((file for place in cache_places() if (file := place / "jvm" / _name(java)).is_file()), None)


def folder_to_write() -> Path:
    """Where files are kept; raises `NotPrepared` if nothing can be written there."""
    problem = "no home, and nothing among the temporary files"
    for place in cache_places():
        folder = place / "jvm"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(dir=folder):
                pass
        except OSError as error:
            problem = f"{folder}: {error.strerror}"
            continue
        free = shutil.disk_usage(folder).free
        if free < ROOM:
            raise NotPrepared(f"{folder}: {free >> 20} MiB free, {ROOM >> 20} needed")
        return folder
    raise NotPrepared(problem)


def create(java: Java, heap: str, configuration: Path, folder: Path) -> Path:
    """Make the file of what a JVM has noted."""
    fresh = configuration.with_suffix(_SUFFIX)
    command = java_options(java, heap, write_logging(configuration.parent))
    command[1:1] = ["-XX:AOTMode=create", f"-XX:AOTConfiguration={configuration}", f"-XX:AOTCache={fresh}"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_CREATE_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotPrepared(str(error)) from None
    if done.returncode or not fresh.is_file():
        said = (done.stderr or done.stdout).strip().splitlines()
        raise NotPrepared(f"the JVM ended with code {done.returncode}" + (f": {said[-1][:200]}" if said else ""))
    kept = folder / _name(java)
    os.replace(fresh, kept)
    _forget_all_but_the_last(folder)
    return kept


def _forget_all_but_the_last(folder: Path) -> None:
    for left in folder.glob(f"{UNFINISHED}*"):
        with suppress(OSError):
            if time() - left.stat().st_mtime > _LONGEST_S:
                shutil.rmtree(left)
    files = sorted(folder.glob(f"*{_SUFFIX}"), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in files[_MOST_FILES:]:
        with suppress(OSError):
            file.unlink()


def _name(java: Java) -> str:
    seen = blake2b(digest_size=8)
    for part in _inputs(java):
        seen.update(f"{len(part)} {part}".encode())
    return f"java-{full_version(java.home) or java.version}-spark-{version('pyspark')}-{seen.hexdigest()}{_SUFFIX}"


def _inputs(java: Java) -> Sequence[str]:
    return str(java.home), str(spark_home()), *java_options(java, "", Path())
