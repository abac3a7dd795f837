"""The follower's book of files: every file in one batch, played again as often as need be; rows that come late."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hearsay.pipeline.stream.ledger import Ledger, LedgerBroken
from hearsay.trace.language.schema import NONE, WIDTH, Column, TraceEvent
from hearsay.trace.write.writer import TraceWriter

WINDOW_US = 10_000_000
FIRST, SECOND, THIRD = (f"trace/class=message/part-0000{number}.parquet" for number in range(3))


def rows_of(*rows: tuple[int, int, int]) -> np.ndarray:
    """(second, event, message)"""
    filled = np.full((len(rows), WIDTH), NONE, dtype=np.int64)
    filled[:, [Column.TIME_US, Column.EVENT, Column.MESSAGE]] = rows
    filled[:, Column.TIME_US] *= 1_000_000
    filled[:, [Column.PEER, Column.TOPIC]] = 0
    return filled


@pytest.fixture
def run(tmp_path) -> Path:
    """Message 1 is of second 0 and stirs again at 40 s, long after its window; message 2 is of second 30."""
    lots = (
        rows_of((0, TraceEvent.PUBLISH, 1), (1, TraceEvent.DELIVER, 1)),
        rows_of((30, TraceEvent.PUBLISH, 2), (31, TraceEvent.DELIVER, 2)),
        rows_of((40, TraceEvent.DELIVER, 1), (39, TraceEvent.DELIVER, 2), (40, TraceEvent.PUBLISH, 3)),
    )
    for number, rows in enumerate(lots):
        (tmp_path / str(number)).mkdir()
        with TraceWriter(tmp_path / str(number)) as writer:
            writer.add(rows)
            writer.close()
        target = tmp_path / f"run/trace/class=message/part-0000{number}.parquet"
        target.parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / str(number) / FIRST).rename(target)
    return tmp_path / "run"


def late_rows(ledger: Ledger) -> int:
    return sum(share.late_rows for notes in ledger.files for share in notes.shares)


def test_a_message_belongs_to_the_file_it_was_first_seen_in_and_late_rows_are_counted(run, tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    ledger.take(0, run, [FIRST, SECOND], WINDOW_US)
    assert late_rows(ledger) == 0
    ledger.take(1, run, [THIRD], WINDOW_US)
    shares = {share.owner: share.late_rows for share in ledger.files[-1].shares}
    assert shares == {FIRST: 1, SECOND: 0, THIRD: 0}
    assert ledger.messages_of(THIRD).tolist() == [3]
    assert sum(notes.rows for notes in ledger.files) == 7


def test_a_batch_that_is_played_again_is_taken_once(run, tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    ledger.take(0, run, [FIRST, SECOND], WINDOW_US)
    ledger.take(1, run, [THIRD], WINDOW_US)
    before = ledger.files
    for again in (ledger, Ledger(tmp_path / "ledger")):
        again.take(1, run, [THIRD], WINDOW_US)
        assert again.files == before
    assert Ledger(tmp_path / "ledger").files == before


def test_a_batch_half_written_by_a_killed_process_counts_for_nothing(run, tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    ledger.take(0, run, [FIRST], WINDOW_US)
    (tmp_path / "ledger" / ".1").mkdir()
    (tmp_path / "ledger" / ".1" / "files.json").write_text("[{")
    again = Ledger(tmp_path / "ledger")
    assert [notes.name for notes in again.files] == [FIRST]
    again.take(1, run, [SECOND], WINDOW_US)
    assert [notes.name for notes in Ledger(tmp_path / "ledger").files] == [FIRST, SECOND]


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_damaged_ledger_says_so(run, tmp_path, damage):
    ledger = Ledger(tmp_path / "ledger")
    ledger.take(0, run, [FIRST], WINDOW_US)
    ledger.take(1, run, [SECOND], WINDOW_US)
    file = tmp_path / "ledger" / "0" / "files.json"
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:-20])
    else:
        (tmp_path / "ledger" / "0").rename(tmp_path / "elsewhere")
    with pytest.raises(LedgerBroken):
        Ledger(tmp_path / "ledger")
