"""Names (peers, topics, messages) of one unit of work, numbered in the order of their appearance."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from hearsay.ingest.decoding.event_decoder import DecodedRows, rows_needed, tell_peers
from hearsay.ingest.decoding.protobuf_fields import SPAN_BITS, Data, IdTable, Numbers, number_names, place_all
from hearsay.libp2p.names.errors import EncodingError
from hearsay.libp2p.names.peer_id import from_base58, to_base58
from hearsay.trace.folder.arrow import pa
from hearsay.trace.language.schema import Column, TraceEvent

_SHA256, _IDENTITY = 0x12, 0x00
_LONGEST_TEXT = 400
"""Base58 takes time quadratic in the length. 257 bytes, the most that are written so, are 352 letters."""


def peer_name(peer: bytes) -> str:
    """The text of a peer id."""
    is_multihash = len(peer) >= 2 and peer[0] in (_SHA256, _IDENTITY) and peer[1] == len(peer) - 2
    return to_base58(peer) if is_multihash else peer.hex()


def peer_of_name(text: str) -> bytes:
    """ValueError if the text is not base58, or longer than any peer id."""
    if len(text) > _LONGEST_TEXT:
        raise ValueError(f"{text[:40]!r}… of {len(text)} characters is not a peer id")
    try:
        return from_base58(text)
    except EncodingError:
        raise ValueError(f"{text!r} is not a peer id") from None


_ALL_BITS = 0xFFFFFFFFFFFFFFFF
_SEED = int.from_bytes(os.urandom(8), "little")
_FIRST_NAMES = 1024
NO_TIME = int(np.iinfo(np.int64).max)


class Identifiers:
    """Peers, topics, messages and reasons of a unit, and how many events each peer has."""

    def __init__(self, hash_mask: int = _ALL_BITS) -> None:
        self.peers = _new_table(hash_mask)
        self.topics = _new_table(hash_mask)
        self.messages = _new_table(hash_mask)
        self.reasons = _new_table(hash_mask)
        self.events_of_peer = np.zeros((_FIRST_NAMES, len(TraceEvent)), dtype=np.int64)
        self.first_ns = NO_TIME
        self.events = 0

    def make_room(self, length: int) -> None:
        """Make room for what messages of this length together can hold."""
        names = rows_needed(length)
        self.peers = _with_room(self.peers, names, length)
        self.topics = _with_room(self.topics, names, length)
        self.messages = _with_room(self.messages, names, length)
        self.reasons = _with_room(self.reasons, names, length)
        if len(self.events_of_peer) < len(self.peers.hashes):
            grown = np.zeros((len(self.peers.hashes), len(TraceEvent)), dtype=np.int64)
            grown[: len(self.events_of_peer)] = self.events_of_peer
            self.events_of_peer = grown

    def number(self, data: Data, decoded: DecodedRows) -> None:
        """Put numbers in the place of spans."""
        rows, (filled, events) = decoded.rows, decoded.filled.tolist()
        number_names(self.peers, data, decoded.events[:, 0], events)
        number_names(self.peers, data, rows[:, Column.REMOTE], filled)
        number_names(self.topics, data, rows[:, Column.TOPIC], filled)
        number_names(self.messages, data, rows[:, Column.MESSAGE], filled)
        number_names(self.reasons, data, rows[:, Column.REASON], filled)
        self.first_ns = min(self.first_ns, int(tell_peers(decoded, self.events_of_peer)))
        self.events += events

    def number_peers(self, names: list[bytes]) -> Numbers:
        self.peers, numbers = _numbered(self.peers, names)
        if len(self.events_of_peer) < len(self.peers.hashes):
            self.make_room(0)
        return numbers

    def number_topics(self, names: list[bytes]) -> Numbers:
        self.topics, numbers = _numbered(self.topics, names)
        return numbers

    def number_messages(self, names: list[bytes]) -> Numbers:
        self.messages, numbers = _numbered(self.messages, names)
        return numbers

    def number_reasons(self, names: list[bytes]) -> Numbers:
        self.reasons, numbers = _numbered(self.reasons, names)
        return numbers

    def count_events(self, peers: Numbers, events: Numbers, times: Numbers) -> None:
        """Count events that did not come through `number`; negative ones are of no kind."""
        counted = events >= 0
        np.add.at(self.events_of_peer, (peers[counted], events[counted]), 1)
        self.first_ns = min(self.first_ns, int(times.min()))
        self.events += len(events)

    def names(self, table: IdTable) -> Any:
        """The names of a table as an Arrow array of bytes, by number."""
        used = int(table.used[0])
        offsets = pa.py_buffer(table.starts[: used + 1].copy())
        data = pa.py_buffer(table.store[: int(table.starts[used])].copy())
        return pa.LargeBinaryArray.from_buffers(pa.large_binary(), used, [None, offsets, data])


def _new_table(hash_mask: int) -> IdTable:
    return IdTable(
        np.full(4 * _FIRST_NAMES, -1, dtype=np.int32),
        np.empty(_FIRST_NAMES, dtype=np.uint64),
        np.zeros(_FIRST_NAMES + 1, dtype=np.int64),
        np.empty(64 * _FIRST_NAMES, dtype=np.uint8),
        np.zeros(1, dtype=np.int64),
        np.array([_SEED, hash_mask], dtype=np.uint64),
    )


def _numbered(table: IdTable, names: list[bytes]) -> tuple[IdTable, Numbers]:
    data = np.frombuffer(b"".join(names) or b"\0", dtype=np.uint8)
    lengths = np.fromiter(map(len, names), dtype=np.int64, count=len(names))
    table = _with_room(table, len(names), len(data))
    spans = (np.cumsum(lengths) - lengths) << SPAN_BITS | lengths
    number_names(table, data, spans, len(names))
    return table, spans


def _with_room(table: IdTable, names: int, size: int) -> IdTable:
    used = int(table.used[0])
    filled = int(table.starts[used])
    slots, hashes, starts, store = table.slots, table.hashes, table.starts, table.store
    if filled + size > len(store):
        store = np.empty(2 * (filled + size), dtype=np.uint8)
        store[:filled] = table.store[:filled]
    if used + names > len(hashes):
        capacity = 1 << (used + names).bit_length()
        hashes = np.empty(capacity, dtype=np.uint64)
        hashes[:used] = table.hashes[:used]
        starts = np.zeros(capacity + 1, dtype=np.int64)
        starts[: used + 1] = table.starts[: used + 1]
        slots = np.full(4 * capacity, -1, dtype=np.int32)
        place_all(slots, hashes, used)
    return IdTable(slots, hashes, starts, store, table.used, table.seed)
