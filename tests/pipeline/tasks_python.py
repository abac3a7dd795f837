"""A Python for tasks of a cluster, with pyspark and pyarrow but without hearsay."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow
import pyspark


def write_task_python(folder: Path) -> Path:
    """Write a Python launcher for tasks into a folder; return its path. The tasks' home is in that folder, too."""
    python = folder / "python"
    libraries = ":".join(str(Path(package.__file__).parents[1]) for package in (pyspark, pyarrow))
    home = folder / "home"
    python.write_text(
        "#!/bin/sh\n"
        f'HOME={home} XDG_CACHE_HOME={home}/.cache PYTHONPATH="$PYTHONPATH:{libraries}" '
        f'exec {sys.executable} -S "$@"\n'
    )
    python.chmod(0o755)
    return python
