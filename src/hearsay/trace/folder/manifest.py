"""The marker and the manifest of a folder: its kind, its files, their sizes and checksums."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath
from stat import S_ISREG
from typing import Any, cast

from hearsay.foreign_files import parse_json, read_bytes
from hearsay.trace.language.errors import RunFolderError
from hearsay.trace.language.schema import CLASSES, NONE
from hearsay.version import __version__

MAX_BYTES = 16 << 20
"""Maximum size of a manifest. One with 50,000 files is smaller."""


def read_object(file: Path) -> dict[str, Any]:
    """Return the JSON object in this file. Raises `OSError` if it cannot be opened."""
    try:
        found: Any = parse_json(read_bytes(file, MAX_BYTES))
    except ValueError as error:
        raise RunFolderError(f"{file}: not JSON ({error})") from None
    if not isinstance(found, dict):
        raise RunFolderError(f"{file}: not a JSON object")
    return cast("dict[str, Any]", found)


MARKER = ".hearsay-folder"
MARKER_FORMAT = "hearsay-folder"
MARKER_VERSION = 1

UNFINISHED = "is an unfinished run (no manifest.json): it was cut off, or is still being written"
"""Describes a folder with a run that has no manifest yet: the manifest is written last."""

_LARGEST_MARKER = 4096


class Holds(StrEnum):
    """The content of a folder of this program."""

    RUN = "run"
    SERIES = "series"
    TABLES = "tables"
    METRICS = "metrics"
    WORK = "work"
    STUDY = "study"
    DEMO = "demo"


def marked(path: Path) -> Holds | None:
    """Return the content of a folder by its marker; None without a valid one. Raises for one of another version."""
    marker = path / MARKER
    status = status_of(marker)
    if status is None or not S_ISREG(status.st_mode) or not 0 < status.st_size <= _LARGEST_MARKER:
        return None
    try:
        said: Any = parse_json(read_bytes(marker, _LARGEST_MARKER))
    except ValueError:
        return None
    if not isinstance(said, dict) or said.get("format") != MARKER_FORMAT:  # pyright: ignore[reportUnknownMemberType]
        return None
    if said.get("version") != MARKER_VERSION:  # pyright: ignore[reportUnknownMemberType]
        raise RunFolderError(f"{marker}: its version is not {MARKER_VERSION}, the only one that this program reads")
    holds: Any = said.get("holds")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return Holds(holds) if holds in list(Holds) else None


def is_of_a_run(path: Path) -> bool:
    """Return whether a run was begun in this folder, finished or not."""
    try:
        return marked(path) is Holds.RUN
    except OSError:
        return False


def status_of(path: Path) -> os.stat_result | None:
    """Return the status of a path itself, without following a link; None if it does not exist."""
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None


MANIFEST = "manifest.json"
FORMAT = "hearsay-run"
VERSION = 1
_LARGEST = (1 << 63) - 1
_KINDS: dict[type, str] = {list: "list", str: "text", dict: "object", int: "whole number"}


@dataclass(frozen=True, slots=True)
class TraceFile:
    """A file of trace rows. `name` is its path from the run folder, with slashes."""

    name: str
    trace_class: str
    rows: int
    bytes: int
    min_time_us: int
    max_time_us: int
    sha256: str


@dataclass(frozen=True, slots=True)
class OtherFile:
    """A dictionary or a text file."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class WrittenTrace:
    """The result of a `TraceWriter`."""

    files: tuple[TraceFile, ...]
    rows: int
    hash: str
    spanning_messages: tuple[int, ...] = ()
    """Messages with rows in more than one file."""


@dataclass(frozen=True, slots=True)
class Manifest:
    complete: bool
    seed: int | None
    created_by: Mapping[str, str]
    trace: WrittenTrace
    others: tuple[OtherFile, ...]

    def to_json(self) -> str:
        trace = self.trace
        document = {
            "format": FORMAT,
            "version": VERSION,
            "complete": self.complete,
            "seed": self.seed,
            "created_by": dict(self.created_by),
            "trace_rows": trace.rows,
            "trace_hash": trace.hash,
            "max_rows_per_file": max((file.rows for file in trace.files), default=0),
            "spanning_messages": list(trace.spanning_messages),
            "files": [_renamed(asdict(file)) for file in trace.files],
            "other_files": [_renamed(asdict(file)) for file in self.others],
        }
        return json.dumps(document, indent=2) + "\n"


