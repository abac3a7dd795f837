"""The folder of a run: it is created early, filled by the writer, and sealed by its manifest.

Rules:

* A run that cannot be stored fails before it starts: `create` checks that the folder can be written.
* No file of another program is changed (`own_folders`): only an empty folder or one that already is a run folder is
  used, the latter only when asked to overwrite. Overwriting removes the files of the old run.
* One process writes a run, from `create` to the manifest.
* Every file appears whole under its name, the manifest last.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from glob import escape
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hearsay.trace.folder import arrow
from hearsay.trace.folder.durable import TEMPORARY_NAMES, sync_directory, write_durably
from hearsay.trace.folder.manifest import (
    MANIFEST,
    UNFINISHED,
    Manifest,
    OtherFile,
    WrittenTrace,
    load_manifest,
    this_program,
)
from hearsay.trace.folder.own_folders import (
    LOCKS,
    MARKER,
    Holds,
    OwnFolder,
    cannot_write,
    claim,
    held_by,
    remove_written,
)
from hearsay.trace.language.errors import RunFolderError
from hearsay.trace.language.schema import NONE, TRACE_FOLDER

DICTIONARIES = "dictionary"
_PART = f"part-{'[0-9]' * 5}.parquet"
WRITTEN = (
    f"{TRACE_FOLDER}/class=*/{_PART}",
    f"{TRACE_FOLDER}/class=*/{TEMPORARY_NAMES}",
    *(f"{DICTIONARIES}/{name}.parquet" for name in ("peers", "topics", "messages")),
    f"{DICTIONARIES}/{TEMPORARY_NAMES}",
    "scenario.toml",
    "summary.json",
    TEMPORARY_NAMES,
)
"""Patterns of the files that are removed with a run, in addition to the manifest and the files that it names."""

Integers: TypeAlias = Sequence[int] | NDArray[np.int64]


class RunFolder:
    """A run folder for writing."""

    def __init__(self, path: Path, own: OwnFolder | None = None) -> None:
        self.path = path
        self._own = own
        self._others: dict[str, OtherFile] = {}

    @classmethod
    def create(cls, path: Path, overwrite: bool = False) -> RunFolder:
        """Create the folder, or use an empty one; with `overwrite`, also one with a run, which is removed."""
        if not overwrite:
            _refuse_run(path)
        own = claim(path, Holds.RUN, inner=(TRACE_FOLDER, DICTIONARIES))
        try:
            if own.found is not None:
                if not overwrite:
                    _refuse_run(path)
                _remove_run(path)
            (path / DICTIONARIES).mkdir(exist_ok=True)
            sync_directory(path)
        except OSError as error:
            own.release()
            raise cannot_write(path, error) from None
        except RunFolderError:
            own.release()
            raise
        return cls(path, own)

    def start_again(self) -> None:
        """Remove the files written so far, to write the run again."""
        _remove_run(self.path)
        (self.path / DICTIONARIES).mkdir(exist_ok=True)
        self._others.clear()

    def discard(self) -> None:
        """Remove the files of the run and the marker, and release the lock; for a run that is not worth keeping."""
        _remove_run(self.path)
        (self.path / MARKER).unlink()
        self._release()

    def _release(self) -> None:
        if self._own is not None:
            self._own.release()

    def write_text_atomic(self, name: str, text: str) -> None:
        """Write a text file, which the manifest will name."""
        data = text.encode("utf-8", "backslashreplace")
        self._others[name] = OtherFile(name, *write_durably(self.path / name, data))

    def write_peers(
        self,
        peer: Sequence[int],
        name: Sequence[str | None],
        role: Sequence[str | None],
        region: Sequence[str | None],
        implementation: Sequence[str | None],
    ) -> None:
        columns = {"name": name, "role": role, "region": region, "implementation": implementation}
        texts = {key: _texts(values) for key, values in columns.items()}
        self._write_dictionary("peers", {"peer": _integers(peer, 32), **texts})

    def write_topics(self, topic: Sequence[int], name: Sequence[str | None]) -> None:
        self._write_dictionary("topics", {"topic": _integers(topic, 32), "name": _texts(name)})

    def write_messages(
        self,
        message: Integers,
        topic: Integers,
        publisher: Integers,
        size: Integers,
        published_us: Integers,
        identifier: Sequence[str | None] | None = None,
    ) -> None:
        """Write the dictionary of messages; -1 becomes null. Messages of real networks have a hexadecimal id."""
        columns = {
            "message": _integers(message, 64),
            "topic": _integers(topic, 32),
            "publisher": _integers(publisher, 32),
            "bytes": _integers(size, 64),
            "published_us": _integers(published_us, 64),
        }
        if identifier is not None:
            columns["id"] = _texts(identifier)
        self._write_dictionary("messages", columns)

    def write_table(self, name: str, columns: Mapping[str, Any]) -> None:
        """Write a small table, given as arrays by column, as NAME.parquet. The manifest will name it."""
        table = arrow.pa.table(dict(columns))
        self.write_batches(name, table.schema, table.to_batches())

    def write_batches(self, name: str, schema: Any, batches: Iterable[Any]) -> None:
        """Write a table that may exceed memory, as `write_table` does."""
        file_name = f"{name}.parquet"
        (self.path / file_name).parent.mkdir(exist_ok=True)
        written = write_durably(self.path / file_name, lambda file: arrow.write_batches(file, schema, batches))
        self._others[file_name] = OtherFile(file_name, *written)

    def write_manifest(
        self, trace: WrittenTrace, *, seed: int | None, complete: bool, source: str | None = None
    ) -> Manifest:
        """Write the manifest and release the lock; call this last.

        `source` names the program that recorded the events, if it is not this one.
        """
        others = tuple(self._others[name] for name in sorted(self._others))
        created_by = this_program() if source is None else {**this_program(), "source": source}
        manifest = Manifest(complete, seed, created_by, trace, others)
        write_durably(self.path / MANIFEST, manifest.to_json().encode())
        self._release()
        return manifest

    def _write_dictionary(self, name: str, columns: Mapping[str, Any]) -> None:
        self.write_table(f"{DICTIONARIES}/{name}", columns)


def _integers(values: Integers, bits: int) -> Any:
    numbers = np.asarray(values, dtype=np.int64)
    return arrow.pa.array(numbers, type=arrow.pa.int32() if bits == 32 else arrow.pa.int64(), mask=numbers == NONE)


def _texts(values: Sequence[str | None]) -> Any:
    """Return an Arrow array of texts. A lone surrogate, which UTF-8 cannot encode, becomes an escape (`\\ud800`)."""
    clean = [None if value is None else value.encode("utf-8", "backslashreplace").decode() for value in values]
    return arrow.pa.array(clean, type=arrow.pa.string())


def remove_run(path: Path) -> None:
    """Remove a run that this program wrote, and its folder unless the folder has other files."""
    _remove_run(path)  # the marker is removed last: a process that is killed here leaves a marked folder
    remove_written(path, (LOCKS, MARKER))
    if not any(path.iterdir()):
        path.rmdir()


def _refuse_run(path: Path) -> None:
    if held_by(path) is Holds.RUN:
        there = "already holds a run" if os.path.lexists(path / MANIFEST) else UNFINISHED
        raise RunFolderError(f"{path} {there}; choose another --out or remove it")


def _remove_run(path: Path) -> None:
    try:
        others = [escape(file.name) for file in load_manifest(path).others]
    except RunFolderError:
        others = []
    remove_written(path, (MANIFEST, *others, *WRITTEN))
