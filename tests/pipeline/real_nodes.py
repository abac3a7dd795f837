"""Three `hearsay node` processes on loopback that trace, and their traces combined into one run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from running_node import Running

from hearsay.trace.folder.run_folder import RunFolder
from hearsay.trace.folder.writer import TraceWriter
from hearsay.trace.language.schema import NONE, Column
from hearsay.trace.reader import load_names, read_rows


@contextmanager
def three_nodes(folder: Path) -> Iterator[tuple[Running, ...]]:
    """Start Ada, then Bob and Cleo, which connect to Ada; each traces into a folder of its name."""
    ada = Running("--subscribe", "chat", "--trace", folder / "ada")
    nodes = [ada]
    try:
        for name in ("bob", "cleo"):
            nodes.append(Running("--subscribe", "chat", "--connect", ada.address, "--trace", folder / name))
        ada.until("status", peers=2, mesh={"chat": 2})
        yield tuple(nodes)
    finally:
        for node in reversed(nodes):
            if node.process.poll() is None:
                node.interrupt()


def join_traces(traces: list[Path], target: Path) -> Path:
    """Write the rows of several nodes into one run folder, with one number for each peer and topic."""
    peers: dict[str, int] = {}
    topics: dict[str, int] = {}
    pieces = []
    for trace in traces:
        rows, names = read_rows(trace), load_names(trace)
        for known, numbers, columns in (
            (names.peers, peers, (Column.PEER, Column.REMOTE)),
            (names.topics, topics, (Column.TOPIC,)),
        ):
            fresh = np.array([numbers.setdefault(known[number], len(numbers)) for number in sorted(known)] or [0])
            for column in columns:
                rows[:, column] = np.where(rows[:, column] == NONE, NONE, fresh[rows[:, column]])
        pieces.append(rows)
    folder = RunFolder.create(target)
    with TraceWriter(target) as writer:
        writer.add(np.concatenate(pieces))
        written = writer.close()
    nothing = [None] * len(peers)
    folder.write_peers(range(len(peers)), list(peers), nothing, nothing, nothing)
    folder.write_topics(range(len(topics)), list(topics))
    folder.write_manifest(written, seed=None, complete=True)
    return target
