"""Names for numbers: tables hold the numbers of topics, peers and messages, and a run's dictionaries name them.

Behind every column of numbers stands one with the names, `topic_name` behind `topic`; `message_id` behind `message`
where messages have ids of their own. A number that no dictionary knows has no name (null).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hearsay.trace.folder.arrow import DAMAGED, pa
from hearsay.trace.folder.arrow_compute import compute
from hearsay.trace.folder.plain_tables import read_plain
from hearsay.trace.language.errors import RunFolderError
from hearsay.trace.write.run_folder import DICTIONARIES


@dataclass(frozen=True, slots=True)
class Naming:
    """How a column of numbers is named: the dictionary, its key, the column there, and the column to be made."""

    dictionary: str
    key: str
    name: str
    made: str


def _peers(column: str) -> Naming:
    return Naming("peers", "peer", "name", f"{column}_name")


NAMINGS = {
    "topic": Naming("topics", "topic", "name", "topic_name"),
    "message": Naming("messages", "message", "id", "message_id"),
    **{column: _peers(column) for column in ("peer", "node", "remote", "publisher")},
}


def dictionary_file(run: Path, dictionary: str) -> Path:
    return run / DICTIONARIES / f"{dictionary}.parquet"


def read_dictionary(run: Path, dictionary: str) -> Any:
    """A dictionary of a run as an Arrow table; None where the run has none."""
    path = dictionary_file(run, dictionary)
    if not path.is_file():
        return None
    try:
        return read_plain(path)
    except DAMAGED as error:
        first = str(error).partition("\n")[0]
        raise RunFolderError(f"{path}: cannot be read ({first})") from None


def namings_of(run: Path, columns: Sequence[str]) -> Iterator[tuple[str, Naming]]:
    """The columns that the run's dictionaries name, and how."""
    for column in columns:
        naming = NAMINGS.get(column)
        if naming is None or naming.made in columns:
            continue
        known = read_dictionary(run, naming.dictionary)
        if known is not None and naming.name in known.column_names:
            yield column, naming


def with_names(run: Path, table: Any) -> Any:
    """The Arrow table with names behind its numbers."""
    namings = dict(namings_of(run, table.column_names))
    arrays: dict[str, Any] = {}
    for column in table.column_names:
        arrays[column] = table.column(column)
        if column in namings:
            naming = namings[column]
            known = read_dictionary(run, naming.dictionary)
            keys = known.column(naming.key).cast(pa.int64())
            places = compute.index_in(table.column(column).cast(pa.int64()), keys)
            arrays[naming.made] = known.column(naming.name).take(places)
    return pa.table(arrays)
