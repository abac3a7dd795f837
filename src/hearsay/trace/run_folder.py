"""The folder of a run: made early, filled by the writer, sealed by its manifest.

Rules:

* A run that cannot be stored fails before it starts: `create` proves that the folder can be written.
* Nothing of anybody else is touched: only an empty folder or one that already is a run folder (it carries the
  marker file) is used, the latter only when asked to overwrite. Overwriting removes what the old run's writer made.
* Every file appears whole under its name, the manifest last.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hearsay.trace import arrow
from hearsay.trace.durable import TEMPORARY_SUFFIX, DurableFile, sync_directory, write_durably
from hearsay.trace.errors import RunFolderError
from hearsay.trace.manifest import MANIFEST, Manifest, OtherFile, WrittenTrace, load_manifest, this_program
from hearsay.trace.message_rows import SPILL_FOLDER
from hearsay.trace.schema import NONE, TRACE_FOLDER

MARKER = ".hearsay-run"
DICTIONARIES = "dictionary"

Integers: TypeAlias = Sequence[int] | NDArray[np.int64]


class RunFolder:
    """A run folder to write into."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._others: dict[str, OtherFile] = {}

    @classmethod
    def create(cls, path: Path, overwrite: bool = False) -> RunFolder:
        """Make the folder, or take an empty one (with `overwrite`, one that holds a run)."""
        try:
            path.mkdir(parents=True, exist_ok=True)
            entries = {entry.name for entry in path.iterdir()}
            if entries and not entries & {MARKER, MANIFEST}:
                raise RunFolderError(f"{path} is not empty and not a run folder; choose another --out")
            if entries and not overwrite:
                raise RunFolderError(f"{path} already holds a run; choose another --out or remove it")
            if entries:
                _remove_run(path)
            (path / MARKER).write_bytes(b"")
            (path / DICTIONARIES).mkdir()
            sync_directory(path)
        except FileExistsError as error:
            raise RunFolderError(f"{error.filename}: is in the way of the run folder {path}") from error
        except OSError as error:
            raise RunFolderError(f"{path}: cannot write a run here ({error.strerror})") from error
        return cls(path)

    def discard(self) -> None:
        """Take back what `create` made, of a run that came to nothing."""
        _remove_run(self.path)
        (self.path / MARKER).unlink()

    def write_text_atomic(self, name: str, text: str) -> None:
        """Write a text file; the manifest will name it."""
        data = text.encode("utf-8", "backslashreplace")

        def fill(file: DurableFile) -> None:
            file.write(data)

        self._others[name] = OtherFile(name, *write_durably(self.path / name, fill))

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
        identifier: Sequence[str] | None = None,
    ) -> None:
        """-1 is written as null. Messages of real networks have an identifier of their own, in hexadecimal."""
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
        """Write a small table, arrays by column, as NAME.parquet; the manifest will name it."""
        table = arrow.pa.table(dict(columns))
        file_name = f"{name}.parquet"

        def fill(file: DurableFile) -> None:
            arrow.write_table(file, table)

        (self.path / file_name).parent.mkdir(exist_ok=True)
        self._others[file_name] = OtherFile(file_name, *write_durably(self.path / file_name, fill))

    def write_manifest(
        self, trace: WrittenTrace, *, seed: int | None, complete: bool, source: str | None = None
    ) -> Manifest:
        """Seal the run: call it last. `source` says where the events are from, if not from this program."""
        others = tuple(self._others[name] for name in sorted(self._others))
        created_by = this_program() if source is None else {**this_program(), "source": source}
        manifest = Manifest(complete, seed, created_by, trace, others)
        data = manifest.to_json().encode()

        def fill(file: DurableFile) -> None:
            file.write(data)

        write_durably(self.path / MANIFEST, fill)
        return manifest

    def _write_dictionary(self, name: str, columns: Mapping[str, Any]) -> None:
        self.write_table(f"{DICTIONARIES}/{name}", columns)


def _integers(values: Integers, bits: int) -> Any:
    numbers = np.asarray(values, dtype=np.int64)
    return arrow.pa.array(numbers, type=arrow.pa.int32() if bits == 32 else arrow.pa.int64(), mask=numbers == NONE)


def _texts(values: Sequence[str | None]) -> Any:
    """Names come from outside: a lone surrogate, which UTF-8 cannot hold, is kept as its escape."""
    clean = [None if value is None else value.encode("utf-8", "backslashreplace").decode() for value in values]
    return arrow.pa.array(clean, type=arrow.pa.string())


def _remove_run(path: Path) -> None:
    with suppress(RunFolderError):
        for file in load_manifest(path).others:
            (path / file.name).unlink(missing_ok=True)
    (path / MANIFEST).unlink(missing_ok=True)
    for folder in (TRACE_FOLDER, DICTIONARIES, SPILL_FOLDER):
        with suppress(FileNotFoundError):
            shutil.rmtree(path / folder)
    for leftover in path.glob(f".*{TEMPORARY_SUFFIX}"):
        leftover.unlink()
