"""Trace files that are cut or have with_flipped_bit bits: readers refuse them by name, or `verify` finds them."""

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
BEFORE_DICTIONARY_COUNT = b"\x3c\x15"
"""The two bytes before the number of values in a dictionary page's header, in Thrift's compact protocol: they begin
field 7 (`dictionary_page_header`), which follows field 4 (`crc`), and its first field."""


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("damaged") / "run"
    write_run(path, many_rows(400, 5))
    return path


@pytest.fixture
def whole(run):
    """Yield the bytes of the file, and restore the file after the test."""
    data = (run / FILE).read_bytes()
    yield data
    (run / FILE).write_bytes(data)


def footer_start(data: bytes) -> int:
    """Return the offset of the footer in a Parquet file."""
    return len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]


def with_flipped_bit(data: bytes, offset: int) -> bytes:
    return data[:offset] + bytes([data[offset] ^ 1 << offset % 8]) + data[offset + 1 :]


def write_and_read(run: Path, data: bytes) -> list[list[list[int]]] | None:
    """Return the columns of each row group, or None if the file is refused with an error that names it."""
    (run / FILE).write_bytes(data)
    try:
        file = open_trace_file(run / FILE)
        groups = [read_group(file, group, run / FILE) for group in range(file.num_row_groups)]
    except RunFolderError as error:
        error_text = str(error)
    else:
        return [[column.tolist() for column in group] for group in groups]
    assert FILE in error_text
    return None


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("trace_rows", r"run: the files hold \d+ rows, the manifest says 7"),
        ("rows", r"\.parquet: \d+ rows instead of 7"),
    ],
)
def test_a_wrong_row_count_in_the_manifest_is_refused(tmp_path, field, message):
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
    for length in range(footer_start(whole), len(whole)):
        assert write_and_read(run, whole[:length]) is None, length


def test_empty_and_zeroed_files_are_refused(run, whole):
    for data in (b"", b"\0" * len(whole), whole[: footer_start(whole)] + b"\0" * (len(whole) - footer_start(whole))):
        assert write_and_read(run, data) is None


def test_a_flipped_bit_among_the_rows_is_never_read_as_another_row(run, whole):
    """Pages have checksums, page headers have none. Most bytes of headers are statistics that no reader uses, so a
    flip there changes nothing. Only `verify` finds a flip in the count of a dictionary."""
    good = write_and_read(run, whole)
    refused = 0
    for offset in range(4, footer_start(whole), 5):
        found = write_and_read(run, with_flipped_bit(whole, offset))
        if whole[offset - 2 : offset] == BEFORE_DICTIONARY_COUNT:
            assert verify(run) == [f"{FILE}: changed, its checksum differs"]
            continue
        assert found in (None, good), offset
        refused += found is None
    assert refused > 0.8 * (footer_start(whole) - 4) / 5


def test_a_flipped_bit_in_the_footer_is_refused_or_found_by_verify(run, whole):
    for offset in range(footer_start(whole), len(whole), 3):
        write_and_read(run, with_flipped_bit(whole, offset))
    for offset in np.linspace(0, len(whole) - 1, 60).astype(int):
        (run / FILE).write_bytes(with_flipped_bit(whole, int(offset)))
        assert verify(run) == [f"{FILE}: changed, its checksum differs"]
