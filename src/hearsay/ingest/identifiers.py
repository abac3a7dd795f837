"""Names (peers, topics, messages) of one unit of work, numbered in the order of their appearance."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from hearsay.ingest.event_decoder import DecodedRows
from hearsay.ingest.protobuf_fields import SPAN_BITS, Data, Numbers, copy_spans
from hearsay.libp2p.names.errors import EncodingError
from hearsay.libp2p.names.peer_id import from_base58, to_base58
from hearsay.trace.folder.arrow import pa
from hearsay.trace.language.schema import Column, TraceEvent

_SHA256, _IDENTITY = 0x12, 0x00
_MAX_TEXT = 400
"""Base58 takes time quadratic in the length. 257 bytes, the most that are written so, are 352 letters."""


def peer_name(peer: bytes) -> str:
    """Return the text of a peer id."""
    is_multihash = len(peer) >= 2 and peer[0] in (_SHA256, _IDENTITY) and peer[1] == len(peer) - 2
    return to_base58(peer) if is_multihash else peer.hex()


def peer_of_name(text: str) -> bytes:
    """Return the bytes of a peer id; ValueError if the text is not base58, or longer than any peer id."""
    if len(text) > _MAX_TEXT:
        raise ValueError(f"{text[:40]!r}… of {len(text)} characters is not a peer id")
    try:
        return from_base58(text)
    except EncodingError:
        raise ValueError(f"{text!r} is not a peer id") from None


NO_TIME = int(np.iinfo(np.int64).max)


class Names:
    """Byte strings, numbered 0, 1, … in the order of their appearance."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, names: Iterable[bytes]) -> Numbers:
        """Return the number of each name, a new one if the name is new."""
        known = self._numbers
        return np.array([known.setdefault(name, len(known)) for name in names], dtype=np.int64)

    def number_spans(self, data: Data, spans: Numbers) -> None:
        """Replace each span by the number of the name at that place in the data; -1 stays."""
        present = spans >= 0
        named = spans[present]
        ends = np.cumsum(named & ((1 << SPAN_BITS) - 1))
        copied = np.empty(ends[-1] if len(ends) else 0, dtype=np.uint8)
        copy_spans(data, named, ends, copied)
        buffers = [None, pa.py_buffer(np.append(0, ends)), pa.py_buffer(copied)]
        encoded = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(named), buffers).dictionary_encode()
        spans[present] = self.number(encoded.dictionary.to_pylist())[encoded.indices.to_numpy()]

    def to_arrow(self) -> Any:
        """Return the names by number."""
        return pa.array(list(self._numbers), pa.large_binary())


class Identifiers:
    """Peers, topics, messages and reasons of a unit, and how many events each peer has."""

    def __init__(self) -> None:
        self.peers, self.topics, self.messages, self.reasons = Names(), Names(), Names(), Names()
        self._events = np.zeros((0, len(TraceEvent)), dtype=np.int64)
        self.first_ns = NO_TIME
        self.events = 0

    @property
    def events_of_peer(self) -> Numbers:
        """The number of events of each kind, by peer."""
        return self._events[: len(self.peers)]

    def number(self, data: Data, decoded: DecodedRows) -> None:
        """Replace spans by numbers, and the event of each row by the event's peer."""
        filled, found = decoded.filled.tolist()
        rows, events = decoded.rows[:filled], decoded.events[:found]
        for names, spans in (
            (self.peers, events[:, 0]),
            (self.peers, rows[:, Column.REMOTE]),
            (self.topics, rows[:, Column.TOPIC]),
            (self.messages, rows[:, Column.MESSAGE]),
            (self.reasons, rows[:, Column.REASON]),
        ):
            names.number_spans(data, spans)
        rows[:, Column.PEER] = events[rows[:, Column.PEER], 0]
        self.count_events(events[:, 0], events[:, 1], events[:, 2])

    def count_events(self, peers: Numbers, events: Numbers, times: Numbers) -> None:
        """Count events by peer and kind; negative ones are of no kind."""
        if len(self._events) < len(self.peers):
            more = 2 * len(self.peers) - len(self._events)
            self._events = np.concatenate((self._events, np.zeros((more, len(TraceEvent)), dtype=np.int64)))
        counted = events >= 0
        np.add.at(self._events, (peers[counted], events[counted]), 1)
        self.first_ns = min(self.first_ns, int(times.min()))
        self.events += len(events)
