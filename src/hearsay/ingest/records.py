"""Records of foreign traces: the rows that the data source yields, as Arrow batches with the columns `FIELDS`.

Rules:

* A record is about an event, or it is a fact: the size of a message's data (`data_bytes`), or the program of a remote
  peer (`implementation`).
* An RPC has one record for each part; `part` numbers them from 0. An RPC without parts has one record, without
  `kind`. Any other event has one record. `part` is null for a fact, and for an event that is not in the file. Hermes
  and live traces do not show which parts belong to one RPC: there each part has the number 0.
* `class` is null if a record does not become a row of a run: a fact, an RPC without parts, and an event that runs do
  not have, whose `event` is also null.
* Columns of texts are dictionary arrays, so that a batch stores a repeated name once. Spark gets plain strings.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hearsay.libp2p.names.errors import EncodingError
from hearsay.libp2p.names.peer_id import from_base58, to_base58
from hearsay.trace.folder.arrow import CODE_NAMES, pa
from hearsay.trace.language.rows import Rows
from hearsay.trace.language.schema import CLASSES, NONE, WIDTH, Column, PartKind, TraceEvent, class_of

Numbers: TypeAlias = NDArray[np.int64]


class BadSource(Exception):
    """The error of a file that cannot be read completely. The message is the reason, without the file's name."""


_NUMBERS = ("time_ns", "part", "hops", "bytes", "count", "data_bytes")
FIELDS = (
    "file", "format", "time_ns", "class", "event", "kind", "part", "peer", "remote", "topic", "message", "hops",
    "bytes", "count", "via", "reason", "data_bytes", "implementation", "error",
)  # fmt: skip
DDL = ", ".join(f"{name} {'bigint' if name in _NUMBERS else 'string'}" for name in FIELDS)


def _schema(text: Any) -> Any:
    return pa.schema([(name, pa.int64() if name in _NUMBERS else text) for name in FIELDS])


PLAIN_SCHEMA = _schema(pa.string())
SCHEMA = _schema(pa.dictionary(pa.int32(), pa.string()))

_KINDS = len(PartKind) + 1
_CLASS_OF = np.array(
    [CLASSES.index(class_of(event, kind)) for event in range(len(TraceEvent)) for kind in range(NONE, len(PartKind))]
)
_RPCS = (TraceEvent.RECV_RPC, TraceEvent.SEND_RPC, TraceEvent.DROP_RPC)


def texts(values: Iterable[str | None]) -> Any:
    return pa.array(list(values), pa.string())


CODES = {column: texts(names) for column, names in CODE_NAMES.items()}
CLASS_NAMES = texts(CLASSES)


def coded(codes: Numbers, names: Any) -> Any:
    """Return a dictionary array with the name of each code, `names[code]`, and null for negative codes."""
    indices = pa.array(codes.astype(np.int32), mask=codes < 0)
    return pa.DictionaryArray.from_arrays(indices, names)


def empty_rows(count: int) -> Rows:
    return np.full((count, WIDTH), NONE, dtype=np.int64)


def records(rows: Rows, part: Numbers, **others: Any) -> Any:
    """Return a batch with a record for each row. The column TIME_US of these rows has nanoseconds.

    `part` has the values of the field `part`. `others` has the arrays of further fields, such as the names of peers.
    Fields that are in neither of them are null.
    """
    events, kinds = rows[:, Column.EVENT], rows[:, Column.KIND]
    is_row = (events >= 0) & ((kinds >= 0) | ~np.isin(events, _RPCS))
    classes = np.where(is_row, _CLASS_OF[np.where(is_row, events * _KINDS + kinds - NONE, 0)], NONE)
    columns = {
        "time_ns": numbers(rows[:, Column.TIME_US]),
        "part": numbers(part),
        "class": coded(classes, CLASS_NAMES),
        **{
            column.name.lower(): coded(rows[:, column], names)
            for column, names in CODES.items()
            if column.name.lower() not in others
        },
        **{column.name.lower(): numbers(rows[:, column]) for column in (Column.HOPS, Column.BYTES, Column.COUNT)},
        **others,
    }
    nothing = {name: pa.nulls(len(rows), SCHEMA.field(name).type) for name in FIELDS if name not in columns}
    return pa.RecordBatch.from_arrays([(columns | nothing)[name] for name in FIELDS], schema=SCHEMA)


def numbers(values: Numbers) -> Any:
    """Return the numbers as an Arrow array, with null for -1."""
    return pa.array(np.ascontiguousarray(values), mask=values == NONE)


def of_file(batch: Any, file: str, format_: str | None, error: str | None = None) -> Any:
    """Return the batch with these values in its columns `file`, `format` and `error`."""
    nowhere = np.zeros(batch.num_rows, dtype=np.int64)
    ends = [
        coded(nowhere if value is not None else nowhere - 1, texts([value or ""])) for value in (file, format_, error)
    ]
    return pa.RecordBatch.from_arrays([ends[0], ends[1], *batch.columns[2:-1], ends[2]], schema=SCHEMA)


def plain(batch: Any) -> Any:
    """Return the batch with arrays of strings in place of dictionary arrays."""
    return batch.cast(PLAIN_SCHEMA)


_SHA256, _IDENTITY = 0x12, 0x00
_MAX_TEXT = 400
"""Maximum characters of a peer id as text, because decoding base58 takes quadratic time. The longest peer ids in use
have 257 bytes, which are 352 characters."""
_KEPT_NAMES = 1 << 16


@lru_cache(_KEPT_NAMES)
def peer_name(peer: bytes) -> str:
    """Return the name of a peer in records: its id in base58 if it is a multihash, otherwise in hexadecimal."""
    is_multihash = len(peer) >= 2 and peer[0] in (_SHA256, _IDENTITY) and peer[1] == len(peer) - 2
    return to_base58(peer) if is_multihash else peer.hex()


def peer_of_name(text: str) -> bytes:
    """Return the bytes of a peer id from its text in base58.

    Raises `ValueError` if the text is not base58, or longer than a peer id can be.
    """
    if len(text) > _MAX_TEXT:
        raise ValueError(f"{text[:40]!r}… of {len(text)} characters is not a peer id")
    try:
        return from_base58(text)
    except EncodingError:
        raise ValueError(f"{text!r} is not a peer id") from None
