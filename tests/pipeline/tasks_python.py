"""A Python for tasks of a cluster, with the libraries but not this program, and what they leave in its home."""

from __future__ import annotations

import sys
from pathlib import Path

import pyspark

from hearsay.trace.language.cache_places import programs_in


def python_of_tasks(folder: Path) -> Path:
    """Its home is in this folder; it keeps bytecode, as Python does unless it is told not to."""
    python = folder / "python"
    libraries = Path(pyspark.__file__).parents[1]
    home = folder / "home"
    python.write_text(
        "#!/bin/sh\nunset PYTHONDONTWRITEBYTECODE\n"
        f'HOME={home} XDG_CACHE_HOME={home}/.cache PYTHONPATH="$PYTHONPATH:{libraries}" '
        f'exec {sys.executable} -S "$@"\n'
    )
    python.chmod(0o755)
    return python


def kept_as_in_an_installation(home: Path) -> dict[Path, int]:
    """The program lies there once, with bytecode and machine code, if any; nothing else does. Files and stamps."""
    (program,) = programs_in(home / ".cache" / "hearsay").iterdir()
    files = [file for file in home.rglob("*") if file.is_file()]
    assert any(file.suffix == ".pyc" for file in files)
    assert all(file.is_relative_to(program) for file in files)
    return {file: file.stat().st_mtime_ns for file in files}
