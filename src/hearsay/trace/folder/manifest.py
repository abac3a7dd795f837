"""The marker of a folder of this program, the manifest of a run, and the error of a folder that cannot be used.

The marker says what a folder contains. The manifest lists the files of a run.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from dataclasses import fields as fields_of
from enum import StrEnum
from pathlib import Path, PurePosixPath
from stat import S_ISREG
from typing import Any, TypeVar, cast

from hearsay.foreign_files import parse_json, read_bytes
from hearsay.text import one_line
from hearsay.trace.language.schema import CLASSES, NONE
from hearsay.user_errors import Failure
from hearsay.version import __version__

MAX_BYTES = 16 << 20
"""Maximum size of a manifest in bytes. A manifest of 50,000 files is smaller."""
MARKER = ".hearsay-folder"
MARKER_FORMAT = "hearsay-folder"
MARKER_VERSION = 1
_LARGEST_MARKER = 4096
UNFINISHED = "is an unfinished run (no manifest.json): it was cut off, or is still being written"
"""The rest of an error message about a run folder without a manifest. The manifest is the last file of a run."""
MANIFEST = "manifest.json"
FORMAT = "hearsay-run"
VERSION = 1
_LARGEST_NUMBER = (1 << 63) - 1
_KINDS: dict[type, str] = {list: "list", str: "text", dict: "object", int: "whole number"}
_KEYS = {"name": "path", "trace_class": "class"}
"""The keys in the manifest of those fields of a file whose names differ from their keys."""


class RunFolderError(Failure):
    """The error of a folder that cannot be created, read or trusted, or of a name that a run does not have. The
    message is one line. It has the path of the folder or file, except in an error about a name."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


def read_object(file: Path) -> dict[str, Any]:
    """Return the JSON object in a file. Raises `RunFolderError` if the content is not a JSON object.

    Raises `OSError` if the file cannot be opened or is too large.
    """
    try:
        found: Any = parse_json(read_bytes(file, MAX_BYTES))
    except ValueError as error:
        raise RunFolderError(f"{file}: not JSON ({error})") from None
    if not isinstance(found, dict):
        raise RunFolderError(f"{file}: not a JSON object")
    return cast("dict[str, Any]", found)


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
    """Return the content of a folder according to its marker; None if the folder has no valid marker.

    Raises `RunFolderError` if the marker has another version, and `OSError` if it cannot be read.
    """
    marker = path / MARKER
    status = lstat_of(marker)
    if status is None or not S_ISREG(status.st_mode) or not 0 < status.st_size <= _LARGEST_MARKER:
        return None
    try:
        said = read_object(marker)
    except RunFolderError:
        return None
    if said.get("format") != MARKER_FORMAT:
        return None
    if said.get("version") != MARKER_VERSION:
        raise RunFolderError(f"{marker}: its version is not {MARKER_VERSION}, the only one that this program reads")
    return Holds(said["holds"]) if said.get("holds") in list(Holds) else None


def lstat_of(path: Path) -> os.stat_result | None:
    """Return the result of `lstat`, which does not follow a link; None if the path does not exist."""
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None


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
    """A file of a run without trace rows, such as `summary.json`. `name` is its path from the run folder."""

    name: str
    bytes: int
    sha256: str


_File = TypeVar("_File", TraceFile, OtherFile)


@dataclass(frozen=True, slots=True)
class WrittenTrace:
    """A description of written trace rows: their files, the number of rows and the trace hash."""

    files: tuple[TraceFile, ...]
    rows: int
    hash: str
    spanning_messages: tuple[int, ...] = ()
    """The numbers of the messages that have rows in more than one of these files."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of `manifest.json`."""

    complete: bool
    """False if the run was interrupted, or if a live node lost rows."""
    seed: int | None
    """The seed of a simulation; None for other runs."""
    created_by: Mapping[str, str]
    """Versions of this program and of Python; for an import or a join also `source`, the formats of its input."""
    trace: WrittenTrace
    others: tuple[OtherFile, ...]

    @property
    def row_problem(self) -> str | None:
        """Return an error message if the files of a complete run do not have the number of rows in `trace`;
        otherwise None."""
        total = sum(file.rows for file in self.trace.files)
        if not self.complete or total == self.trace.rows:
            return None
        return f"the files hold {total} rows, the manifest says {self.trace.rows}"

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
            "files": [_entry(file) for file in trace.files],
            "other_files": [_entry(file) for file in self.others],
        }
        return json.dumps(document, indent=2) + "\n"


