"""Trace files that are cut or have flipped bits: refused in one line, never read as something else."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from rows_strategy import many_rows
from written_runs import SMALL, write_run

from hearsay.trace.compare_runs import diff_runs, verify
from hearsay.trace.folder.arrow import open_trace_file, read_group
from hearsay.trace.folder.manifest import RunFolderError, load_manifest
from hearsay.trace.language.schema import Column
from hearsay.trace.reader import iter_rows

FILE = "trace/class=message/part-00000.parquet"
COUNT_OF_A_DICTIONARY = b"\x3c\x15"
"""In the header of a page: the dictionary's header (field 7, after the checksum), and its first field."""


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("damaged") / "run"
    write_run(path, many_rows(400, 5))
    return path


@pytest.fixture
def whole(run):
    data = (run / FILE).read_bytes()
    yield data
    (run / FILE).write_bytes(data)


def footer_of(data: bytes) -> int:
    """Where the footer begins."""
    return len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :]


def read(run: Path, data: bytes) -> list[list[list[int]]] | None:
    """The columns of each group of rows, or None if the file is refused by its name."""
    (run / FILE).write_bytes(data)
    try:
        file = open_trace_file(run / FILE)
        groups = [read_group(file, group, run / FILE) for group in range(file.num_row_groups)]
    except RunFolderError as error:
        said = str(error)
    else:
        return [[column.tolist() for column in group] for group in groups]
    assert FILE in said
    return None


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("trace_rows", r"run: the files hold \d+ rows, the manifest says 7"),
        ("rows", r"\.parquet: \d+ rows instead of 7"),
    ],
)
def test_rows_that_the_manifest_counts_otherwise_are_not_shown(tmp_path, field, message):
    write_run(tmp_path / "run", many_rows(400, 5))
    file = tmp_path / "run" / "manifest.json"
    manifest = json.loads(file.read_text())
    if field == "rows":
        changed = manifest["files"][0]
        manifest["trace_rows"] += 7 - changed["rows"]
        changed["rows"] = 7
    else:
        manifest["trace_rows"] = 7
    file.write_text(json.dumps(manifest))
    with pytest.raises(RunFolderError, match=message):
        list(iter_rows(tmp_path / "run"))
    with pytest.raises(RunFolderError, match=message):
        diff_runs(tmp_path / "run", tmp_path / "run")


def test_the_first_rows_need_no_later_row_groups(tmp_path):
    path = tmp_path / "run"
    rows = many_rows(4000, 5)
    rows[:, Column.TIME_US] = np.arange(len(rows))
    write_run(path, rows, **SMALL)
    every = list(iter_rows(path))
    for count in (1, 2, 17, 400):
        assert list(iter_rows(path, first=count)) == every[:count]
    for file in load_manifest(path).trace.files:
        data = bytearray((path / file.name).read_bytes())
        metadata = open_trace_file(path / file.name).metadata
        for times in (metadata.row_group(group).column(0) for group in range(metadata.num_row_groups)):
            if times.statistics.min > every[2].time_us:
                data[times.data_page_offset + times.total_compressed_size - 1] ^= 1
        (path / file.name).write_bytes(data)
    with pytest.raises(RunFolderError, match="is damaged"):
        list(iter_rows(path))
    assert list(iter_rows(path, first=2)) == every[:2]


def test_a_file_cut_at_any_byte_of_its_footer_is_refused(run, whole):
    for length in range(footer_of(whole), len(whole)):
        assert read(run, whole[:length]) is None, length


def test_an_empty_file_and_one_of_zeros_are_refused(run, whole):
    for data in (b"", b"\0" * len(whole), whole[: footer_of(whole)] + b"\0" * (len(whole) - footer_of(whole))):
        assert read(run, data) is None


def test_a_flipped_bit_among_the_rows_is_never_read_as_another_row(run, whole):
    """Pages have checksums, their headers have none. Most of these hold statistics that no reader uses; a flip
    there goes unseen, and one in the count of a dictionary is seen by the manifest alone."""
    good = read(run, whole)
    refused = 0
    for place in range(4, footer_of(whole), 5):
        found = read(run, flipped(whole, place))
        if whole[place - 2 : place] == COUNT_OF_A_DICTIONARY:
            assert verify(run) == [f"{FILE}: changed, its checksum differs"]
            continue
        assert found in (None, good), place
        refused += found is None
    assert refused > 0.8 * (footer_of(whole) - 4) / 5


def test_a_flipped_bit_in_the_footer_is_refused_or_seen_by_the_manifest(run, whole):
    for place in range(footer_of(whole), len(whole), 3):
        read(run, flipped(whole, place))
    for place in np.linspace(0, len(whole) - 1, 60).astype(int):
        (run / FILE).write_bytes(flipped(whole, int(place)))
        assert verify(run) == [f"{FILE}: changed, its checksum differs"]
