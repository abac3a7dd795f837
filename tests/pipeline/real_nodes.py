"""Three `hearsay node` processes on loopback that trace, and what their traces are as one run."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from hearsay.trace.language.schema import NONE, Column
from hearsay.trace.read.reader import read_rows
from hearsay.trace.read.show import load_names
from hearsay.trace.write.run_folder import RunFolder
from hearsay.trace.write.writer import TraceWriter

HEARSAY = Path(sys.executable).with_name("hearsay")
QUICK = ("--set", "first_heartbeat_ms=10", "--set", "heartbeat_interval_ms=100")


class Node:
    """A node in a process of its own."""

    def __init__(self, *arguments: object) -> None:
        command = [str(HEARSAY), "node", "--json", *QUICK, *map(str, arguments)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        self.address = self.until("listening")["address"]

    def until(self, event: str, **values: object) -> dict:
        for line in self.process.stdout:
            found = json.loads(line)
            if found["event"] == event and all(found[key] == value for key, value in values.items()):
                return found
        raise AssertionError(f"the node ended: {self.process.stderr.read()}")

    def say(self, text: str) -> None:
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()

    def close(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=30)


@contextmanager
def three_nodes(folder: Path) -> Iterator[tuple[Node, ...]]:
    """Ada, to whom Bob and Cleo connect; each traces into a folder of its name."""
    ada = Node("--subscribe", "chat", "--trace", folder / "ada")
    nodes = [ada]
    try:
        for name in ("bob", "cleo"):
            nodes.append(Node("--subscribe", "chat", "--connect", ada.address, "--trace", folder / name))
        ada.until("status", peers=2, mesh={"chat": 2})
        yield tuple(nodes)
    finally:
        for node in reversed(nodes):
            if node.process.poll() is None:
                node.close()


def as_one_run(traces: list[Path], target: Path) -> Path:
    """The rows of several nodes in one folder, with one number for each peer and topic."""
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
