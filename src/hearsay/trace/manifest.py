"""The manifest of a run: what was written, with sizes and checksums.

Rules:

* It is written last, so a folder with a manifest holds everything the manifest names.
* It holds no date, host or path from outside: equal runs have equal manifests.
* `complete` is false for a run that was interrupted; its files are whole nevertheless.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version as version_of
from pathlib import Path, PurePosixPath
from typing import Any, cast

from hearsay.trace.errors import RunFolderError
from hearsay.trace.schema import CLASSES

MANIFEST = "manifest.json"
FORMAT = "hearsay-run"
VERSION = 1


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
    """A dictionary or a text."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class WrittenTrace:
    """What a `TraceWriter` left behind."""

    files: tuple[TraceFile, ...]
    rows: int
    hash: str
    spanning_messages: tuple[int, ...]
    max_rows_per_file: int


def nothing_written(trace_hash: str) -> WrittenTrace:
    """For a run whose rows were hashed and not kept."""
    return WrittenTrace((), 0, trace_hash, (), 0)


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
            "max_rows_per_file": trace.max_rows_per_file,
            "spanning_messages": list(trace.spanning_messages),
            "files": [_renamed(asdict(file)) for file in trace.files],
            "other_files": [_renamed(asdict(file)) for file in self.others],
        }
        return json.dumps(document, indent=2) + "\n"


def this_program() -> dict[str, str]:
    """The versions to name in `created_by`."""
    return {"hearsay": version_of("hearsay"), "python": platform.python_version()}


def load_manifest(path: Path) -> Manifest:
    """The manifest of the run folder `path`."""
    file = path / MANIFEST
    try:
        document: Any = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        what = "is not a run folder: it has no manifest.json" if path.is_dir() else "is not a folder"
        raise RunFolderError(f"{path} {what if path.exists() else 'does not exist'}") from None
    except OSError as error:
        raise RunFolderError(f"{file}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise RunFolderError(f"{file}: not JSON ({error})") from error
    if not isinstance(document, dict):
        raise RunFolderError(f"{file}: not the manifest of a hearsay run")
    fields = cast("dict[str, Any]", document)
    if fields.get("format") != FORMAT:
        raise RunFolderError(f"{file}: not the manifest of a hearsay run")
    if fields.get("version") != VERSION:
        raise RunFolderError(f"{file}: version {fields.get('version')} is not {VERSION}, the one understood here")
    try:
        return _manifest_of(fields)
    except (KeyError, TypeError, ValueError) as error:
        raise RunFolderError(f"{file}: a field is missing or wrong ({error})") from error


def _manifest_of(fields: dict[str, Any]) -> Manifest:
    trace = WrittenTrace(
        files=tuple(_trace_file(entry) for entry in fields["files"]),
        rows=int(fields["trace_rows"]),
        hash=str(fields["trace_hash"]),
        spanning_messages=tuple(int(message) for message in fields["spanning_messages"]),
        max_rows_per_file=int(fields["max_rows_per_file"]),
    )
    others = tuple(
        OtherFile(_inside(entry["path"]), int(entry["bytes"]), str(entry["sha256"]))
        for entry in fields["other_files"]
    )
    return Manifest(bool(fields["complete"]), fields["seed"], dict(fields["created_by"]), trace, others)


def _trace_file(entry: dict[str, Any]) -> TraceFile:
    if entry["class"] not in CLASSES:
        raise ValueError(f"class {entry['class']!r}")
    return TraceFile(
        name=_inside(entry["path"]),
        trace_class=entry["class"],
        rows=int(entry["rows"]),
        bytes=int(entry["bytes"]),
        min_time_us=int(entry["min_time_us"]),
        max_time_us=int(entry["max_time_us"]),
        sha256=str(entry["sha256"]),
    )


def _inside(name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"path {name!r} leaves the folder")
    return name


def _renamed(entry: dict[str, Any]) -> dict[str, Any]:
    keys = {"name": "path", "trace_class": "class"}
    return {keys.get(key, key): value for key, value in entry.items()}
