"""Run folders of live nodes, and of imports, as a source of records.

* Peers are identified by their ids, topics by their names, messages by the numbers that live traces compute from ids,
  which are the same at every node. The ids themselves are in the dictionaries. An import numbers messages in another
  way; its dictionary has all ids, and its `source.json` has the origin of its times.
* The trace of a live node is read from its run folders (`hearsay.trace.run_series`), with or without a manifest. A
  killed node has only the folders that it had completed; a row NODE_DOWN is added at their end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hearsay.core.language.actions import Reason
from hearsay.ingest.records import BadSource, coded, empty_rows, peer_name, peer_of_name, records, texts
from hearsay.ingest.source_record import load_source
from hearsay.trace.folder.arrow import pa, read_table
from hearsay.trace.folder.manifest import MANIFEST, load_manifest
from hearsay.trace.language.errors import RunFolderError
from hearsay.trace.language.rows import Rows
from hearsay.trace.language.schema import NONE, Column, TraceEvent, number_of_id
from hearsay.trace.read.reader import read_groups
from hearsay.trace.run_series import WHOLE, lost_at, numbered_folders, speaks_of_whole
from hearsay.trace.write.run_folder import DICTIONARIES

Numbers: TypeAlias = NDArray[np.int64]

LIVE = "live"
TRACED = "traced"
"""The role of a node whose own trace is in a run, in dictionaries of imports and joins."""
OWN_PEER = 0
"""A node's number in its own trace."""
_LAST_US = np.iinfo(np.int64).max // 1000
_DICTIONARIES = {
    "peers": {"peer": int, "name": str, "role": str | None, "implementation": str | None},
    "topics": {"topic": int, "name": str},
    "messages": {"message": int, "bytes": int | None, "id": str | None},
}
"""The columns that are read, and their types. Runs of 0.1 have no ids and no roles."""


def different_folders(runs: Sequence[Path]) -> list[Path]:
    """Return the run folders of these traces. Raises `RunFolderError` if one is not a run, or is a copy of another.

    A node writes one trace at a time, so two of its traces that overlap in time are copies, in whole or in part.
    """
    by_node: dict[str, list[tuple[int, int, Path]]] = {}
    folders = [folder for path in runs for folder in _sealed_folders(path)]
    for folder in folders:
        files, origin_us = load_manifest(folder).trace.files, (_import_origin_ns(folder) or 0) // 1000
        since = origin_us + min((file.min_time_us for file in files), default=0)
        until = origin_us + max((file.max_time_us for file in files), default=0)
        for node in _traced_nodes(folder):
            of_node = by_node.setdefault(node, [])
            for other_since, other_until, other in of_node:
                if since <= other_until and other_since <= until:
                    raise RunFolderError(f"{folder}: the same node and time as in {other}; give each trace once")
            of_node.append((since, until, folder))
    return folders


def _import_origin_ns(folder: Path) -> int | None:
    """Return the Unix time at which an import's clock starts; None for a live node's trace, which has Unix times."""
    record = load_source(folder)
    return None if record is None else record.origin_unix_ns or 0


def _traced_nodes(folder: Path) -> list[str]:
    peers = _dictionary(folder, "peers")
    if _import_origin_ns(folder) is None:
        return peers["name"][:1]
    return [name for name, role in zip(peers["name"], peers["role"], strict=True) if role == TRACED]


def _sealed_folders(path: Path) -> list[Path]:
    """Return the run folders of a trace that have a manifest. Raises `RunFolderError` if one cannot be joined."""
    folders = [path]
    if path.is_dir():
        pieces = [path / WHOLE] if speaks_of_whole(path) else numbered_folders(path)
        folders = [piece for piece in pieces if (piece / MANIFEST).exists()] or folders
    for folder in folders:
        manifest = load_manifest(folder)
        if manifest.seed is not None:
            raise RunFolderError(f"{path}: the run of a simulation; only traces of real nodes can be joined")
        if manifest.created_by.get("source") == LIVE:
            raise RunFolderError(f"{path}: joined already; give the runs it was made from")
    return folders


def message_ids(folders: Sequence[Path]) -> dict[str, str]:
    """Return the hexadecimal ids of messages by their names in records, as far as the dictionaries have them."""
    found: dict[str, str] = {}
    for folder in folders:
        table, name_of = _dictionary(folder, "messages"), _message_names(folder)
        known = zip(table["message"], table["id"], strict=True)
        found.update((name_of(number), text) for number, text in known if text is not None)
    return found


def _message_names(folder: Path) -> Callable[[int], str]:
    """Return the function that maps a message's number in the folder to its name in records."""
    if _import_origin_ns(folder) is None:
        return message_name
    table = _dictionary(folder, "messages")
    try:
        names = [message_name(number_of_id(bytes.fromhex(text or "?"))) for text in table["id"]]
    except ValueError:
        raise RunFolderError(f"{folder}: the dictionary of messages lacks an id in hexadecimal") from None
    return dict(zip(table["message"], names, strict=True)).__getitem__