def this_program() -> dict[str, str]:
    """Return the versions for `created_by`."""
    return {"hearsay": __version__, "python": platform.python_version()}


def load_manifest(path: Path) -> Manifest:
    """Return the manifest of the run folder `path`. Raises `RunFolderError` without one."""
    file = path / MANIFEST
    try:
        fields = read_object(file)
    except (FileNotFoundError, NotADirectoryError):
        raise RunFolderError(f"{path} {_what_is_there(path)}") from None
    except OSError as error:
        raise RunFolderError(f"{file}: cannot be read ({error.strerror})") from error
    if fields.get("format") != FORMAT:
        raise RunFolderError(f"{file}: not the manifest of a hearsay run")
    if fields.get("version") != VERSION:
        version = f"version {fields.get('version')!r:.40}"
        raise RunFolderError(f"{file}: {version} is not {VERSION}, the only one that this program reads")
    try:
        return _manifest_of(fields)
    except KeyError as error:
        raise RunFolderError(f"{file}: a field is missing or wrong ({error} is missing)") from None
    except (TypeError, ValueError) as error:
        raise RunFolderError(f"{file}: a field is missing or wrong ({error})") from None


def _what_is_there(path: Path) -> str:
    """Describe a path without a manifest. A live node writes its manifest only when it closes."""
    if not path.exists():
        return "does not exist"
    if not path.is_dir():
        return "is not a folder"
    if any(path.glob(f"[0-9][0-9][0-9][0-9][0-9]*/{MANIFEST}")) and (path / "dictionary").is_dir():
        return (
            "is a node's trace that was not closed, because the node still runs or was killed: "
            f"`hearsay trace join {path} --out DIR` makes a run of it, or a node that continues it and is closed"
        )
    return UNFINISHED if is_of_a_run(path) else "is not a run folder: it has no manifest.json"


def _manifest_of(fields: dict[str, Any]) -> Manifest:
    trace = WrittenTrace(
        files=tuple(_trace_file(entry) for entry in _field(fields, "files", list)),
        rows=_whole(fields, "trace_rows"),
        hash=_field(fields, "trace_hash", str),
        spanning_messages=tuple(
            _in_range("spanning_messages", each) for each in _field(fields, "spanning_messages", list)
        ),
    )
    others = tuple(
        OtherFile(_inside(_field(entry, "path", str)), _whole(entry, "bytes"), _field(entry, "sha256", str))
        for entry in _field(fields, "other_files", list)
    )
    if not isinstance(fields["complete"], bool):
        raise ValueError("complete is neither true nor false")
    seed = None if fields["seed"] is None else _in_range("seed", fields["seed"])
    return Manifest(fields["complete"], seed, _texts(fields, "created_by"), trace, others)


def _trace_file(entry: Any) -> TraceFile:
    if _field(entry, "class", str) not in CLASSES:
        raise ValueError(f"unknown class {entry['class']!r:.80}")
    return TraceFile(
        name=_inside(_field(entry, "path", str)),
        trace_class=entry["class"],
        rows=_whole(entry, "rows"),
        bytes=_whole(entry, "bytes"),
        min_time_us=_whole(entry, "min_time_us"),
        max_time_us=_whole(entry, "max_time_us"),
        sha256=_field(entry, "sha256", str),
    )


def _field(fields: Any, name: str, kind: type) -> Any:
    if not isinstance(fields, dict):
        raise TypeError("an entry is not an object")
    value: Any = cast("dict[str, Any]", fields)[name]
    if not isinstance(value, kind):
        raise TypeError(f"{name} is not of type {_KINDS[kind]}")
    return value


def _texts(fields: Any, name: str) -> dict[str, str]:
    found = _field(fields, name, dict)
    return {key: _field(found, key, str) for key in found}


def _whole(fields: Any, name: str) -> int:
    return _in_range(name, _field(fields, name, int))


def _in_range(name: str, number: Any) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or not NONE <= number <= _LARGEST:
        raise ValueError(f"{name} is not a whole number from {NONE} to {_LARGEST}")
    return number


def _inside(name: str) -> str:
    path = PurePosixPath(name)
    if not path.parts or path.is_absolute() or ".." in path.parts or "\0" in name:
        raise ValueError(f"path {name!r:.80} leaves the folder")
    return name


def _renamed(entry: dict[str, Any]) -> dict[str, Any]:
    keys = {"name": "path", "trace_class": "class"}
    return {keys.get(key, key): value for key, value in entry.items()}
