"""Finds a message or a node of a run by number, name or id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from heapq import nsmallest
from pathlib import Path

import numpy as np

from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.kernels.columns import ColumnArrays, rows_of_messages
from hearsay.text.escape import escape
from hearsay.trace.folder.arrow import DAMAGED
from hearsay.trace.folder.foreign_parquet import open_foreign
from hearsay.trace.language.columns import DTYPES
from hearsay.trace.language.errors import RunFolderError
from hearsay.trace.language.schema import Column
from hearsay.trace.read.show import Names
from hearsay.trace.write.run_folder import DICTIONARIES
from hearsay.user_errors import InvalidInput

COLUMNS = (
    Column.TIME_US, Column.EVENT, Column.KIND, Column.PEER, Column.REMOTE, Column.TOPIC, Column.MESSAGE, Column.HOPS,
    Column.BYTES, Column.COUNT, Column.VIA, Column.DELAY_US, Column.REASON,
)  # fmt: skip
_MAX_NAMED = 3
SHORTENED = "…"
"""Replaces the beginning of a long name."""
_MAX_NUMBER = (1 << 63) - 1


class NotInThisRun(InvalidInput, ValueError):
    """A message or node that the run does not have; the text names the nearest ones."""


@dataclass(frozen=True, slots=True)
class MessageName:
    """Number of a message in the run, and its id."""

    number: int
    identifier: str | None
    """Message id of a real network, in hexadecimal."""


def find_message(run: RunFacts, wanted: str) -> MessageName:
    """Return the message with this number, or with an id that begins like this."""
    if not wanted:
        raise NotInThisRun("--message is empty; give the number of a message or the beginning of its id")
    number = _number(wanted)
    prefix = wanted.lower().removeprefix("0x")
    begun: list[MessageName] = []
    known = 0
    for numbers, ids in _dictionary(run.path):
        known += len(numbers)
        if number is not None:
            for place in np.flatnonzero(numbers == number).tolist():
                return MessageName(number, ids[place] if ids else None)
        if ids is not None and prefix and len(begun) <= _MAX_NAMED:
            begun += [
                MessageName(one, name) for one, name in zip(numbers.tolist(), ids, strict=True)
                if name is not None and name.startswith(prefix)
            ]  # fmt: skip
    if len(begun) == 1:
        return begun[0]
    if begun:
        several = ", ".join(str(one.identifier) for one in begun[:_MAX_NAMED])
        raise NotInThisRun(
            f"{escape(wanted)}: several ids begin like this ({several}{_more(begun)}); give more of the id"
        )
    if number is not None and _has_rows(run, number):
        return MessageName(number, None)
    raise NotInThisRun(
        f"{escape(wanted)}: no such message in {run.path}; {_nearest_message(run, number, prefix, known)}"
    )


def _number(wanted: str) -> int | None:
    """Return a number, or None; text with leading zeros is the beginning of an id."""
    plain = wanted.isascii() and wanted.isdecimal() and (wanted == "0" or wanted[0] != "0") and len(wanted) < 20
    return int(wanted) if plain and int(wanted) <= _MAX_NUMBER else None


def find_node(run: RunFacts, names: Names, wanted: str) -> int:
    """Return the node of this name or number, or the only one whose name begins or ends like this."""
    wanted = wanted.removeprefix(SHORTENED)
    if not wanted:
        raise NotInThisRun(f"--node is empty; {len(run.nodes)} nodes are in {run.path}")
    for number, name in names.peers.items():
        if name == wanted:
            return number
    known = names.peers.keys() or run.nodes
    plain = _number(wanted)
    if plain is not None and plain in known:
        return plain
    if plain is not None and known:
        named_so = [number for number in known if names.peer(number).isdecimal()] or known
        near = min(named_so, key=lambda number: abs(number - plain))
        raise NotInThisRun(f"{wanted}: no such node in {run.path}; the nearest is {escape(names.peer(near))}")
    close = get_close_matches(wanted, names.peers.values(), 1, 0.5)
    begin = [name for name in names.peers.values() if name.startswith(wanted) or name.endswith(wanted)]
    if len(begin) == 1:
        return names.find_peer(begin[0])
    near = (begin or close)[:_MAX_NAMED]
    hint = f"did you mean {', '.join(map(escape, near))}?" if near else f"there are {len(run.nodes)} nodes"
    raise NotInThisRun(f"{escape(wanted)}: no such node in {run.path}; {hint}")


def rows_of_message(run: RunFacts, message: int) -> ColumnArrays:
    """Return all rows of a message; row groups without it are not read."""
    return _gathered(
        rows
        for file in run.files("message")
        for rows in rows_of_messages(str(run.path / file.name), np.array([message]), COLUMNS)
    )


def _gathered(pieces: Iterable[ColumnArrays]) -> ColumnArrays:
    found = [{column: np.empty(0, dtype=DTYPES[column]) for column in COLUMNS}, *pieces]
    return {column: np.concatenate([piece[column] for piece in found]) for column in COLUMNS}


def _has_rows(run: RunFacts, message: int) -> bool:
    return len(rows_of_message(run, message)[Column.MESSAGE]) > 0


def _dictionary(run: Path) -> Iterator[tuple[np.ndarray, list[str | None] | None]]:
    """Yield numbers and ids from the dictionary of messages, in batches."""
    path = run / DICTIONARIES / "messages.parquet"
    if not path.exists():
        return
    try:
        file = open_foreign(path, ("message", "id"))
        names: list[str] = file.schema_arrow.names
        columns = [name for name in ("message", "id") if name in names]
        for batch in file.iter_batches(columns=columns):
            ids = batch.column("id").to_pylist() if "id" in columns else None
            yield batch.column("message").to_numpy(zero_copy_only=False).astype(np.int64), ids
    except DAMAGED as error:
        raise RunFolderError(f"{path}: not a readable Parquet file ({str(error).partition(chr(10))[0]})") from error


def _nearest_message(run: RunFacts, number: int | None, prefix: str, known: int) -> str:
    if not known:
        return "its dictionary names none"
    has_ids = any(ids is not None for _, ids in _dictionary(run.path))
    if has_ids:
        ids = (name for _, some in _dictionary(run.path) for name in some or () if name is not None)
        near = nsmallest(_MAX_NAMED, ids, key=lambda name: (-_common(name, prefix), name))
        return f"the nearest are {', '.join(near)}"
    if number is None:
        least = min(int(numbers.min()) for numbers, _ in _dictionary(run.path) if len(numbers))
        most = max(int(numbers.max()) for numbers, _ in _dictionary(run.path) if len(numbers))
        return f"its messages have no ids, only numbers: {least}" + (f" … {most}" if most > least else "")
    nearest = min(
        (int(numbers[np.argmin(np.abs(numbers - number))]) for numbers, _ in _dictionary(run.path) if len(numbers)),
        key=lambda one: abs(one - number),
    )
    return f"the nearest is {nearest}"


def _more(begun: list[MessageName]) -> str:
    return ", …" if len(begun) > _MAX_NAMED else ""


def _common(one: str, other: str) -> int:
    """Return the length of the common beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (mine, theirs) in pairs if mine != theirs), min(len(one), len(other)))
