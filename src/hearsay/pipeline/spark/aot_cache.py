"""A file of the classes that a JVM loaded for an analysis, with which later JVMs start faster (JEP 483, 514).

    ~/.cache/hearsay/jvm/java-25.0.2-spark-4.3.0-DIGEST.aot

The JVM compares its class path, the times of its jars and its options with the file, and starts without the file if
they differ. DIGEST depends on the jars, so that after an installation `prepare` makes a new file.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path

from hearsay.pipeline.spark.java_home import Java, find_java
from hearsay.pipeline.spark.place import SparkUnavailable, spark_home
from hearsay.trace.language.cache_places import cache_places

FIRST_JAVA = 25
ROOM = 1 << 30
"""Free bytes on the disk that the preparation needs; the file takes a fifth of them."""
_MAX_FILES = 2


def options_with(java: Java) -> list[str]:
    """Return options for a JVM that starts with the file, if it exists."""
    file = kept_file(java)
    if file is None:
        return []
    with suppress(OSError):  # the file may belong to another user
        os.utime(file)
    return ["-Xlog:aot*=off:stderr", "-XX:AOTMode=auto", f"-XX:AOTCache={file}"]


def kept_file(java: Java) -> Path | None:
    """Return the file for this Java and this Spark, if it exists."""
    return next((file for place in cache_places() if (file := place / "jvm" / _name(java)).is_file()), None)


def file_to_make() -> Path:
    """Return the path of the file for this Java and this Spark. Raises `SparkUnavailable` if it cannot be made."""
    java = find_java()
    if int(java.major) < FIRST_JAVA:
        raise SparkUnavailable(f"{java} cannot store loaded classes; that needs Java {FIRST_JAVA} or later")
    for place in cache_places():
        folder = place / "jvm"
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK):
                break
    else:
        raise SparkUnavailable("no folder for caches can be written")
    free = shutil.disk_usage(folder).free
    if free < ROOM:
        raise SparkUnavailable(f"{folder}: {free >> 20} MiB free, {ROOM >> 20} needed")
    return folder / _name(java)


def keep(made: Path, file: Path) -> None:
    """Move the new file `made` to the path `file`, and remove all files except the last used `_MAX_FILES`."""
    made.replace(file)
    files = sorted(file.parent.glob("*.aot"), key=lambda each: each.stat().st_mtime, reverse=True)
    for old in files[_MAX_FILES:]:
        old.unlink(missing_ok=True)


def _name(java: Java) -> str:
    jars = sorted((jar.name, jar.stat().st_size, jar.stat().st_mtime_ns) for jar in spark_home().glob("jars/*.jar"))
    digest = blake2b(f"{java.home}\n{spark_home()}\n{jars}".encode(), digest_size=8).hexdigest()
    return f"java-{java.version}-spark-{version('pyspark')}-{digest}.aot"
