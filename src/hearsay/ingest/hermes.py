"""The Parquet files of hermes (probe-lab/hermes, host/parquet_traces.go): one family of events a file.

What hermes keeps, and what becomes of it:

* Every row has `timestamp` (milliseconds), `type` (the family) and `producer_id` (base58).
* add_remove, graft_prune, join_leave and msg_arrival are events of ours. handle_msg repeats a delivery and tells the
  size of the data; validate_msg is none of ours. `msg_size` of an arrival is the size of the message as sent.
* ihave, iwant, idontwant, sent_msg and peer_exchange (one row for each PRUNE of an RPC) are parts of RPCs;
  control_rpc sums them up and makes no rows. GRAFTs and subscriptions inside RPCs are not kept by hermes.
* generic holds what has no family: publications, as JSON with the id in base64. Others there make no rows.
* Files come from anywhere: one that would unpack to much more than its size is refused, and texts that repeat are
  kept once, as their file keeps them.
* connect_disconnect is about connections, not streams of pubsub; it makes no rows and tells implementations.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hearsay.core.language.rpc import PartKind
from hearsay.ingest.identifiers import peer_of_name
from hearsay.ingest.parts import BadSource, PartWriter
from hearsay.trace.folder.arrow_compute import compute
from hearsay.trace.folder.foreign_parquet import open_foreign, pa
from hearsay.trace.language.rows import Rows
from hearsay.trace.language.schema import NONE, WIDTH, Column, TraceEvent

_Codes: TypeAlias = NDArray[np.int64]
_LAST_MS = np.iinfo(np.int64).max // 1_000_000
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
"""Those that are read; files have others."""
_SKIPPED = -2
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
    "handle_msg": _SKIPPED,
    "validate_msg": _SKIPPED,
    "connect_peer": _SKIPPED,
    "disconnect_peer": _SKIPPED,
}
_DIRECTIONS = {"in": TraceEvent.RECV_RPC, "out": TraceEvent.SEND_RPC, "drop": TraceEvent.DROP_RPC}
_PART_FAMILIES = {
    "ihave": PartKind.IHAVE,
    "iwant": PartKind.IWANT,
    "idontwant": PartKind.IDONTWANT,
    "sent_msg": PartKind.PUBLISH,
    "peer_exchange": PartKind.PRUNE,
}
_EVENT_FAMILIES = ("add_remove", "graft_prune", "join_leave", "msg_arrival", "connect_disconnect")


def decode_hermes(path: Path, part: PartWriter) -> None:
    """Read a file into the part; BadSource if it is not wholly good."""
    try:
        file = open_foreign(path, _COLUMNS)
        missing = {"timestamp", "type", "producer_id"} - set(file.schema_arrow.names)
        if missing:
            raise BadSource(f"foreign: no hermes events (no column {', '.join(sorted(missing))})")
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=_COLUMNS):
            _Batch(batch, part).decode()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise BadSource(f"damaged Parquet ({str(error).partition(chr(10))[0]})") from None


class _Batch:
    """Some rows of one file."""

    def __init__(self, batch: Any, part: PartWriter) -> None:
        self._batch = batch
        self._part = part
        self._size: int = batch.num_rows

    def decode(self) -> None:
        if not self._size:
            return
        times = self._numbers("timestamp")
        if times.min() < 0 or times.max() > _LAST_MS:
            raise BadSource("a timestamp is out of range")
        rows = np.full((self._size, WIDTH), NONE, dtype=np.int64)
        rows[:, Column.TIME_US] = times * 1_000_000
        rows[:, Column.PEER] = self._named("producer_id", peer_of_name, self._part.identifiers.peers.number)
        if (rows[:, Column.PEER] == NONE).any():
            raise BadSource("a row has no producer_id")
        self._fill(rows)
        kept = rows[rows[:, Column.EVENT] != _SKIPPED]
        self._part.identifiers.count_events(rows[:, Column.PEER], rows[:, Column.EVENT], rows[:, Column.TIME_US])
        self._part.add(kept)

    def _fill(self, rows: Rows) -> None:
        families = self._distinct("type")[0]
        if "topic" in self._batch.schema.names and "payload" in self._batch.schema.names:
            self._generic(rows)
            return
        if len(families) != 1:
            raise BadSource(
                f"mixed: events of the families {', '.join(f'{family!r:.80}' for family in families[:4])} in one file"
            )
        family: str = families[0]
        if family in _PART_FAMILIES:
            rows[:, Column.EVENT] = self._codes("direction", _DIRECTIONS)
            rows[:, Column.KIND] = _PART_FAMILIES[family]
            rows[:, Column.COUNT] = self._numbers("msgs") if "msgs" in self._batch.schema.names else 1
        elif family in _EVENT_FAMILIES:
            rows[:, Column.EVENT] = self._codes("sub_type", _SUB_TYPES)
        elif family == "control_rpc":
            rows[:, Column.EVENT] = _SKIPPED
        else:
            raise BadSource(f"unknown hermes family {family!r:.80}")
        self._fill_names(rows)
        if family == "msg_arrival":
            self._fill_sizes(rows)
        if family == "connect_disconnect":
            self._tell_implementations(rows)

    def _fill_names(self, rows: Rows) -> None:
        names, present = self._part.identifiers, self._batch.schema.names
        if "remote_peer_id" in present:
            rows[:, Column.REMOTE] = self._named("remote_peer_id", peer_of_name, names.peers.number)
        if "topic" in present:
            rows[:, Column.TOPIC] = self._named("topic", str.encode, names.topics.number)
        if "msg_id" in present:
            rows[:, Column.MESSAGE] = self._named("msg_id", bytes.fromhex, names.messages.number)

    def _fill_sizes(self, rows: Rows) -> None:
        sizes = self._numbers("msg_size")
        handled = self._is("sub_type", "handle_msg")
        rows[~handled, Column.BYTES] = sizes[~handled]
        sized = handled & (rows[:, Column.MESSAGE] != NONE)
        self._part.add_sizes(rows[sized, Column.MESSAGE], sizes[sized])

    def _tell_implementations(self, rows: Rows) -> None:
        for peer, agent in zip(rows[:, Column.REMOTE].tolist(), self._texts("agent_version"), strict=True):
            if peer != NONE and agent:
                self._part.implementations[peer] = max(agent, self._part.implementations.get(peer, ""))

    def _generic(self, rows: Rows) -> None:
        published = self._is("type", "PUBLISH_MESSAGE")
        rows[:, Column.EVENT] = np.where(published, TraceEvent.PUBLISH, _SKIPPED)
        ids: list[bytes] = []
        topics: list[bytes] = []
        for payload, is_published in zip(self._texts("payload"), published.tolist(), strict=True):
            if not is_published:
                continue
            try:
                fields = json.loads(payload)
                ids.append(b64decode(fields["MsgID"], validate=True))
                topics.append(str(fields["Topic"]).encode())
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise BadSource(f"a publication's payload cannot be read ({str(error)[:80]})") from None
        rows[published, Column.MESSAGE] = self._part.identifiers.messages.number(ids)
        rows[published, Column.TOPIC] = self._part.identifiers.topics.number(topics)

    def _column(self, name: str) -> Any:
        if name not in self._batch.schema.names:
            raise BadSource(f"foreign: no column {name}")
        column = self._batch.column(name)
        if column.null_count:
            raise BadSource(f"a row has no {name}")
        return column

    def _numbers(self, name: str) -> _Codes:
        column = self._column(name)
        if not pa.types.is_integer(column.type):
            kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
            raise BadSource(f"column {name} is {kind}, not whole numbers")
        numbers = column.to_numpy(zero_copy_only=False).astype(np.int64)
        if numbers.min() < 0:
            raise BadSource(f"a negative {name}")
        return numbers

    def _distinct(self, name: str) -> tuple[list[str], _Codes]:
        """The texts of a column, each once, and which of them each row has."""
        column = self._column(name)
        if not pa.types.is_dictionary(column.type) or not pa.types.is_string(column.type.value_type):
            raise BadSource(f"column {name} is {column.type}, not texts")
        used, places = np.unique(column.indices.to_numpy(zero_copy_only=False), return_inverse=True)
        texts: Any = column.dictionary.take(pa.array(used))
        lengths: list[int] = compute.binary_length(texts).to_pylist()
        if max(lengths) > _LONGEST_TEXT:
            raise BadSource(f"a {name} is longer than {_LONGEST_TEXT} bytes")
        return texts.to_pylist(), places.astype(np.int64)

    def _texts(self, name: str) -> list[str]:
        """The texts of all rows."""
        texts, places = self._distinct(name)
        numbers: list[int] = places.tolist()
        return [texts[number] for number in numbers]

    def _is(self, name: str, text: str) -> NDArray[np.bool_]:
        texts, places = self._distinct(name)
        return np.array([each == text for each in texts])[places]

    def _codes(self, name: str, known: Mapping[str, int]) -> _Codes:
        texts, places = self._distinct(name)
        unknown = [text for text in texts if text not in known]
        if unknown:
            raise BadSource(f"unknown {name} {unknown[0]!r:.80}")
        return np.array([known[text] for text in texts], dtype=np.int64)[places]

    def _named(self, name: str, parse: Callable[[str], bytes], number: Callable[[list[bytes]], _Codes]) -> _Codes:
        texts, places = self._distinct(name)
        try:
            names = [parse(text) for text in texts]
        except ValueError as error:
            raise BadSource(f"{name}: {error}") from None
        numbers = number(names)
        numbers[[not each for each in names]] = NONE
        return numbers[places]
