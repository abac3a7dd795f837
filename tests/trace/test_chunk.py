from __future__ import annotations

import numpy as np
from rows_strategy import many_rows

from hearsay.trace.language.columns import DTYPES, ColumnBuilder, rows_of
from hearsay.trace.language.order import BY_MESSAGE, order_of
from hearsay.trace.language.rows import Rows
from hearsay.trace.language.schema import Column
from hearsay.trace.write.message_rows import Chunk


def by_message(rows: Rows) -> Rows:
    return rows[order_of([rows[:, column] for column in BY_MESSAGE])]


def put_aside(path, rows: Rows) -> Chunk:
    return Chunk(path / "chunk.arrow", ColumnBuilder(len(rows)).build(rows, np.arange(len(rows))))


def test_the_rows_of_every_range_of_messages_come_back(tmp_path):
    rows = by_message(many_rows(500, seed=1))
    rows[rows[:, Column.MESSAGE] > 0, Column.MESSAGE] *= 3
    chunk = put_aside(tmp_path, rows)
    messages = rows[:, Column.MESSAGE]
    for first in range(-3, 20):
        for last in range(first, 20):
            expected = rows[(messages >= first) & (messages <= last)]
            assert np.array_equal(rows_of(chunk.between(first, last)), expected)
    assert chunk.messages.tolist() == sorted(set(messages.tolist()))
    assert [(messages == message).sum() for message in chunk.messages] == chunk.rows.tolist()
    latest = [rows[messages == message, Column.TIME_US].max() for message in chunk.messages]
    assert chunk.last_us.tolist() == latest


def test_the_widest_columns_come_back(tmp_path):
    rows = many_rows(40, seed=2)
    for column, dtype in enumerate(DTYPES):
        if dtype != np.int8:
            rows[::7, column] = np.iinfo(dtype).max
    rows = by_message(rows)
    chunk = put_aside(tmp_path, rows)
    columns = chunk.columns()
    assert np.array_equal(rows_of(columns), rows)
    assert [column.dtype for column in columns] == list(DTYPES)


def test_a_removed_chunk_leaves_nothing(tmp_path):
    chunk = put_aside(tmp_path, by_message(many_rows(10, seed=3)))
    chunk.remove()
    assert list(tmp_path.iterdir()) == []
