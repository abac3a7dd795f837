"""Run folders of live nodes and of imports as a source of records (`records.py`), for joins.

* A live trace is the trace that a node of this program has written about itself. Its times are Unix times.
* In records, the name of a peer is its id. The name of a message is a hash of its id, in hexadecimal.
* In a live trace, the number of a message is this hash, so it is the same at every node. The dictionary of messages
  has the ids.
* An import numbers messages from 0. So their names are computed from the ids in its dictionary of messages. Its
  `source.json` has the origin of its times.
* A live trace is a series of run folders (`hearsay.trace.run_series`). It is read even if the series has no manifest.
  If the node was killed, only the run folders with a manifest are read. Then a row NODE_DOWN is added at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from hearsay.core.language.actions import Reason
from hearsay.ingest.records import BadSource, Numbers, coded, empty_rows, peer_name, peer_of_name, records, texts
from hearsay.ingest.source_record import load_source
from hearsay.trace.folder.arrow import pa, read_table
from hearsay.trace.folder.manifest import MANIFEST, RunFolderError, load_manifest
from hearsay.trace.folder.run_folder import dictionary_file
from hearsay.trace.language.rows import Rows
from hearsay.trace.language.schema import NONE, Column, TraceEvent, number_of_id
from hearsay.trace.reader import read_groups
from hearsay.trace.run_series import WHOLE, lost_at, names_whole, numbered_folders

LIVE = "live"
TRACED = "traced"
"""A role in the dictionary of peers of an import or a join: the peer wrote a trace, which is in the run."""
OWN_PEER = 0
"""The number of a node in its own trace."""
_Names: TypeAlias = Callable[[Numbers], Any]
"""A function from numbers of peers or topics to their names."""
_LAST_US = np.iinfo(np.int64).max // 1000
_DICTIONARIES = {
    "peers": {"peer": int, "name": str, "role": str | None, "implementation": str | None},
    "topics": {"topic": int, "name": str},
    "messages": {"message": int, "bytes": int | None, "id": str | None},
}
"""The columns that are read from each dictionary, and their types. Runs of version 0.1 have neither ids nor roles."""


def folders_to_join(runs: Sequence[Path]) -> list[Path]:
    """Return the run folders of the given runs and series.

    Raises `RunFolderError` if one of them is not a run of real nodes, is a join, or is a copy of another one. A node
    writes only one trace at a time. So if two traces of a node overlap in time, one of them is a copy of the other
    trace, or of a part of it.
    """
    by_node: dict[str, list[tuple[int, int, Path]]] = {}
    folders = [folder for path in runs for folder in _folders_with_manifest(path)]
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
    """Return the Unix time in nanoseconds at which the clock of an import starts; None for a live trace."""
    record = load_source(folder)
    return None if record is None else record.origin_unix_ns or 0


def _traced_nodes(folder: Path) -> list[str]:
    peers = _dictionary(folder, "peers")
    if _import_origin_ns(folder) is None:
        return peers["name"][:1]
    return [name for name, role in zip(peers["name"], peers["role"], strict=True) if role == TRACED]


def _folders_with_manifest(path: Path) -> list[Path]:
    """Return those run folders of a run or a series that have a manifest.

    Raises `RunFolderError` if there is none, or if one of them cannot be joined.
    """
    folders = [path]
    if path.is_dir():
        pieces = [path / WHOLE] if names_whole(path) else numbered_folders(path)
        folders = [piece for piece in pieces if (piece / MANIFEST).exists()] or folders
    for folder in folders:
        manifest = load_manifest(folder)
        if manifest.seed is not None:
            raise RunFolderError(f"{path}: the run of a simulation; only traces of real nodes can be joined")
        if manifest.created_by.get("source") == LIVE:
            raise RunFolderError(f"{path}: is already a join; give the runs that were joined into it")
    return folders


def message_ids(folders: Sequence[Path]) -> dict[str, str]:
    """Return the hexadecimal ids of messages by their names in records. Messages without a known id are missing."""
    found: dict[str, str] = {}
    for folder in folders:
        table, name_of = _dictionary(folder, "messages"), _message_names(folder)
        known = zip(table["message"], table["id"], strict=True)
        found.update((name_of(number), text) for number, text in known if text is not None)
    return found


def _message_names(folder: Path) -> Callable[[int], str]:
    """Return a function from the number of a message in the folder to the name of the message in records."""
    if _import_origin_ns(folder) is None:
        return message_name
    table = _dictionary(folder, "messages")
    try:
        names = [message_name(number_of_id(bytes.fromhex(text or "?"))) for text in table["id"]]
    except ValueError:
        raise RunFolderError(f"{folder}: the dictionary of messages lacks an id in hexadecimal") from None
    return dict(zip(table["message"], names, strict=True)).__getitem__


def router_of(folders: Sequence[Path]) -> str | None:
    """Return the router of all nodes; "mixed: " with all routers if they differ; None if no trace names a router."""
    named = {_router_in(folder) for folder in folders}
    if named <= {None}:
        return None
    routers = sorted(name or "unknown" for name in named)
    return routers[0] if len(routers) == 1 else f"mixed: {', '.join(routers)}"


def _router_in(folder: Path) -> str | None:
    roles = _dictionary(folder, "peers")["role"]
    return next(iter(roles), None) if _import_origin_ns(folder) is None else None


def decode_live_run(run: Path) -> Iterator[Any]:
    """Yield the records of a run folder in batches. Raises `BadSource` if a part of the folder cannot be read."""
    try:
        yield from _records(run)
    except RunFolderError as error:
        raise BadSource(str(error)) from None
    except (LookupError, ValueError) as error:
        raise BadSource(f"not the trace of real nodes ({error})") from None


def _records(run: Path) -> Iterator[Any]:
    table, messages = _dictionary(run, "peers"), _dictionary(run, "messages")
    origin_ns = _import_origin_ns(run)
    topic_table = _dictionary(run, "topics")
    names = table["name"]
    peers = texts([peer_name(peer_of_name(name)) for name in names] if origin_ns is None else names)
    number_peers = partial(_named, numbers=_ascending(table, "peer"), names=peers)
    number_topics = partial(_named, numbers=_ascending(topic_table, "topic"), names=texts(topic_table["name"]))
    batch = partial(
        _batch, peers=number_peers, topics=number_topics, name_of=_message_names(run), origin_ns=origin_ns or 0
    )
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


def _batch(
    rows: Rows, peers: _Names, topics: _Names, name_of: Callable[[int], str], origin_ns: int, part: int = 0
) -> Any:
    latest_us = _LAST_US - origin_ns // 1000
    if not 0 <= rows[:, Column.TIME_US].min() <= rows[:, Column.TIME_US].max() <= latest_us:
        raise ValueError("a time is out of range")
    rows[:, Column.TIME_US] = rows[:, Column.TIME_US] * 1000 + origin_ns
    messages, places = np.unique(rows[:, Column.MESSAGE], return_inverse=True)
    return records(
        rows,
        np.full(len(rows), part),
        peer=peers(rows[:, Column.PEER]),
        remote=peers(rows[:, Column.REMOTE]),
        topic=topics(rows[:, Column.TOPIC]),
        message=coded(
            np.where(rows[:, Column.MESSAGE] == NONE, NONE, places),
            texts(None if number == NONE else name_of(number) for number in messages.tolist()),
        ),
    )


def _facts(**fields: Any) -> Any:
    """Return records of facts, one for each element of the given arrays."""
    count = len(next(iter(fields.values())))
    fields = {
        name: array.dictionary_encode() if pa.types.is_string(array.type) else array for name, array in fields.items()
    }
    return records(empty_rows(count), np.full(count, NONE), **fields)


def message_name(number: int) -> str:
    """Return the name that records give to the message with this number."""
    return f"{number:016x}"


def _named(codes: Numbers, numbers: Numbers, names: Any) -> Any:
    """Return the names of peers or topics with the numbers `codes`; NONE has no name.

    `numbers` ascend, and `names` are in their order. Numbers may be missing: a run folder of a series names only the
    peers and topics of its rows.
    """
    places = np.searchsorted(numbers, codes)
    if ((np.append(numbers, NONE)[places] != codes) & (codes != NONE)).any():
        raise ValueError("a row has the number of a peer or topic that the trace does not name")
    return coded(np.where(codes == NONE, NONE, places), names)


def _ascending(table: dict[str, list[Any]], key: str) -> Numbers:
    numbers = np.array(table[key], dtype=np.int64)
    if (np.diff(numbers) <= 0).any():
        raise ValueError(f"the numbers of {key}s do not ascend")
    return numbers


def _dictionary(run: Path, name: str) -> dict[str, list[Any]]:
    path = dictionary_file(run, name)
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
