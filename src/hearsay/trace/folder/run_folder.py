"""The folder of a run: it is created before the run, filled during the run, and completed by its manifest.

Rules:

* A run that cannot be stored fails before it starts: `create` checks that the folder can be written.
* No file of another program is changed (`own_folders.py`). The folder must be new or empty. A folder with a run is
  accepted only if the caller wants to overwrite the run; then the files of the old run are removed.
* Only one process writes a run, from `create` to the manifest.
* Every file appears whole under its name, and the manifest is the last file.
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
    RunFolderError,
    WrittenTrace,
    load_manifest,
    this_program,
)
from hearsay.trace.folder.own_folders import LOCKS, MARKER, Holds, OwnFolder, claim, held_by, remove_written
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
"""Patterns of the files that are removed with a run, in addition to the manifest and its `other_files`."""
Integers: TypeAlias = Sequence[int] | NDArray[np.int64]


def dictionary_file(run: Path, dictionary: str) -> Path:
    """Return the path of a run's dictionary; `dictionary` is `peers`, `topics` or `messages`."""
    return run / DICTIONARIES / f"{dictionary}.parquet"


class RunFolder:
    """A run folder for writing."""

    def __init__(self, path: Path, own: OwnFolder | None = None) -> None:
        self.path = path
        self._own = own
        self._others: dict[str, OtherFile] = {}

    @classmethod
    def create(cls, path: Path, overwrite: bool = False) -> RunFolder:
        """Create and lock the folder `path`, which may exist if it is empty.

        With `overwrite` the folder may have a run, whose files are removed. Raises `RunFolderError`.
        """
        if not overwrite:
            _refuse_run(path)
        own = claim(path, Holds.RUN, inner=(TRACE_FOLDER, DICTIONARIES))
        with own.released_on_error():
            if own.found is not None:
                if not overwrite:
                    _refuse_run(path)
                _remove_run(path)
            (path / DICTIONARIES).mkdir(exist_ok=True)
            sync_directory(path)
        return cls(path, own)

    def start_again(self) -> None:
        """Remove the files that were written so far, so that the caller can write the run again."""
        _remove_run(self.path)
        (self.path / DICTIONARIES).mkdir(exist_ok=True)
        self._others.clear()

    def discard(self) -> None:
        """Remove the files of the run and the marker, and release the lock."""
        _remove_run(self.path)
        (self.path / MARKER).unlink()
        self._release()

    def _release(self) -> None:
        if self._own is not None:
            self._own.release()

    def write_text_atomic(self, name: str, text: str) -> None:
        """Write a text file. The manifest will name it. Characters that UTF-8 cannot encode are escaped."""
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
        self.write_table(f"{DICTIONARIES}/peers", {"peer": _integers(peer, 32), **texts})

    def write_topics(self, topic: Sequence[int], name: Sequence[str | None]) -> None:
        self.write_table(f"{DICTIONARIES}/topics", {"topic": _integers(topic, 32), "name": _texts(name)})

    def write_messages(
        self,
        message: Integers,
        topic: Integers,
        publisher: Integers,
        size: Integers,
        published_us: Integers,
        identifier: Sequence[str | None] | None = None,
    ) -> None:
        """Write the dictionary of messages, with null for -1.

        `identifier` has the message ids in hexadecimal, for messages of real networks; None if there are no ids.
        """
        columns = {
            "message": _integers(message, 64),
            "topic": _integers(topic, 32),
            "publisher": _integers(publisher, 32),
            "bytes": _integers(size, 64),
            "published_us": _integers(published_us, 64),
        }
        if identifier is not None:
            columns["id"] = _texts(identifier)
        self.write_table(f"{DICTIONARIES}/messages", columns)

    def write_table(self, name: str, columns: Mapping[str, Any]) -> None:
        """Write a small table as NAME.parquet. `columns` has an array for each column, by name. The manifest will
        name the file.
        """
        table = arrow.pa.table(dict(columns))
        self.write_batches(name, table.schema, table.to_batches())

    def write_batches(self, name: str, schema: Any, batches: Iterable[Any]) -> None:
        """Write a table that may be larger than memory as NAME.parquet. The manifest will name the file."""
        file_name = f"{name}.parquet"
        (self.path / file_name).parent.mkdir(exist_ok=True)
        written = write_durably(self.path / file_name, lambda file: arrow.write_batches(file, schema, batches))
        self._others[file_name] = OtherFile(file_name, *written)

    def write_manifest(
        self, trace: WrittenTrace, *, seed: int | None, complete: bool, source: str | None = None
    ) -> Manifest:
        """Write the manifest and release the lock. This is the last call for a run.

        `source` names the formats of the input of an import or a join; None for other runs.
        """
        others = tuple(self._others[name] for name in sorted(self._others))
        created_by = this_program() if source is None else {**this_program(), "source": source}
        manifest = Manifest(complete, seed, created_by, trace, others)
        write_durably(self.path / MANIFEST, manifest.to_json().encode())
        self._release()
        return manifest


def _integers(values: Integers, bits: int) -> Any:
    numbers = np.asarray(values, dtype=np.int64)
    return arrow.pa.array(numbers, type=arrow.pa.int32() if bits == 32 else arrow.pa.int64(), mask=numbers == NONE)


def _texts(values: Sequence[str | None]) -> Any:
    """Return an Arrow array of texts. UTF-8 cannot encode a lone surrogate, so it becomes an escape (`\\ud800`)."""
    clean = [None if value is None else value.encode("utf-8", "backslashreplace").decode() for value in values]
    return arrow.pa.array(clean, type=arrow.pa.string())


def remove_run(path: Path) -> None:
    """Remove the files of a run that this program wrote, and the folder if it has no other files."""
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
