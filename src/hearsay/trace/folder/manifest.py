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
from pathlib import Path, PurePosixPath
from typing import Any, cast

from hearsay.trace.folder.folder_marker import UNFINISHED, is_of_a_run
from hearsay.trace.folder.json_files import read_object
from hearsay.trace.language.errors import RunFolderError
from hearsay.trace.language.schema import CLASSES, NONE
from hearsay.version import __version__

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
    return {"hearsay": __version__, "python": platform.python_version()}


def load_manifest(path: Path) -> Manifest:
    """The manifest of the run folder `path`."""
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
        raise RunFolderError(f"{file}: {version} is not {VERSION}, the one understood here")
    try:
        return _manifest_of(fields)
    except KeyError as error:
        raise RunFolderError(f"{file}: a field is missing or wrong ({error} is missing)") from None
    except (TypeError, ValueError) as error:
        raise RunFolderError(f"{file}: a field is missing or wrong ({error})") from None


def _what_is_there(path: Path) -> str:
    """Instead of a manifest. A live node seals its trace when it closes; before, there are pieces and names."""
    if not path.exists():
        return "does not exist"
    if not path.is_dir():
        return "is not a folder"
    if any(path.glob(f"[0-9][0-9][0-9][0-9][0-9]*/{MANIFEST}")) and (path / "dictionary").is_dir():
        return (
            "is a node's trace that was not closed, as the node runs still or was killed: "
            f"`hearsay trace join {path} --out DIR` makes a run of it, or a node that goes on with it and ends"
        )
    return UNFINISHED if is_of_a_run(path) else "is not a run folder: it has no manifest.json"


def _manifest_of(fields: dict[str, Any]) -> Manifest:
    trace = WrittenTrace(
        files=tuple(_trace_file(entry) for entry in _list(fields, "files")),
        rows=_whole(fields, "trace_rows"),
        hash=_text(fields, "trace_hash"),
        spanning_messages=tuple(_in_range("spanning_messages", each) for each in _list(fields, "spanning_messages")),
        max_rows_per_file=_whole(fields, "max_rows_per_file"),
    )
    others = tuple(
        OtherFile(_inside(_text(entry, "path")), _whole(entry, "bytes"), _text(entry, "sha256"))
        for entry in _list(fields, "other_files")
    )
    if not isinstance(fields["complete"], bool):
        raise ValueError("complete is neither true nor false")
    seed = None if fields["seed"] is None else _in_range("seed", fields["seed"])
    return Manifest(fields["complete"], seed, _texts(fields, "created_by"), trace, others)


def _trace_file(entry: Any) -> TraceFile:
    if _text(entry, "class") not in CLASSES:
        raise ValueError(f"class {entry['class']!r:.80}")
    return TraceFile(
        name=_inside(_text(entry, "path")),
        trace_class=entry["class"],
        rows=_whole(entry, "rows"),
        bytes=_whole(entry, "bytes"),
        min_time_us=_whole(entry, "min_time_us"),
        max_time_us=_whole(entry, "max_time_us"),
        sha256=_text(entry, "sha256"),
    )


def _field(fields: Any, name: str, kind: type) -> Any:
    if not isinstance(fields, dict):
        raise TypeError("an entry is no object")
    value: Any = cast("dict[str, Any]", fields)[name]
    if not isinstance(value, kind):
        raise TypeError(f"{name} is no {_KINDS[kind]}")
    return value


def _list(fields: Any, name: str) -> list[Any]:
    return _field(fields, name, list)


def _text(fields: Any, name: str) -> str:
    return _field(fields, name, str)


def _texts(fields: Any, name: str) -> dict[str, str]:
    found = _field(fields, name, dict)
    return {key: _text(found, key) for key in found}


def _whole(fields: Any, name: str) -> int:
    return _in_range(name, _field(fields, name, int))


def _in_range(name: str, number: Any) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or not NONE <= number <= _LARGEST:
        raise ValueError(f"{name} is no whole number from {NONE} to {_LARGEST}")
    return number


def _inside(name: str) -> str:
    path = PurePosixPath(name)
    if not path.parts or path.is_absolute() or ".." in path.parts or "\0" in name:
        raise ValueError(f"path {name!r:.80} leaves the folder")
    return name


def _renamed(entry: dict[str, Any]) -> dict[str, Any]:
    keys = {"name": "path", "trace_class": "class"}
    return {keys.get(key, key): value for key, value in entry.items()}
