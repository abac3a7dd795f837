"""A series of numbered run folders: sealing merges them into one run, can be killed at any step, and can be repeated
after more pieces.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hearsay.trace.compare_runs import verify
from hearsay.trace.folder.arrow import parquet
from hearsay.trace.folder.manifest import MANIFEST, load_manifest
from hearsay.trace.folder.writer import TraceWriter
from hearsay.trace.language.schema import NONE, WIDTH, Column, PartKind, TraceEvent
from hearsay.trace.reader import read_rows
from hearsay.trace.run_series import RunSeries, numbered_folders


def read_table(path):
    return parquet.read_table(path).to_pydict()


PEERS, TOPICS = ["a", "b"], ["news"]


def piece_rows(number):
    """Return ten deliveries, half of them of messages that are also in the next piece, and one row of each class
    `rpc`, `mesh` and `node`.
    """
    rows = np.full((13, WIDTH), NONE, dtype=np.int64)
    rows[:, Column.TIME_US] = 1_000_000 * number + np.arange(13)
    rows[:, Column.PEER] = 0
    rows[:10, Column.EVENT] = TraceEvent.DELIVER
    rows[:10, Column.MESSAGE] = np.arange(10) % 4 + 2 * number
    rows[10, [Column.EVENT, Column.KIND]] = TraceEvent.SEND_RPC, PartKind.IHAVE
    rows[11, Column.EVENT] = TraceEvent.GRAFT
    rows[12, Column.EVENT] = TraceEvent.NODE_UP
    return rows


def write_pieces(path, *numbers):
    """Write a complete run folder for each number; return the series, which is not sealed."""
    series = RunSeries(path)
    for number in numbers:
        folder = series.next_folder()
        with TraceWriter(folder.path) as writer:
            writer.add(piece_rows(number))
            written = writer.close()
        known = [2 * number, 2 * number + 1]
        folder.write_messages(known, [0, 0], [1, NONE], [10, 20], [number, number])
        folder.write_manifest(written, seed=None, complete=True)
    return series


def test_a_sealed_series_keeps_the_ids_of_messages(tmp_path):
    series = RunSeries(tmp_path)
    for number, ids in enumerate((["aa", None], ["bb", "cc"])):
        folder = series.next_folder()
        with TraceWriter(folder.path) as writer:
            writer.add(piece_rows(number))
            written = writer.close()
        folder.write_messages([2 * number, 2 * number + 1], [0, 0], [1, NONE], [10, 20], [number, number], ids)
        folder.write_manifest(written, seed=None, complete=True)
    series.seal(PEERS, TOPICS, "agent")
    assert read_table(tmp_path / "whole/dictionary/messages.parquet")["id"] == ["aa", None, "bb", "cc"]


def rows_of(path):
    return sorted(map(tuple, read_rows(path).tolist()))


def expected(*numbers):
    return sorted(tuple(row) for number in numbers for row in piece_rows(number).tolist())


def test_a_sealed_series_has_every_row_once_in_the_order_of_time(tmp_path):
    write_pieces(tmp_path, 0, 1, 2).seal(PEERS, TOPICS, "agent")
    assert verify(tmp_path) == []
    assert rows_of(tmp_path) == expected(0, 1, 2)
    trace = load_manifest(tmp_path).trace
    assert trace.spanning_messages == ()
    assert numbered_folders(tmp_path) == []
    messages = [file for file in trace.files if file.trace_class == "message"]
    assert len(messages) == 1
    times = read_rows(tmp_path, {"message"})[:, Column.TIME_US].tolist()
    assert times == sorted(times)
    assert {file.trace_class for file in trace.files} == {"message", "rpc", "mesh", "node"}
    known = read_table(tmp_path / "whole" / "dictionary" / "messages.parquet")
    assert known["message"] == [0, 1, 2, 3, 4, 5]
    assert known["publisher"] == [1, None] * 3


def test_the_hash_is_the_sum_of_the_hashes_of_pieces(tmp_path):
    write_pieces(tmp_path / "one", 0).seal(PEERS, TOPICS, "agent")
    write_pieces(tmp_path / "two", 1).seal(PEERS, TOPICS, "agent")
    write_pieces(tmp_path / "both", 0, 1).seal(PEERS, TOPICS, "agent")
    one, two, both = (int(load_manifest(tmp_path / name).trace.hash, 16) for name in ("one", "two", "both"))
    assert both == (one + two) % (1 << 128)


def test_a_sealed_series_is_continued(tmp_path):
    write_pieces(tmp_path, 0, 1).seal(PEERS, TOPICS, "agent")
    write_pieces(tmp_path, 2).seal(PEERS, TOPICS, "agent")
    write_pieces(tmp_path, 3).seal(PEERS, TOPICS, "agent")
    assert verify(tmp_path) == []
    assert rows_of(tmp_path) == expected(0, 1, 2, 3)
    assert load_manifest(tmp_path).trace.spanning_messages == ()


SEAL_AND_END_EARLY = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import test_run_series as here

CHANGES = ("os.rename", "os.remove", "os.rmdir", "shutil.rmtree", "os.mkdir")

def seal_and_open_again(path, steps):
    series = here.write_pieces(path, 0, 1)
    def die(event, arguments):
        nonlocal steps
        if event in CHANGES and str(path) in str(arguments[0]):
            steps -= 1
            if steps < 0:
                os._exit(9)
    sys.addaudithook(die)
    series.seal(here.PEERS, here.TOPICS, "agent")
    here.RunSeries(path)
    os._exit(0)

# this process imports the modules that its children need
here.write_pieces(Path(sys.argv[2]) / "imported", 0).seal(here.PEERS, here.TOPICS, "agent")
steps, code = 0, 9
while code:
    child = os.fork()
    if not child:
        seal_and_open_again(Path(sys.argv[2]) / "killed" / str(steps), steps)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 9), code
    steps += 1
"""


@pytest.mark.thorough
def test_sealing_that_is_killed_at_any_step_loses_and_repeats_no_row(tmp_path):
    """While processes seal the series and open it again, each ends before another change of the file system.

    If the folder has a manifest then, it is correct. Sealing again with one more piece gives every row once.
    """
    command = [sys.executable, "-c", SEAL_AND_END_EARLY, str(Path(__file__).parent), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    folders = sorted((tmp_path / "killed").iterdir(), key=lambda path: int(path.name))
    assert len(folders) > 20
    for path in folders:
        if (path / MANIFEST).exists():
            assert verify(path) == []
            assert rows_of(path) == expected(0, 1)
        write_pieces(path, 2).seal(PEERS, TOPICS, "agent")
        assert verify(path) == []
        assert rows_of(path) == expected(0, 1, 2)
