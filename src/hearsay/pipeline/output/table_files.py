"""Files that tasks write: aside first, so that a task that is repeated leaves one whole file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow.parquet

parquet: Any = pyarrow.parquet


WORK_PREFIX = ".metrics-"
"""How the names of work folders begin."""


def write_file(target: str, schema: Any, pieces: Iterable[Any]) -> None:
    """Parquet of these tables or batches."""
    _make_folder(Path(target).parent)
    fresh = f"{target}.{uuid4().hex}"
    try:
        with parquet.ParquetWriter(fresh, schema, compression="zstd") as writer:
            for piece in pieces:
                writer.write(piece)
        os.replace(fresh, target)
    finally:
        Path(fresh).unlink(missing_ok=True)


def _make_folder(folder: Path) -> None:
    """And those above it, but no work folder: where that is gone, the analysis was given up while a task went on."""
    missing: list[Path] = []
    while not folder.exists():
        if folder.name.startswith(WORK_PREFIX):
            raise FileNotFoundError(f"{folder}: gone")
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir(exist_ok=True)
