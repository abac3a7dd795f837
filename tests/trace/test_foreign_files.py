"""Files from untrusted sources: readers accept only regular files, and bound sizes, values and nesting."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rows_strategy import many_rows
from written_runs import write_run

from hearsay import foreign_files
from hearsay.foreign_files import MAX_KEY_PARTS, MAX_TOML_BYTES, open_regular, parse_json, parse_toml, read_bytes
from hearsay.ingest.records import BadSource
from hearsay.ingest.sources import recognise
from hearsay.sim.scenario.reading import MAX_TABLE_BYTES, ScenarioError, read_text
from hearsay.trace.compare_runs import verify
from hearsay.trace.folder import arrow_compute, foreign_parquet
from hearsay.trace.folder import manifest as json_files
from hearsay.trace.folder.arrow import DAMAGED, open_trace_file, read_group, read_table
from hearsay.trace.folder.arrow_compute import read_plain
from hearsay.trace.folder.foreign_parquet import open_foreign
from hearsay.trace.folder.manifest import RunFolderError, load_manifest
from hearsay.trace.reader import load_names, read_rows
from hearsay.vectors.files import VectorError, read_vectors

FILE = "trace/class=message/part-00000.parquet"


@pytest.fixture
def run(tmp_path) -> Path:
    write_run(tmp_path / "run", many_rows(400, 5))
    return tmp_path / "run"


def replaced(path: Path, what: str) -> Path:
    """Put a FIFO or a link to a device in place of a file; return its path."""
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    if what == "a FIFO":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    return path


@pytest.mark.parametrize("what", ["a FIFO", "a device"])
def test_only_regular_files_are_read(tmp_path, run, what):
    refused = r"not a regular file"
    with pytest.raises(OSError, match=refused):
        open_regular(replaced(tmp_path / "file", what))
    replaced(run / "dictionary/peers.parquet", what)
    with pytest.raises(RunFolderError, match=refused):
        load_names(run)
    replaced(run / FILE, what)
    with pytest.raises(RunFolderError, match=refused):
        read_rows(run)
    manifest = json.loads((run / "manifest.json").read_text())
    for file in manifest["files"]:
        file["bytes"] = 0
    (run / "manifest.json").write_text(json.dumps(manifest))
    assert any(refused in problem for problem in verify(run))
    replaced(run / "manifest.json", what)
    with pytest.raises(RunFolderError, match=refused):
        load_manifest(run)
    with pytest.raises(ScenarioError, match=refused):
        read_text(replaced(tmp_path / "scenario.toml", what))
    with pytest.raises(VectorError, match=refused):
        read_vectors(replaced(tmp_path / "vectors.json", what))
    with pytest.raises(BadSource, match=refused):
        recognise(replaced(tmp_path / "trace.json", what))


def test_a_file_has_a_maximum_size(tmp_path):
    (tmp_path / "file").write_bytes(b"x" * 100)
    assert read_bytes(tmp_path / "file", 100) == b"x" * 100
    with pytest.raises(OSError, match="larger than 99 bytes"):
        read_bytes(tmp_path / "file", 99)


def test_a_manifest_has_a_maximum_size(run, monkeypatch):
    monkeypatch.setattr(json_files, "MAX_BYTES", 100)
    with pytest.raises(RunFolderError, match="larger than 100 bytes"):
        load_manifest(run)


def test_a_scenario_has_a_maximum_size_and_its_tables_a_larger_one(tmp_path):
    file = tmp_path / "long.toml"
    file.write_text("#" * MAX_TOML_BYTES + "\n")
    with pytest.raises(ScenarioError, match="larger than 4194304 bytes"):
        read_text(file)
    assert len(read_text(file, MAX_TABLE_BYTES)) == MAX_TOML_BYTES + 1


def test_json_has_a_maximum_number_of_objects_and_lists(monkeypatch):
    monkeypatch.setattr(foreign_files, "MAX_JSON_CONTAINERS", 3)
    assert parse_json(b'[{"a": []}]') == [{"a": []}]
    with pytest.raises(ValueError, match="more than 3 objects and lists"):
        parse_json(b"[[], {}, []]")


@pytest.mark.parametrize("text", [b"1e999", b"NaN", b"[" * 100_000])
def test_json_with_infinite_numbers_or_deep_nesting_is_refused(text):
    with pytest.raises(ValueError, match=r"not a finite number|nested too deeply"):
        parse_json(text)


@pytest.mark.parametrize("part", ["a", '"b.c"', "'d'", '"\\""'])
@pytest.mark.parametrize("way", ["[{}]", "{} = 1", "x = {{{} = 1}}", "[[{}]]"])
def test_a_key_of_toml_has_a_maximum_number_of_parts(way, part):
    assert parse_toml(way.format(" . ".join([part] * MAX_KEY_PARTS)))
    with pytest.raises(ValueError, match=r"more than 16 parts \(at line 2"):
        parse_toml("# first\n" + way.format(" . ".join([part] * (MAX_KEY_PARTS + 1))))


def test_toml_has_a_maximum_size_and_depth():
    with pytest.raises(ValueError, match="larger than"):
        parse_toml("#" * (1 + MAX_TOML_BYTES))
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_toml("a = " + "[" * 100_000)
    assert parse_toml("a = [" + "1.5, " * 100 + "]")


def table_file(path: Path, groups: int = 1, rows: int = 1000, **options: object) -> Path:
    table = pa.table({"peer": pa.array([7] * rows), "name": pa.array(["x" * 1000] * rows)})
    with pq.ParquetWriter(path, table.schema, compression="zstd", **options) as writer:
        for _ in range(groups):
            writer.write_table(table)
    return path


def test_values_are_bounded_over_all_row_groups(tmp_path, monkeypatch):
    file = table_file(tmp_path / "small.parquet", groups=60)
    monkeypatch.setattr(foreign_parquet, "PER_BYTE", 0)
    monkeypatch.setattr(foreign_parquet, "BASE_VALUES", 120_000)
    open_foreign(file)
    monkeypatch.setattr(foreign_parquet, "BASE_VALUES", 119_999)
    with pytest.raises(ValueError, match=r"120,000 values, too many for its [\d,]+ bytes; the limit is 119,999"):
        open_foreign(file)
    assert open_foreign(file, ["peer"]).read(["peer"]).num_rows == 60_000


def test_bytes_are_bounded_over_all_row_groups(tmp_path, monkeypatch):
    file = table_file(tmp_path / "small.parquet", groups=60, use_dictionary=False)
    monkeypatch.setattr(foreign_parquet, "PER_BYTE", 0)
    monkeypatch.setattr(foreign_parquet, "BASE_BYTES", 61_000_000)
    open_foreign(file)
    monkeypatch.setattr(foreign_parquet, "BASE_BYTES", 60_000_000)
    with pytest.raises(
        RunFolderError, match=r"unpacked bytes, too many for its [\d,]+ bytes; the limit is 60,000,000"
    ):
        read_table(file, ["peer"], ["name"])


def test_bytes_are_counted_in_the_pages_not_in_the_footer(tmp_path, monkeypatch):
    file = table_file(tmp_path / "small.parquet", rows=5000, use_dictionary=False, write_statistics=False)
    data = file.read_bytes()
    footer = len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]
    size = pq.read_metadata(file).row_group(0).column(1).total_uncompressed_size
    true_size, small_size = varint(2 * size), varint(2 * size, short=True)
    assert data.count(true_size, footer) >= 1
    file.write_bytes(data[:footer] + data[footer:].replace(true_size, small_size))
    assert pq.read_metadata(file).row_group(0).column(1).total_uncompressed_size < 100
    monkeypatch.setattr(foreign_parquet, "PER_BYTE", 0)
    monkeypatch.setattr(foreign_parquet, "BASE_BYTES", 5_000_000)
    with pytest.raises(ValueError, match="bytes; the limit is 5,000,000"):
        open_foreign(file)


def varint(value: int, *, short: bool = False) -> bytes:
    """Return a number as a varint; with `short`, the number 20 in a varint of the same length."""
    parts = []
    while value > 0x7F:
        parts.append(value & 0x7F)
        value >>= 7
    parts = [each | 0x80 for each in (parts if not short else [20] + [0] * (len(parts) - 1))]
    return bytes([*parts, 0 if short else value])


@pytest.mark.parametrize(
    ("header", "what"),
    [
        (b"\x15\x00\x15\x80\x80\x80\x80\x20\x15\x00\x00", "2 GiB and more"),
        (b"\x15\x00\x15\x03\x15\x00\x00", "a negative size"),
        (b"\x15\x00\x15\x14\x15\x14\x04\x04\x02\x00", "a size that is there twice"),
        (b"\x1c" * 100, "structs in structs"),
        (b"\x19" * 100, "a list"),
    ],
)
def test_headers_that_no_page_has_are_refused(tmp_path, header, what):
    file = table_file(tmp_path / "small.parquet", use_dictionary=False)
    data = file.read_bytes()
    file.write_bytes(data[:4] + header + data[4 + len(header) :])
    with pytest.raises(DAMAGED, match="page"):
        open_foreign(file)


def test_a_footer_has_a_maximum_size(tmp_path, monkeypatch):
    file = table_file(tmp_path / "small.parquet", groups=10)
    monkeypatch.setattr(foreign_parquet, "MAX_FOOTER_BYTES", 1000)
    with pytest.raises(ValueError, match=r"a footer of \d+ bytes; at most 1000 are read"):
        open_foreign(file)


def test_lists_are_not_read(tmp_path):
    pq.write_table(pa.table({"peer": [[1, 2]], "other": [1]}), tmp_path / "lists.parquet")
    with pytest.raises(ValueError, match=r"column 'peer.list.element' is not one of plain"):
        open_foreign(tmp_path / "lists.parquet", ["peer"])
    assert open_foreign(tmp_path / "lists.parquet", ["other"]).read(["other"]).num_rows == 1


def test_the_decoded_size_of_a_repeated_text_is_bounded(tmp_path, monkeypatch):
    file = table_file(tmp_path / "small.parquet")
    assert read_plain(file).column("name").to_pylist() == ["x" * 1000] * 1000
    monkeypatch.setattr(arrow_compute, "BASE_BYTES", 700_000)
    with pytest.raises(ValueError, match="1000000 bytes of text in 1000 rows; at most 956000 are read"):
        read_plain(file)


def test_columns_of_a_trace_have_their_types(tmp_path, run):
    table = pq.read_table(run / FILE)
    place = table.schema.names.index("time_us")
    times = pa.array([float("nan")] * table.num_rows)
    pq.write_table(table.set_column(place, "time_us", times), tmp_path / "times.parquet")
    with pytest.raises(RunFolderError, match="column time_us holds double"):
        open_trace_file(tmp_path / "times.parquet")


def test_names_of_columns_and_events_are_escaped_and_cut(tmp_path, run):
    pq.write_table(pa.table({"\x1b[31m\nforged": [1], "x" * 100_000: [1]}), tmp_path / "names.parquet")
    with pytest.raises(RunFolderError) as caught:
        open_trace_file(tmp_path / "names.parquet")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1200
    table = pq.read_table(run / FILE)
    events = pa.array(["\x1b]0;" + "e" * (1 << 20)] * table.num_rows).dictionary_encode()
    pq.write_table(table.set_column(1, "event", events), run / FILE)
    with pytest.raises(RunFolderError, match="unknown event") as caught:
        read_rows_of(run / FILE)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1200


def read_rows_of(file: Path) -> None:
    read_group(open_trace_file(file), 0, file)


def test_a_small_file_takes_little_memory(tmp_path):
    """A process reads sixty row groups with megabytes of zeros, and prints by how many KiB its memory has grown."""
    table = pa.table({name: pa.array([0] * 500_000) for name in ("peer", "other")})
    with pq.ParquetWriter(
        tmp_path / "zeros.parquet", table.schema, compression="zstd", use_dictionary=False
    ) as writer:
        for _ in range(60):
            writer.write_table(table)
    assert (tmp_path / "zeros.parquet").stat().st_size < 400_000
    done = subprocess.run(
        [sys.executable, "-c", PRINT_MEMORY_GROWTH, str(tmp_path / "zeros.parquet")],
        capture_output=True,
        text=True,
        check=True,
    )
    error_text, grown_kib = done.stdout.splitlines()
    assert "60,000,000 values, too many" in error_text
    assert int(grown_kib) < 100 << 10


PRINT_MEMORY_GROWTH = """
import resource, sys
from pathlib import Path
from hearsay.trace.folder.arrow import read_table
from hearsay.trace.folder.manifest import RunFolderError
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    read_table(Path(sys.argv[1]), ["peer", "other"])
except RunFolderError as error:
    print(error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


PRINT_NEW_THREADS = """
import os, sys
from pathlib import Path
from hearsay.trace.folder.arrow_compute import read_plain
from hearsay.trace.reader import read_rows
from hearsay.trace.reader import load_names
run = Path(sys.argv[1])
threads = os.listdir("/proc/self/task")
list(read_rows(run)), load_names(run), read_plain(run / sys.argv[2])
print(len(os.listdir("/proc/self/task")) - len(threads))
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="counts threads as Linux shows them")
def test_no_thread_of_arrow_holds_a_file_when_python_ends(run):
    """A process is aborted if a thread releases a Python object while the interpreter ends."""
    read = subprocess.run([sys.executable, "-c", PRINT_NEW_THREADS, run, FILE], capture_output=True, text=True)
    assert (read.stdout, read.stderr) == ("0\n", "")
