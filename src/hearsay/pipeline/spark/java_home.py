"""A `JAVA_HOME` with which Spark's own start scripts run on the packaged JDK.

    os.environ["JAVA_HOME"] = str(hearsay.pipeline.java_home())
    spark = SparkSession.builder.getOrCreate()

Spark's scripts ask for the module `jdk.incubator.vector`, which the packaged JDK does not have, and which Spark does
without. A launcher of three lines in the user's cache leaves that flag out.
"""

from __future__ import annotations

import os
import shlex
import tempfile
from contextlib import suppress
from pathlib import Path

from hearsay.pipeline.spark.jvm import find_java
from hearsay.trace.language.cache_places import cache_places, require_own_folder

_LAUNCHER = """#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def java_home() -> Path:
    """Return the home of the Java that `hearsay` uses, as Spark's scripts can use it.

    Raises `NoJava` if there is none, and `OSError` if no cache folder can be written.
    """
    java = find_java()
    if not java.packaged:
        return java.home
    problem = OSError("no folder for caches can be written")
    for place in cache_places():
        try:
            return _with_launcher(place / "jvm" / "home", _LAUNCHER.format(java=shlex.quote(str(java.program))))
        except OSError as error:
            problem = error
    raise problem


def _with_launcher(home: Path, text: str) -> Path:
    """Return a home whose `bin/java` is this script; it appears whole, under its name."""
    folder = home / "bin"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    require_own_folder(folder)
    launcher = folder / "java"
    with suppress(FileNotFoundError):
        if launcher.read_text(encoding="utf-8") == text:
            return home
    handle, fresh = tempfile.mkstemp(dir=folder)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    Path(fresh).chmod(0o700)
    Path(fresh).replace(launcher)
    return home
