"""JSON of a run folder, which may come from anywhere: what cannot be read is one error with the file's name."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from hearsay.foreign_files import parse_json, read_bytes
from hearsay.trace.language.errors import RunFolderError

MAX_BYTES = 16 << 20
"""A manifest with 50,000 files is shorter."""


def read_object(file: Path) -> dict[str, Any]:
    """The object in this file. OSError if it cannot be opened."""
    try:
        found: Any = parse_json(read_bytes(file, MAX_BYTES))
    except ValueError as error:
        raise RunFolderError(f"{file}: not JSON ({error})") from None
    if not isinstance(found, dict):
        raise RunFolderError(f"{file}: not a JSON object")
    return cast("dict[str, Any]", found)
