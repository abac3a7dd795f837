"""JSON of a run folder, which may come from anywhere: what cannot be read is one error with the file's name."""

from __future__ import annotations

import json
from math import isfinite
from pathlib import Path
from typing import Any, cast

from hearsay.trace.language.errors import RunFolderError

LARGEST_BYTES = 256 << 20


def read_object(file: Path) -> dict[str, Any]:
    """The object in this file. OSError if it cannot be opened."""
    if file.stat().st_size > LARGEST_BYTES:
        raise RunFolderError(f"{file}: larger than {LARGEST_BYTES >> 20} MiB")
    try:
        found: Any = json.loads(file.read_bytes(), parse_float=_finite, parse_constant=_finite)
    except RecursionError:
        raise RunFolderError(f"{file}: not JSON (nested too deeply)") from None
    except ValueError as error:
        raise RunFolderError(f"{file}: not JSON ({error})") from None
    if not isinstance(found, dict):
        raise RunFolderError(f"{file}: not a JSON object")
    return cast("dict[str, Any]", found)


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text} is no number that can be reckoned with")
    return number
