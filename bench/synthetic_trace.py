"""Write a run folder of any size within seconds. Its rows come from a random generator, not from a protocol.

Each message reaches all nodes in six copies, with log-normal delays, and a number of IHAVEs and IWANTs. Nodes join at
the start, and graft and prune during the whole run. The values are random, but the format is that of a simulation:
the same classes, files and widths.

    python bench/synthetic_trace.py FOLDER EVENTS [SEED]
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from hearsay.core.language.actions import Via
from hearsay.core.language.rpc import PartKind
from hearsay.trace.folder.run_folder import RunFolder
from hearsay.trace.folder.writer import TraceWriter
from hearsay.trace.language.schema import NONE, WIDTH, Column, TraceEvent

NODES = 1000
COPIES = 6
GOSSIP = 600
TOPICS = 4
INTERVAL_US = 100_000
MESSAGE_BYTES = 1100
MESH = 200
ROWS_PER_MESSAGE = 1 + (NODES - 1) + COPIES * (NODES - 1) + GOSSIP + MESH
BLOCK = 64


def evenly(message: int) -> int:
    """Return the topic of a message; topics have equal numbers of messages."""
    return message % TOPICS


def crowded(message: int) -> int:
    """Return the topic of a message; nine in ten messages are in the first topic."""
    return 0 if message % 10 else 1 + message // 10 % (TOPICS - 1)


def write_run(
    path: Path,
    events: int,
    seed: int = 1,
    topic_of: Callable[[int], int] = evenly,
    file_bytes: int = 64_000_000,
) -> Path:
    """Write a run folder of about `events` rows, and return its path."""
    random = np.random.default_rng(seed)
    folder = RunFolder.create(path)
    messages = max(1, (events - 2 * NODES) // ROWS_PER_MESSAGE)
    end_us = messages * INTERVAL_US + 10_000_000
    with TraceWriter(path, target_file_bytes=file_bytes) as writer:
        writer.add(_starts())
        for first in range(0, messages, BLOCK):
            numbers = range(first, min(first + BLOCK, messages))
            writer.add(np.concatenate([_one_message(random, number, topic_of(number)) for number in numbers]))
        numbers = np.arange(messages)
        folder.write_text_atomic("scenario.toml", "linger_s = 10\n")
        folder.write_peers(
            range(NODES), [str(node) for node in range(NODES)], ["gossipsub"] * NODES, [None] * NODES,
            ["synthetic"] * NODES,
        )  # fmt: skip
        folder.write_topics(range(TOPICS), [f"topic-{topic}" for topic in range(TOPICS)])
        folder.write_messages(
            numbers, np.array([topic_of(number) for number in range(messages)]), numbers % NODES,
            np.full(messages, 1024), numbers * INTERVAL_US + 1_000_000,
        )  # fmt: skip
        summary = {"router": "gossipsub", "simulated_seconds": end_us / 1_000_000}
        folder.write_text_atomic("summary.json", json.dumps(summary))
        folder.write_manifest(writer.close(), seed=seed, complete=True)
    return path


def cached_run(events: int) -> Path:
    """Return the folder of a run of about `events` rows in the user's cache; write the run if it is missing."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "hearsay" / "bench"
    folder = cache / f"synthetic-{events}"
    if not (folder / "manifest.json").exists():
        print(f"making {events:,} events in {folder}", file=sys.stderr, flush=True)
        write_run(folder, events)
    return folder


def _rows(rows_drawn: int, **columns: np.ndarray | int) -> np.ndarray:
    rows = np.full((rows_drawn, WIDTH), NONE, dtype=np.int64)
    for name, values in columns.items():
        rows[:, Column[name.upper()]] = values
    return rows


def _starts() -> np.ndarray:
    nodes = np.arange(NODES)
    ups = _rows(NODES, time_us=0, event=TraceEvent.NODE_UP, peer=nodes)
    joins = [_rows(NODES, time_us=0, event=TraceEvent.JOIN, peer=nodes, topic=topic) for topic in range(TOPICS)]
    return np.concatenate([ups, *joins])


def _one_message(random: np.random.Generator, number: int, topic: int) -> np.ndarray:
    publisher, start = number % NODES, number * INTERVAL_US + 1_000_000
    others = np.delete(np.arange(NODES), publisher)
    receiver = np.repeat(others, COPIES)
    flight = random.integers(10_000, 150_000, len(receiver))
    sent = start + (random.lognormal(12.0, 0.5, len(receiver))).astype(np.int64)
    sender = (receiver + random.integers(1, NODES, len(receiver))) % NODES
    arrival = (sent + flight).reshape(-1, COPIES)
    first = arrival.argmin(axis=1)
    chosen = np.arange(len(others)) * COPIES + first
    hops = random.integers(1, 8, len(others))
    about = {"topic": topic, "message": number}
    copies = _rows(
        len(receiver), time_us=sent, event=TraceEvent.SEND_RPC, kind=PartKind.PUBLISH, peer=sender, remote=receiver,
        bytes=MESSAGE_BYTES, count=1, delay_us=flight, **about,
    )  # fmt: skip
    deliveries = _rows(
        len(others), time_us=arrival.min(axis=1), event=TraceEvent.DELIVER, peer=others, remote=sender[chosen],
        hops=hops, via=np.where(random.random(len(others)) < 0.02, Via.IWANT, Via.EAGER), delay_us=flight[chosen],
        **about,
    )  # fmt: skip
    published = _rows(1, time_us=start, event=TraceEvent.PUBLISH, peer=publisher, bytes=1024, hops=0, **about)
    left, right = random.integers(0, NODES, GOSSIP), random.integers(1, NODES, GOSSIP)
    gossip = _rows(
        GOSSIP, time_us=start + random.integers(0, 1_000_000, GOSSIP), event=TraceEvent.SEND_RPC,
        kind=np.where(random.random(GOSSIP) < 0.9, PartKind.IHAVE, PartKind.IWANT), peer=left,
        remote=(left + right) % NODES, topic=topic, bytes=50, count=random.integers(1, 5, GOSSIP),
        delay_us=random.integers(10_000, 150_000, GOSSIP),
    )  # fmt: skip
    ends, other = random.integers(0, NODES, MESH), random.integers(1, NODES, MESH)
    mesh = _rows(
        MESH, time_us=start + random.integers(0, INTERVAL_US, MESH),
        event=np.where(np.arange(MESH) % 5 < 3, TraceEvent.GRAFT, TraceEvent.PRUNE), peer=ends,
        remote=(ends + other) % NODES, topic=topic,
    )  # fmt: skip
    return np.concatenate([published, deliveries, copies, gossip, mesh])


if __name__ == "__main__":
    print(write_run(Path(sys.argv[1]), int(sys.argv[2]), *map(int, sys.argv[3:])))
