"""The small file that says what a folder of ours holds."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from stat import S_ISREG
from typing import Any

from hearsay.foreign_files import parse_json, read_bytes
from hearsay.trace.language.errors import RunFolderError

MARKER = ".hearsay-folder"
FORMAT = "hearsay-folder"
VERSION = 1
MARKER_OF_0_1 = ".hearsay-run"
"""Empty, and in run folders alone."""

UNFINISHED = "is an unfinished run (no manifest.json): it was cut off, or is still being written"
"""A folder in which a run was begun; its manifest comes last."""

_LARGEST_MARKER = 4096


class Holds(StrEnum):
    """What a folder of ours holds."""

    RUN = "run"
    SERIES = "series"
    TABLES = "tables"
    METRICS = "metrics"
    STREAM = "stream"
    WORK = "work"
    STUDY = "study"
    DEMO = "demo"


def marked(path: Path) -> Holds | None:
    """What the marker in this folder says that it holds."""
    marker = path / MARKER
    status = status_of(marker)
    if status is None or not S_ISREG(status.st_mode) or not 0 < status.st_size <= _LARGEST_MARKER:
        return None
    try:
        said: Any = parse_json(read_bytes(marker, _LARGEST_MARKER))
    except ValueError:
        return None
    if not isinstance(said, dict) or said.get("format") != FORMAT:  # pyright: ignore[reportUnknownMemberType]
        return None
    if said.get("version") != VERSION:  # pyright: ignore[reportUnknownMemberType]
        raise RunFolderError(f"{marker}: of another version than {VERSION}, the one understood here")
    holds: Any = said.get("holds")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return Holds(holds) if holds in list(Holds) else None


def is_marked_by_0_1(path: Path) -> bool:
    status = status_of(path / MARKER_OF_0_1)
    return status is not None and S_ISREG(status.st_mode) and not status.st_size


def is_of_a_run(path: Path) -> bool:
    """Whether a run was begun in this folder, be it finished or not."""
    try:
        return marked(path) is Holds.RUN or is_marked_by_0_1(path)
    except OSError:
        return False


def status_of(path: Path) -> os.stat_result | None:
    """Of what is there itself, be it a link."""
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