def this_program() -> dict[str, str]:
    """Return the versions of this program and of Python, for `Manifest.created_by`."""
    return {"hearsay": __version__, "python": platform.python_version()}


def load_manifest(path: Path) -> Manifest:
    """Return the manifest of the run folder `path`. Raises `RunFolderError` if there is no readable manifest."""
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
    """Return the rest of an error message about `path`, which has no manifest."""
    if not path.exists():
        return "does not exist"
    if not path.is_dir():
        return "is not a folder"
    if any(path.glob(f"[0-9][0-9][0-9][0-9][0-9]*/{MANIFEST}")) and (path / "dictionary").is_dir():
        return (
            "is a node's trace that was not closed, because the node still runs or was killed: "
            f"`hearsay trace join {path} --out DIR` makes it a run; so does a node that continues it and is stopped"
        )
    with suppress(OSError):
        if marked(path) is Holds.RUN:
            return UNFINISHED
    return "is not a run folder: it has no manifest.json"


def _manifest_of(fields: dict[str, Any]) -> Manifest:
    trace = WrittenTrace(
        files=tuple(_file(TraceFile, entry) for entry in _field(fields, "files", list)),
        rows=_integer(fields, "trace_rows"),
        hash=_text(fields, "trace_hash"),
        spanning_messages=tuple(
            _in_range("spanning_messages", each) for each in _field(fields, "spanning_messages", list)
        ),
    )
    others = tuple(_file(OtherFile, entry) for entry in _field(fields, "other_files", list))
    if not isinstance(fields["complete"], bool):
        raise ValueError("'complete' must be true or false")
    seed = None if fields["seed"] is None else _in_range("seed", fields["seed"])
    programs = _field(fields, "created_by", dict)
    created_by = {name: _text(programs, name) for name in programs}
    return Manifest(fields["complete"], seed, created_by, trace, others)


def _file(kind: type[_File], entry: Any) -> _File:
    """Return the file that an entry of the manifest describes. Raises `KeyError`, `TypeError` or `ValueError`."""
    values: dict[str, Any] = {
        each.name: (_integer if each.type == "int" else _text)(entry, _KEYS.get(each.name, each.name))
        for each in fields_of(kind)
    }
    path = PurePosixPath(values["name"])
    if not path.parts or path.is_absolute() or ".." in path.parts or "\0" in values["name"]:
        raise ValueError(f"path {values['name']!r:.80} leaves the folder")
    if values.get("trace_class", CLASSES[0]) not in CLASSES:
        raise ValueError(f"unknown class {values['trace_class']!r:.80}")
    return kind(**values)


def _entry(file: TraceFile | OtherFile) -> dict[str, Any]:
    return {_KEYS.get(key, key): value for key, value in asdict(file).items()}


def _field(fields: Any, name: str, kind: type) -> Any:
    if not isinstance(fields, dict):
        raise TypeError("an entry is not an object")
    value: Any = cast("dict[str, Any]", fields)[name]
    if not isinstance(value, kind):
        raise TypeError(f"{name!r} must be of type {_KINDS[kind]}")
    return value


def _text(fields: Any, name: str) -> str:
    return _field(fields, name, str)


def _integer(fields: Any, name: str) -> int:
    return _in_range(name, _field(fields, name, int))


def _in_range(name: str, number: Any) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or not NONE <= number <= _LARGEST_NUMBER:
        raise ValueError(f"{name!r} must be a whole number from {NONE} to {_LARGEST_NUMBER}")
    return number
