"""Traces of hermes (probe-lab/hermes, host/parquet_traces.go): Parquet files, each with one family of events.

The column `type` of a row names its family. The families and their use:

* All families have the columns `timestamp` (milliseconds), `type` and `producer_id` (the recording peer, in base58).
* add_remove, graft_prune, join_leave and msg_arrival become rows of the trace. In msg_arrival, handle_msg repeats a
  delivery, and its `msg_size` is the size of the message's data; validate_msg is not used. In all other events of
  msg_arrival, `msg_size` is the size of the message as it was sent.
* ihave, iwant, idontwant, sent_msg and peer_exchange (a row for each PRUNE of an RPC) are parts of RPCs, and become
  rows of the trace. hermes does not record GRAFTs and subscriptions inside RPCs.
* control_rpc sums up the parts of an RPC, and makes no rows.
* generic has events without a family. Only publications are used; their payload is JSON, with the message id in
  base64.
* connect_disconnect is about connections, not about streams of pubsub. It makes no rows, but names implementations.

Files are not trusted. A file that would unpack to much more than its size is refused. A text that is repeated in a
file is stored in memory once.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hearsay.core.language.rpc import PartKind
from hearsay.ingest.records import (
    BadSource,
    Numbers,
    coded,
    empty_rows,
    numbers,
    peer_name,
    peer_of_name,
    records,
    texts,
)
from hearsay.trace.folder.arrow_compute import compute
from hearsay.trace.folder.foreign_parquet import open_foreign, pa
from hearsay.trace.language.schema import NONE, Column, TraceEvent

_MAX_INT64 = int(np.iinfo(np.int64).max)
_LAST_MS = _MAX_INT64 // 1_000_000
_MAX_COUNT = (1 << 31) - 1
_BATCH_ROWS = 131_072
_COLUMNS = (
    "timestamp",
    "type",
    "producer_id",
    "sub_type",
    "direction",
    "msgs",
    "remote_peer_id",
    "topic",
    "msg_id",
    "msg_size",
    "agent_version",
    "payload",
)
"""The columns that are read. Files have further columns."""
_SKIPPED = NONE
_LONGEST_TEXT = 1 << 20

_SUB_TYPES = {
    "add_peer": TraceEvent.ADD_PEER,
    "remove_peer": TraceEvent.REMOVE_PEER,
    "graft": TraceEvent.GRAFT,
    "prune": TraceEvent.PRUNE,
    "join_topic": TraceEvent.JOIN,
    "leave_topic": TraceEvent.LEAVE,
    "deliver_msg": TraceEvent.DELIVER,
    "duplicated_msg": TraceEvent.DUPLICATE,
    "reject_msg": TraceEvent.REJECT,
    **dict.fromkeys(("handle_msg", "validate_msg", "connect_peer", "disconnect_peer"), _SKIPPED),
}
_DIRECTIONS = {"in": TraceEvent.RECV_RPC, "out": TraceEvent.SEND_RPC, "drop": TraceEvent.DROP_RPC}
_PART_FAMILIES = {
    "ihave": PartKind.IHAVE,
    "iwant": PartKind.IWANT,
    "idontwant": PartKind.IDONTWANT,
    "sent_msg": PartKind.PUBLISH,
    "peer_exchange": PartKind.PRUNE,
}


def _peer(text: str) -> str:
    return peer_name(peer_of_name(text)) if text else ""


def _message(text: str) -> str:
    return bytes.fromhex(text).hex()


_NAMES: dict[str, tuple[str, Callable[[str], str]]] = {
    "remote": ("remote_peer_id", _peer), "topic": ("topic", str), "message": ("msg_id", _message)
}  # fmt: skip
_EVENT_FAMILIES = ("add_remove", "graft_prune", "join_leave", "msg_arrival", "connect_disconnect")


def decode_hermes(path: Path) -> Iterator[Any]:
    """Yield the records of a file in batches. Raises `BadSource` if a part of the file cannot be read."""
    try:
        file = open_foreign(path, _COLUMNS)
        missing = {"timestamp", "type", "producer_id"} - set(file.schema_arrow.names)
        if missing:
            raise BadSource(f"foreign: no hermes events (no column {', '.join(sorted(missing))})")
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=_COLUMNS):
            if batch.num_rows:
                yield _Batch(batch).decode()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise BadSource(f"damaged Parquet ({str(error).partition(chr(10))[0]})") from None


class _Batch:
    """A batch of rows of one file."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch
        self._rows = empty_rows(batch.num_rows)
        self._others: dict[str, Any] = {}

    def decode(self) -> Any:
        self._rows[:, Column.TIME_US] = self._numbers("timestamp", _LAST_MS) * 1_000_000
        peers = self._others["peer"] = self._named("producer_id", _peer)
        if peers.null_count:
            raise BadSource("a row has no producer_id")
        self._fill()
        return records(self._rows, np.zeros(len(self._rows), dtype=np.int64), **self._others)

    def _fill(self) -> None:
        families, names = self._distinct("type")[0], self._batch.schema.names
        if "topic" in names and "payload" in names:
            self._generic()
            return
        if len(families) != 1:
            raise BadSource(
                f"mixed: events of the families {', '.join(f'{family!r:.80}' for family in families[:4])} in one file"
            )
        family: str = families[0]
        if family in _PART_FAMILIES:
            self._rows[:, Column.EVENT] = self._codes("direction", _DIRECTIONS)
            self._rows[:, Column.KIND] = _PART_FAMILIES[family]
            self._rows[:, Column.COUNT] = self._numbers("msgs", _MAX_COUNT) if "msgs" in names else 1
        elif family in _EVENT_FAMILIES:
            self._rows[:, Column.EVENT] = self._codes("sub_type", _SUB_TYPES)
        elif family != "control_rpc":
            raise BadSource(f"unknown hermes family {family!r:.80}")
        for field, (name, parse) in _NAMES.items():
            if name in names:
                self._others[field] = self._named(name, parse)
        if family == "msg_arrival":
            sizes, handled = self._numbers("msg_size"), self._is("sub_type", "handle_msg")
            self._rows[~handled, Column.BYTES] = sizes[~handled]
            self._others["data_bytes"] = numbers(np.where(handled, sizes, NONE))
        if family == "connect_disconnect":
            self._others["implementation"] = self._named("agent_version", str)

    def _generic(self) -> None:
        published = self._is("type", "PUBLISH_MESSAGE")
        self._rows[published, Column.EVENT] = TraceEvent.PUBLISH
        ids: list[str | None] = []
        topics: list[str | None] = []
        payloads, places = self._distinct("payload")
        for place, is_published in zip(places.tolist(), published.tolist(), strict=True):
            try:
                fields = json.loads(payloads[int(place)]) if is_published else {"MsgID": "", "Topic": ""}
                ids.append(b64decode(fields["MsgID"], validate=True).hex() if is_published else None)
                topics.append(str(fields["Topic"]).encode().decode() if is_published else None)
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise BadSource(f"a publication's payload cannot be read ({str(error)[:80]})") from None
        self._others |= {"message": texts(ids).dictionary_encode(), "topic": texts(topics).dictionary_encode()}

    def _column(self, name: str) -> Any:
        if name not in self._batch.schema.names:
            raise BadSource(f"not a trace of Hermes: no column {name}")
        column = self._batch.column(name)
        if column.null_count:
            raise BadSource(f"a row has no {name}")
        return column

    def _numbers(self, name: str, highest: int = _MAX_INT64) -> Numbers:
        column = self._column(name)
        if not pa.types.is_integer(column.type):
            kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
            raise BadSource(f"column {name} is {kind}, not whole numbers")
        found = column.to_numpy(zero_copy_only=False).astype(np.int64)
        if found.min() < 0:
            raise BadSource(f"a negative {name}")
        if found.max() > highest:
            raise BadSource(f"a {name} is out of range")
        return found

    def _distinct(self, name: str) -> tuple[list[str], Numbers]:
        """Return the distinct texts of a column, and for each row the index of its text among them."""
        column = self._column(name)
        if not pa.types.is_dictionary(column.type) or not pa.types.is_string(column.type.value_type):
            kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
            raise BadSource(f"column {name} is {kind}, not string")
        used, places = np.unique(column.indices.to_numpy(zero_copy_only=False), return_inverse=True)
        found: Any = column.dictionary.take(pa.array(used))
        lengths: list[int] = compute.binary_length(found).to_pylist()
        if max(lengths) > _LONGEST_TEXT:
            raise BadSource(f"a {name} is longer than {_LONGEST_TEXT} bytes")
        return found.to_pylist(), places.astype(np.int64)

    def _is(self, name: str, text: str) -> NDArray[np.bool_]:
        found, places = self._distinct(name)
        return np.array([each == text for each in found])[places]

    def _codes(self, name: str, known: Mapping[str, int]) -> Numbers:
        found, places = self._distinct(name)
        unknown = [text for text in found if text not in known]
        if unknown:
            raise BadSource(f"unknown {name} {unknown[0]!r:.80}")
        return np.array([known[text] for text in found], dtype=np.int64)[places]

    def _named(self, name: str, parse: Callable[[str], str]) -> Any:
        """Return a column of texts that are converted by `parse`, with null if the converted text is empty."""
        found, places = self._distinct(name)
        try:
            names = [parse(text) for text in found]
        except ValueError as error:
            raise BadSource(f"{name}: {error}") from None
        return coded(np.where([not each for each in names], NONE, np.arange(len(names)))[places], texts(names))
