"""Files that tasks write: aside first, so that a task that is repeated leaves one whole file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow.parquet

parquet: Any = pyarrow.parquet


def write_file(target: str, schema: Any, pieces: Iterable[Any]) -> None:
    """Parquet of these tables or batches."""
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    fresh = f"{target}.{uuid4().hex}"
    try:
        with parquet.ParquetWriter(fresh, schema, compression="zstd") as writer:
            for piece in pieces:
                writer.write(piece)
        os.replace(fresh, target)
    finally:
        Path(fresh).unlink(missing_ok=True)
