"""`TraceWriter`: row groups and files of bounded size, from which every row is read again."""

from __future__ import annotations

import subprocess
import sys
from errno import EFBIG
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows_strategy import as_rows, many_rows, row_codes
from written_runs import SMALL, message_rows, write_run

from hearsay.trace.compare_runs import verify
from hearsay.trace.folder.run_folder import RunFolder
from hearsay.trace.folder.writer import TraceWriter
from hearsay.trace.language.rows import canonical
from hearsay.trace.language.schema import COLUMNS, WIDTH, Column, PartKind, TraceEvent, Via
from hearsay.trace.reader import read_rows


def add_and_close(writer: TraceWriter, rows: np.ndarray) -> None:
    writer.add(rows)
    writer.close()


def temporary_files(path: Path) -> list[Path]:
    return [entry for entry in path.rglob(".*") if not entry.name.startswith(".hearsay-")]


def message_files(path: Path) -> dict[str, np.ndarray]:
    files = sorted((path / "trace" / "class=message").glob("*.parquet"))
    return {
        file.name: parquet.read_table(file)["message"].fill_null(-1).to_numpy(zero_copy_only=False) for file in files
    }


@given(st.lists(row_codes, max_size=120), st.integers(1, 50), st.integers(1, 60))
def test_every_row_comes_back(codes, portion, group):
    rows = as_rows(codes)
    with TemporaryDirectory() as directory:
        path = Path(directory) / "run"
        written = write_run(path, rows, portion, row_group_rows=group, target_file_bytes=1)
        assert canonical(read_rows(path)).tolist() == canonical(rows).tolist()
        assert verify(path) == []
        assert temporary_files(path) == []
        assert written.rows == len(rows)
        assert all(file.rows <= group for file in written.files)


def test_rows_of_messages_lie_in_the_order_of_their_times(tmp_path):
    rows = message_rows(messages=30, rows_each=10, seed=3)
    write_run(tmp_path / "run", rows[np.argsort(rows[:, Column.TIME_US])], **SMALL)
    times = read_rows(tmp_path / "run")[:, Column.TIME_US].tolist()
    assert len(times) == 300
    assert times == sorted(times)


