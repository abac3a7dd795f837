"""Which files have been taken, in which batch of the stream, and what was noted of them.

Rules:

* Batch N is the folder `batches/N`, made whole under another name first. When the stream plays N again after a crash,
  it replaces what was there, and everything that came after it.
* A message belongs to the file in which it was first seen, its *owner*. A message whose window ended before the
  latest time seen in its class is final; its rows in files of later batches are late. They count all the same, and
  the owner's figures are computed again.
* Everything here can be made again from the trace. What cannot be read is thrown away with the stream's checkpoint.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hearsay.pipeline.kernels.columns import ColumnArrays
from hearsay.pipeline.stream.file_notes import FileNotes, Share, found_in, read_notes
from hearsay.trace.language.schema import NONE, Column, TraceEvent

Ints = NDArray[Any]

_NOTES = "files.json"
_ARRAYS = "arrays.npz"


class LedgerBroken(Exception):
    """What is stored does not fit together: the stream must start anew."""


class Ledger:
    """The files of one run, batch by batch."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._batches: dict[int, list[FileNotes]] = {}
        self._messages: dict[str, Ints] = {}
        self._first_us: dict[str, Ints] = {}
        self._found: dict[str, list[Ints]] = {"topics": [], "nodes": []}
        self._load()

    @property
    def files(self) -> list[FileNotes]:
        """All files taken, in order."""
        return [notes for number in sorted(self._batches) for notes in self._batches[number]]

    @property
    def batches(self) -> set[int]:
        return set(self._batches)

    def found(self, what: str) -> list[int]:
        """The numbers of `topics` or `nodes` seen so far."""
        pieces = self._found[what]
        numbers: list[int] = np.unique(np.concatenate(pieces)).tolist() if pieces else []
        return numbers

    def messages_of(self, owner: str) -> Ints:
        """The messages that were first seen in this file, ascending."""
        return self._messages[owner]

    def arrays_of(self, owner: str) -> tuple[Path, str]:
        """Where a task finds `messages_of(owner)`: a file, and the name in it."""
        for number, batch in self._batches.items():
            for position, notes in enumerate(batch):
                if notes.name == owner:
                    return self._folder / str(number) / _ARRAYS, f"messages-{position}"
        raise KeyError(owner)

    def take(self, number: int, run: Path, names: Sequence[str], window_us: int) -> None:
        """Read and note the files of a batch."""
        if number in self._batches:
            for later in [batch for batch in self._batches if batch >= number]:
                shutil.rmtree(self._folder / str(later))
            self._load()
        taken = {notes.name for notes in self.files}
        watermark = max((notes.max_time_us for notes in self.files if notes.trace_class == "message"), default=NONE)
        batch: list[FileNotes] = []
        arrays: dict[str, Ints] = {}
        for name in sorted(set(names) - taken):
            notes, columns = read_notes(run, name)
            found = found_in(notes.trace_class, columns)
            if notes.trace_class == "message":
                notes = self._shared_out(notes, columns, watermark - window_us)
                found = {"messages": self._messages[name], "first_us": self._first_us[name]}
            arrays.update({f"{what}-{len(batch)}": values for what, values in found.items()})
            batch.append(notes)
        self._store(number, batch, arrays)
        self._load_batch(number)

    def _shared_out(self, notes: FileNotes, columns: ColumnArrays, final_before_us: int) -> FileNotes:
        """Notes with the shares of the owners of all messages; the new messages become the file's own."""
        messages = columns[Column.MESSAGE]
        owners = list(self._messages)
        unique, index = np.unique(messages, return_inverse=True)
        owner_of = np.full(len(unique), len(owners))
        final = np.zeros(len(unique), dtype=bool)
        for place, owner in enumerate(owners):
            known = self._messages[owner]
            position = np.minimum(np.searchsorted(known, unique), max(len(known) - 1, 0))
            mine = known[position] == unique if len(known) else np.zeros(len(unique), dtype=bool)
            owner_of[mine] = place
            final[mine] = self._first_us[owner][position[mine]] < final_before_us
        owner_of[unique == NONE] = NONE
        new = owner_of == len(owners)
        times = columns[Column.TIME_US]
        first = np.full(len(unique), np.iinfo(np.int64).max)
        np.minimum.at(first, index, times)
        self._messages[notes.name], self._first_us[notes.name] = unique[new], first[new]
        owners.append(notes.name)
        arrivals = times + np.maximum(columns[Column.DELAY_US], 0)
        published = columns[Column.EVENT] == TraceEvent.PUBLISH
        shares: list[Share] = []
        places: list[int] = np.unique(owner_of[owner_of != NONE]).tolist()
        for place in places:
            rows = owner_of[index] == place
            publish_times = times[rows & published]
            shares.append(
                Share(
                    owners[place],
                    int(publish_times.min()) if len(publish_times) else None,
                    int(publish_times.max()) if len(publish_times) else None,
                    int(arrivals[rows].max()),
                    int(np.count_nonzero(rows & final[index])),
                )
            )
        return replace(notes, shares=tuple(shares))

    def _store(self, number: int, batch: list[FileNotes], arrays: dict[str, Ints]) -> None:
        fresh = self._folder / f".{number}"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        (fresh / _NOTES).write_text(json.dumps([asdict(notes) for notes in batch], indent=1), encoding="utf-8")
        np.savez(fresh / _ARRAYS, allow_pickle=False, **arrays)
        fresh.rename(self._folder / str(number))

    def _load(self) -> None:
        for memory in (self._batches, self._messages, self._first_us):
            memory.clear()
        self._found = {"topics": [], "nodes": []}
        if not self._folder.exists():
            return
        try:
            for number in sorted(int(each.name) for each in self._folder.iterdir() if each.name.isdecimal()):
                self._load_batch(number)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise LedgerBroken(f"{self._folder}: {error}") from None
        if sorted(self._batches) != list(range(len(self._batches))):
            raise LedgerBroken(f"{self._folder}: a batch is missing")

    def _load_batch(self, number: int) -> None:
        folder = self._folder / str(number)
        stored: list[dict[str, Any]] = json.loads((folder / _NOTES).read_text(encoding="utf-8"))
        self._batches[number] = [
            FileNotes(shares=tuple(Share(**share) for share in fields.pop("shares")), **fields) for fields in stored
        ]
        with np.load(folder / _ARRAYS, allow_pickle=False) as arrays:
            for position, notes in enumerate(self._batches[number]):
                if notes.trace_class == "message":
                    self._messages[notes.name] = arrays[f"messages-{position}"]
                    self._first_us[notes.name] = arrays[f"first_us-{position}"]
                for what, pieces in self._found.items():
                    if f"{what}-{position}" in arrays:
                        pieces.append(arrays[f"{what}-{position}"])
