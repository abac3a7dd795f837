"""Files of partial sums: each group of rows is about one thing, so that whoever reads takes what is wanted alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import pyarrow
import pyarrow.parquet

from hearsay.pipeline.metrics.whole_files import PARTS_SCHEMA
from hearsay.pipeline.output.table_files import write_file

pa: Any = pyarrow
parquet: Any = pyarrow.parquet


def write_parts(target: str, parts: Iterable[Any]) -> None:
    """Partial sums of one run as a file; `parts` are batches, each about one thing."""
    about_one = (pa.Table.from_batches(list(batches)) for _, batches in groupby(parts, _subject_of_batch))
    write_file(target, PARTS_SCHEMA, about_one)


def lines_about(what: str, file: str) -> int:
    """How many lines of the file are about this."""
    metadata = parquet.read_metadata(file)
    return sum(metadata.row_group(group).num_rows for group in _groups_about(what, metadata))


def read_parts(what: str, files: Sequence[str]) -> Any:
    """What these files say of one thing: keys and amounts."""
    names = [name for name in PARTS_SCHEMA.names if name not in ("what", "run")]
    found = [pa.schema([PARTS_SCHEMA.field(name) for name in names]).empty_table()]
    for name in files:
        with parquet.ParquetFile(name) as file:
            groups = list(_groups_about(what, file.metadata))
            if groups:
                found.append(file.read_row_groups(groups, columns=names))
    return pa.concat_tables(found)


def _groups_about(what: str, metadata: Any) -> Iterator[int]:
    for group in range(metadata.num_row_groups):
        if metadata.row_group(group).column(0).statistics.min == what:
            yield group


def _subject_of_batch(batch: Any) -> str:
    return batch.column(0)[0].as_py()