def test_messages_in_several_files_are_declared(tmp_path):
    rows = message_rows(messages=5, rows_each=100, seed=4)
    rows[:, Column.TIME_US] += 1_000_000 * (rows[:, Column.MESSAGE] // 2)
    written = write_run(tmp_path / "run", rows[np.argsort(rows[:, Column.TIME_US])], **SMALL)
    files = [set(messages.tolist()) for messages in message_files(tmp_path / "run").values()]
    assert len(files) > 3
    several = {message for message in range(5) if sum(message in each for each in files) > 1}
    assert written.spanning_messages == tuple(sorted(several))


def test_slightly_late_rows_are_sorted(tmp_path):
    times = np.arange(400)
    rows = many_rows(400, seed=7)
    rows[:, Column.EVENT], rows[:, Column.TIME_US] = TraceEvent.GRAFT, times ^ 7
    write_run(tmp_path / "run", rows, portion=10, **SMALL)
    assert read_rows(tmp_path / "run")[:, Column.TIME_US].tolist() == times.tolist()


def test_files_hold_nulls_and_strings(tmp_path):
    row = (5, TraceEvent.SEND_RPC, PartKind.PUBLISH, 1, -1, 0, 2, -1, -1, -1, -1, -1, -1)
    write_run(tmp_path / "run", as_rows([row]))
    (record,) = parquet.read_table(tmp_path / "run" / "trace" / "class=message" / "part-00000.parquet").to_pylist()
    assert tuple(record) == COLUMNS
    assert record == dict.fromkeys(COLUMNS) | {
        "time_us": 5,
        "event": "send_rpc",
        "kind": "publish",
        "peer": 1,
        "topic": 0,
        "message": 2,
    }


def test_equal_runs_are_equal_to_the_byte(tmp_path):
    rows = many_rows(500, seed=8)
    write_run(tmp_path / "a", rows, **SMALL)
    write_run(tmp_path / "b", rows, portion=33, **SMALL)
    names = sorted(file.relative_to(tmp_path / "a") for file in (tmp_path / "a").rglob("*") if file.is_file())
    assert names
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.mark.parametrize("rotate_us", [None, 9])
def test_the_background_writes_the_same_bytes(tmp_path, rotate_us):
    """Rows are late and early, classes have several files, and the caller reuses the array that it hands over."""
    rows = many_rows(60_000, seed=12)
    rows = rows[np.argsort(rows[:, Column.TIME_US] ^ 3, kind="stable")]
    limits = {"row_group_rows": 900, "target_file_bytes": 20_000}
    written = []
    for name, background in (("here", False), ("there", True)):
        folder = RunFolder.create(tmp_path / name)
        portion = np.empty((20_000, WIDTH), dtype=np.int64)
        with TraceWriter(tmp_path / name, background=background, rotate_us=rotate_us, **limits) as writer:
            for start in range(0, len(rows), len(portion)):
                portion[:] = rows[start : start + len(portion)]
                writer.add(portion)
            written.append(writer.close())
        folder.write_manifest(written[-1], seed=None, complete=True)
    assert written[0] == written[1]
    assert written[0].rows == len(rows)
    assert len(written[0].files) > 10
    assert canonical(read_rows(tmp_path / "there")).tolist() == canonical(rows).tolist()


def test_an_error_in_the_background_is_raised(tmp_path):
    rows = many_rows(40_000, seed=9)
    rows[39_999, Column.EVENT] = -1
    RunFolder.create(tmp_path / "run")
    writer = TraceWriter(tmp_path / "run", background=True, **SMALL)
    with pytest.raises(ValueError, match="event -1 is out of range"):
        add_and_close(writer, rows)
    assert temporary_files(tmp_path / "run") == []
    with pytest.raises(ValueError, match="is closed"):
        writer.add(rows)


def test_a_hash_given_by_the_caller_is_used(tmp_path):
    rows = many_rows(100, seed=13)
    RunFolder.create(tmp_path / "run")
    with TraceWriter(tmp_path / "run", known_hash=lambda: "0f") as writer:
        writer.add(rows)
        written = writer.close()
    assert (written.hash, written.rows) == ("0f", 100)


@pytest.mark.parametrize(
    ("column", "value"),
    [(Column.HOPS, 40_000), (Column.PEER, 2**31), (Column.VIA, len(Via)), (Column.REASON, -2), (Column.TIME_US, -1)],
)
def test_a_value_that_does_not_fit_is_an_error(tmp_path, column, value):
    rows = many_rows(100, seed=9)
    rows[50, column] = value
    RunFolder.create(tmp_path / "run")
    writer = TraceWriter(tmp_path / "run", **SMALL)
    with pytest.raises(ValueError, match=f"{column.name.lower()} {value} is out of range"):
        add_and_close(writer, rows)
    assert temporary_files(tmp_path / "run") == []


@pytest.mark.parametrize(("column", "value"), [(1, -1), (1, len(TraceEvent)), (2, -2), (2, len(PartKind))])
def test_an_unknown_event_or_kind_is_an_error(tmp_path, column, value):
    rows = many_rows(1, seed=10)
    rows[0, column] = value
    RunFolder.create(tmp_path / "run")
    with pytest.raises(ValueError, match=f"{COLUMNS[column]} {value} is out of range"):
        TraceWriter(tmp_path / "run").add(rows)


def test_an_abandoned_writer_leaves_finished_parts_only(tmp_path):
    rows = many_rows(2000, seed=11)
    folder = RunFolder.create(tmp_path / "run")
    with TraceWriter(tmp_path / "run", **SMALL) as writer:
        writer.add(rows)
        assert temporary_files(tmp_path / "run")
    assert temporary_files(tmp_path / "run") == []
    folder.write_manifest(writer.written(), seed=None, complete=False)
    assert verify(tmp_path / "run") == []
    assert 0 < len(read_rows(tmp_path / "run")) < 2000


FULL_DISK = """
import resource, sys
from pathlib import Path
import numpy as np
from hearsay.trace.folder.run_folder import RunFolder
from hearsay.trace.language.schema import TraceEvent
from hearsay.trace.folder.writer import TraceWriter
from rows_strategy import many_rows

path = Path(sys.argv[1])
limit, background = map(int, sys.argv[2:])
folder = RunFolder.create(path)
writer = TraceWriter(
    path,
    row_group_rows=1000,
    target_file_bytes=30_000,
    background=bool(background),
)
mesh = many_rows(20_000, seed=1)
mesh[:, 1] = TraceEvent.GRAFT
writer.add(mesh)
while not writer.files:
    writer.add(mesh[:1])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    for seed in range(10):
        writer.add(many_rows(20_000, seed))
    writer.close()
except OSError as error:
    print("errno", error.errno)
    folder.write_manifest(writer.written(), seed=1, complete=False)
    sys.exit(3)
"""


@pytest.mark.parametrize("background", [pytest.param(0, marks=pytest.mark.thorough), 1])
def test_a_full_disk_keeps_the_finished_files(tmp_path, background):
    numbers = ["20000", str(background)]
    run = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path / "run"), *numbers],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stdout, run.stderr) == (3, f"errno {EFBIG}\n", "")
    assert temporary_files(tmp_path / "run") == []
    assert verify(tmp_path / "run") == []
    assert len(read_rows(tmp_path / "run")) >= 1000


