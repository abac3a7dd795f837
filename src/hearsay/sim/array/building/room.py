"""Room for what a run makes: events, RPCs, entries of short lists, rows and figures."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hearsay.sim.array.machine.memory import filled, lines_at_most, zeros
from hearsay.sim.array.run import loop
from hearsay.sim.array.travel import send_ring
from hearsay.sim.array.world import layout as at
from hearsay.sim.array.world import near
from hearsay.sim.array.world.layout import Arrays
from hearsay.sim.array.world.payload import ARENA_BITS
from hearsay.sim.array.world.queue import CHUNK, DIVISIONS, NO_BUCKET

MEASURED_US = 1 << 21
_BUCKETS = 1024
_WORD_BYTES = 8
_LINK_BYTES = 4
_MOST_ENTRIES = 1 << 31
"""Of short lists: headers of nodes name them with 32 bits."""


def set_room(arrays: Arrays, threads: int) -> None:
    """Room is taken from the system only where it is touched, so there is plenty of it."""
    w = arrays.world
    w[at.MEASURED] = MEASURED_US
    w[at.BUCKETS] = _BUCKETS
    nodes = int(w[at.NODES])
    slots_used = int(w[at.SLOTS_USED])
    events = (1 << 20) + 8 * slots_used + 64 * nodes
    chunks = lines_at_most(events // CHUNK, CHUNK * (2 * _WORD_BYTES + _LINK_BYTES)) // threads * threads
    arrays["queued"] = zeros((chunks * CHUNK, 2), np.int64)
    at_once = lines_at_most(events // 2, 2 * (2 * _WORD_BYTES + _LINK_BYTES))
    arrays["sorted_events"] = zeros((2, at_once, 2), np.int64)
    arrays["sorted_links"] = zeros((2, at_once if w[at.HAS_LINKS] else 1), np.int32)
    if w[at.HAS_LINKS]:
        arrays["queued_links"] = zeros((chunks * CHUNK,), np.int32)
    arrays["chunk_next"] = zeros((chunks,), np.int32)
    rings = _BUCKETS + DIVISIONS
    arrays["heads"] = filled((threads, rings), np.int32, -1)
    arrays["tails"] = filled((threads, rings), np.int32, -1)
    arrays["fills"] = filled((threads, rings), np.int32, CHUNK)
    arrays["far"] = zeros((threads, lines_at_most(events // 4, 4 * _WORD_BYTES), 4), np.int64)
    arrays["near"] = zeros((threads, lines_at_most(max(1 << 16, events // 8), 4 * _WORD_BYTES), 4), np.int64)
    arrays["block_starts"] = zeros((2, int(w[at.BLOCKS]) + 1), np.int64)
    arrays["node_counts"] = zeros((threads, (1 << int(w[at.BLOCK_BITS])) + 1), np.int64)
    words = nodes * 64 + slots_used * 12  # at the start every link carries a hello, of one part mostly
    arena_chunks = lines_at_most(64 + (words >> ARENA_BITS), _WORD_BYTES << ARENA_BITS) * threads
    arena_chunks = min(arena_chunks, near.TOPIC_PART >> ARENA_BITS) // threads * threads
    arrays["arena"] = zeros((arena_chunks << ARENA_BITS,), np.int64)
    arrays["outbox"] = zeros((threads, lines_at_most(1 << 22, 4 * _WORD_BYTES), 4), np.int64)
    arrays["pending"] = zeros((threads, arena_chunks), np.int32)
    entries = min(lines_at_most((1 << 20) + 16 * nodes, 4 * _WORD_BYTES), _MOST_ENTRIES)
    arrays["pool"] = zeros((threads, entries, 4), np.int64)
    rows = lines_at_most((1 << 22) + 16 * nodes, 13 * _WORD_BYTES) if w[at.TRACING] else 1
    arrays["rows"] = zeros((threads, rows, 13), np.int64)
    arrays["sums"] = zeros((threads, 8), np.uint64)
    arrays["counts"] = zeros((threads, at.COUNTERS), np.int64)
    arrays["latency_counts"] = zeros((threads, MEASURED_US), np.int64)
    arrays["latencies_seen"] = zeros((threads, 1 << 12), np.int64)
    latencies = lines_at_most(2 * loop.LATENCIES_AT_ONCE + 16 * nodes, _WORD_BYTES)
    arrays["long_latencies"] = zeros((threads, latencies), np.int64)
    arrays["leaving"] = zeros((threads, send_ring.ROOM, 4), np.int64)
    arrays["control"] = _control(threads, chunks, arena_chunks)


def _control(threads: int, chunks: int, arena_chunks: int) -> NDArray[np.int64]:
    table = np.zeros((threads, at.CONTROL), dtype=np.int64)
    for thread in range(threads):
        line = table[thread]
        line[at.CHUNK_FREE] = line[at.POOL_FREE] = line[at.ARENA_FREE] = -1
        line[at.CHUNK_FRESH] = thread * chunks // threads
        line[at.CHUNK_END] = (thread + 1) * chunks // threads
        line[at.ARENA_FRESH] = thread * arena_chunks // threads
        line[at.ARENA_END] = (thread + 1) * arena_chunks // threads
        line[at.ARENA_CHUNK] = -1
        line[at.FAR_FIRST] = NO_BUCKET
    return table