def router_of(folders: Sequence[Path]) -> str | None:
    """Return the router of the nodes, or "mixed: …" with all their routers; None if no trace names one."""
    named = {_router_in(folder) for folder in folders}
    if named <= {None}:
        return None
    routers = sorted(name or "unknown" for name in named)
    return routers[0] if len(routers) == 1 else f"mixed: {', '.join(routers)}"


def _router_in(folder: Path) -> str | None:
    roles = _dictionary(folder, "peers")["role"]
    return next(iter(roles), None) if _import_origin_ns(folder) is None else None


def decode_live_run(run: Path) -> Iterator[Any]:
    """Yield the records of a run folder in batches. Raises `BadSource` if any part of it is bad."""
    try:
        yield from _records(run)
    except RunFolderError as error:
        raise BadSource(str(error)) from None
    except (LookupError, ValueError) as error:
        raise BadSource(f"not the trace of real nodes ({error})") from None


def _records(run: Path) -> Iterator[Any]:
    table, messages = _dictionary(run, "peers"), _dictionary(run, "messages")
    origin_ns = _import_origin_ns(run)
    names = list(_by_number(table, "peer"))
    peers = texts([peer_name(peer_of_name(name)) for name in names] if origin_ns is None else names)
    topics = texts(_by_number(_dictionary(run, "topics"), "topic"))
    batch = partial(_batch, peers=peers, topics=topics, name_of=_message_names(run), origin_ns=origin_ns or 0)
    for rows in read_groups(run):
        if len(rows):
            yield batch(rows)
    lost_us = lost_at(run) if origin_ns is None else None
    if lost_us is not None:
        lost = empty_rows(1)
        lost[0, [Column.TIME_US, Column.EVENT, Column.PEER]] = lost_us, TraceEvent.NODE_DOWN, OWN_PEER
        lost[0, Column.REASON] = Reason.LOST
        yield batch(lost, part=NONE)
    yield _facts(remote=peers, implementation=texts(table["implementation"]))
    yield _facts(
        message=texts(map(_message_names(run), messages["message"])),
        data_bytes=pa.array(messages["bytes"], pa.int64()),
    )


def _batch(rows: Rows, peers: Any, topics: Any, name_of: Callable[[int], str], origin_ns: int, part: int = 0) -> Any:
    latest_us = _LAST_US - origin_ns // 1000
    if not 0 <= rows[:, Column.TIME_US].min() <= rows[:, Column.TIME_US].max() <= latest_us:
        raise ValueError("a time is out of range")
    rows[:, Column.TIME_US] = rows[:, Column.TIME_US] * 1000 + origin_ns
    messages, places = np.unique(rows[:, Column.MESSAGE], return_inverse=True)
    return records(
        rows,
        np.full(len(rows), part),
        peer=_named(rows[:, Column.PEER], peers),
        remote=_named(rows[:, Column.REMOTE], peers),
        topic=_named(rows[:, Column.TOPIC], topics),
        message=coded(
            np.where(rows[:, Column.MESSAGE] == NONE, NONE, places),
            texts(None if number == NONE else name_of(number) for number in messages.tolist()),
        ),
    )


def _facts(**fields: Any) -> Any:
    """Return records of facts, which are not events: one for each element of the given arrays."""
    count = len(next(iter(fields.values())))
    fields = {
        name: array.dictionary_encode() if pa.types.is_string(array.type) else array for name, array in fields.items()
    }
    return records(empty_rows(count), np.full(count, NONE), **fields)


def message_name(number: int) -> str:
    """Return the name in records for a message's number."""
    return f"{number:016x}"


def _named(codes: Numbers, names: Any) -> Any:
    if not NONE <= codes.min() <= codes.max() < len(names):
        raise ValueError("a row has a number that no dictionary names")
    return coded(codes, names)


def _by_number(table: dict[str, list[Any]], key: str) -> Iterator[str]:
    if table[key] != list(range(len(table[key]))):
        raise ValueError(f"the {key}s are not numbered from 0")
    yield from table["name"]


def _dictionary(run: Path, name: str) -> dict[str, list[Any]]:
    path = run / DICTIONARIES / f"{name}.parquet"
    table = read_table(path)
    table.setdefault("id", [None] * len(table.get("message", ())))
    table.setdefault("role", [None] * len(table.get("peer", ())))
    for column, kind in _DICTIONARIES[name].items():
        values = table.get(column)
        if values is None or not all(isinstance(value, kind) for value in values):
            raise RunFolderError(f"{path}: column {column} is missing or not of its type in live traces")
        if kind is int and any(value < 0 for value in values):
            raise RunFolderError(f"{path}: a negative number in column {column}")
    return table