@given(st.lists(row_codes, max_size=120), st.integers(1, 50), st.integers(1, 9))
def test_every_row_comes_back_from_rotated_files(codes, portion, steps):
    rows = as_rows(codes)
    rows = rows[np.argsort(rows[:, Column.TIME_US], kind="stable")]
    span = int(np.ptp(rows[:, Column.TIME_US])) if len(rows) else 1
    with TemporaryDirectory() as directory:
        path = Path(directory) / "run"
        limits = {"row_group_rows": 10, "target_file_bytes": 1}
        written = write_run(path, rows, portion, rotate_us=max(span // steps, 1), **limits)
        assert canonical(read_rows(path)).tolist() == canonical(rows).tolist()
        assert verify(path) == []
        assert temporary_files(path) == []
        assert written.rows == len(rows)


def test_rotated_files_hold_the_rows_up_to_their_time(tmp_path):
    rows = message_rows(messages=12, rows_each=10, seed=6)
    rows[:, Column.TIME_US] += 1_000_000 * rows[:, Column.MESSAGE]
    rows = rows[np.argsort(rows[:, Column.TIME_US], kind="stable")]
    RunFolder.create(tmp_path / "run")
    with TraceWriter(tmp_path / "run", rotate_us=3_000_000) as writer:
        for row in rows[:-20]:
            writer.add(row[None])
        before = message_files(tmp_path / "run")
        assert [sorted(set(messages.tolist())) for messages in before.values()] == [
            [0, 1, 2, 3],
            [3, 4, 5, 6],
            [6, 7, 8, 9],
        ]
        writer.add(rows[-20:])
        written = writer.close()
    assert written.spanning_messages == (3, 6, 9)
    after = message_files(tmp_path / "run")
    assert {name: after[name].tolist() for name in before} == {name: found.tolist() for name, found in before.items()}
    assert sum(map(len, after.values())) == len(rows)


def test_a_rotated_run_is_the_same_trace(tmp_path):
    rows = many_rows(3000, 8)
    rows = rows[np.argsort(rows[:, Column.TIME_US], kind="stable")]
    whole, rotated = (
        write_run(tmp_path / name, rows, 100, rotate_us=every) for name, every in (("a", None), ("b", 1))
    )
    assert rotated.hash == whole.hash
    assert len(rotated.files) > len(whole.files)
