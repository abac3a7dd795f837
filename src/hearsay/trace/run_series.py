"""A run written bit by bit by one who may be killed at any time: run folders `00000`, `00001`, … in one folder.

Rules:

* Each of them is sealed for itself, and dictionaries beside them name all peers and topics so far: what is lost with
  the writer is what it had not written.
* `seal` makes the whole a run folder like any other, by a manifest that names the files of all. Messages that lie in
  several are declared as spanning.
* A writer that comes back goes on: it takes the seal away, and what its predecessor left unsealed.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from hearsay.trace.arrow import message_column, open_trace_file
from hearsay.trace.digest import hash_of_parts
from hearsay.trace.manifest import MANIFEST, WrittenTrace, load_manifest
from hearsay.trace.names import Names, load_names
from hearsay.trace.run_folder import MARKER, RunFolder
from hearsay.trace.schema import NONE


class RunSeries:
    """The folder of a series, to write into."""

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.path = path
        (path / MANIFEST).unlink(missing_ok=True)
        for folder in numbered_folders(path):
            if (folder / MARKER).exists() and not (folder / MANIFEST).exists():
                shutil.rmtree(folder)
        self._next = max((int(folder.name) for folder in numbered_folders(path)), default=-1) + 1

    def names(self) -> Names:
        """What the dictionaries have named so far."""
        return load_names(self.path)

    def next_folder(self) -> RunFolder:
        folder = RunFolder.create(self.path / f"{self._next:05d}")
        self._next += 1
        return folder

    def write_names(self, peers: Sequence[str], topics: Sequence[str], agent: str) -> None:
        """The dictionaries of the whole."""
        write_names(RunFolder(self.path), peers, topics, agent)

    def seal(self, peers: Sequence[str], topics: Sequence[str], agent: str) -> None:
        """Make the whole a run folder."""
        whole = RunFolder(self.path)
        write_names(whole, peers, topics, agent)
        parts = [(folder.name, load_manifest(folder).trace) for folder in numbered_folders(self.path)]
        files = [replace(file, name=f"{name}/{file.name}") for name, part in parts for file in part.files]
        messages = [
            np.unique(message_column(open_trace_file(self.path / file.name)))
            for file in files
            if file.trace_class == "message"
        ]
        present, times = np.unique(np.concatenate(messages or [np.empty(0, dtype=np.int64)]), return_counts=True)
        spanning = present[(times > 1) & (present != NONE)].tolist()
        rows = sum(part.rows for _, part in parts)
        most = max((part.max_rows_per_file for _, part in parts), default=0)
        trace_hash = hash_of_parts([part.hash for _, part in parts])
        whole.write_manifest(
            WrittenTrace(tuple(files), rows, trace_hash, tuple(spanning), most), seed=None, complete=True
        )


def numbered_folders(path: Path) -> list[Path]:
    """The run folders of a series, in order."""
    folders = [folder for folder in path.iterdir() if folder.name.isdecimal() and folder.is_dir()]
    return sorted(folders, key=lambda folder: int(folder.name))


def write_names(folder: RunFolder, peers: Sequence[str], topics: Sequence[str], agent: str) -> None:
    """Dictionaries of peers and topics by number; of peer 0 the implementation is known."""
    nothing: list[str | None] = [None] * len(peers)
    folder.write_peers(range(len(peers)), peers, nothing, nothing, [agent, *nothing[1:]])
    folder.write_topics(range(len(topics)), topics)
