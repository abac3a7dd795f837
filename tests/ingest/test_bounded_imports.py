"""Small files that unpack to large ones are refused, and take little memory."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hearsay.ingest.records import peer_of_name
from hearsay.ingest.sources import LONGEST_LINE

IMPORT = """
import resource, sys
from pathlib import Path
from hearsay.ingest.import_traces import NothingImported, import_traces
from hearsay.trace.folder.run_folder import RunFolder
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    import_traces([Path(sys.argv[1])], RunFolder.create(Path(sys.argv[2])))
except NothingImported as nothing:
    print(nothing.record.files[0].reason)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
MOST_GROWTH_KIB = 200 << 10
"""Maximum growth of memory by an import in addition to its libraries, in KiB."""


def import_in_process(file: Path, run: Path) -> tuple[str, int]:
    """Import a file in a process of its own; return the reason of a refusal and the growth of memory in KiB."""
    done = subprocess.run([sys.executable, "-c", IMPORT, str(file), str(run)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *reason, grown = done.stdout.splitlines()
    return "".join(reason), int(grown)


@pytest.mark.thorough
@pytest.mark.parametrize("head", [b'{"type":0,"peerID":"', b"\n" * 8 + b'{"'])
def test_a_line_without_end_in_a_small_gzip_file_is_refused(tmp_path, head):
    file = tmp_path / "long.json.gz"
    with gzip.open(file, "wb", compresslevel=1) as target:
        target.write(head)
        for _ in range(40):
            target.write(b"A" * (8 << 20))
    assert file.stat().st_size < 4 << 20
    reason, grown = import_in_process(file, tmp_path / "run")
    assert f"a line is longer than {LONGEST_LINE >> 20} MiB" in reason
    assert grown < MOST_GROWTH_KIB


def write_hermes_file(path: Path, texts: object, rows: int, **options: object) -> Path:
    column = pa.array(["add_remove"] * rows)
    table = pa.table(
        {
            "timestamp": pa.array([1_700_000_000_000] * rows),
            "type": column,
            "producer_id": pa.array([PEER] * rows),
            "sub_type": pa.array(["add_peer"] * rows),
            "remote_peer_id": texts,
        }
    )
    pq.write_table(table, path, compression="zstd", store_schema=False, **options)
    return path


PEER = "QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N"
ROWS = 500
LONG = "1" * 1_000_000


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["dictionary", "deltas", "plain"])
def test_a_small_parquet_file_with_gigabytes_of_text_is_refused(tmp_path, way):
    texts = pa.array([LONG] * ROWS, pa.large_string())
    options: dict[str, object] = {"use_dictionary": False}
    if way == "dictionary":
        texts = pa.DictionaryArray.from_arrays(pa.array([0] * ROWS, pa.int32()), pa.array([LONG]))
        options = {"dictionary_pagesize_limit": 4 << 20}
    elif way == "deltas":
        options["column_encoding"] = {"remote_peer_id": "DELTA_BYTE_ARRAY"}
    file = write_hermes_file(tmp_path / "small.parquet", texts, ROWS, **options)
    del texts
    assert file.stat().st_size < 200_000
    reason, grown = import_in_process(file, tmp_path / "run")
    assert reason
    assert grown < MOST_GROWTH_KIB


@pytest.mark.thorough
def test_a_small_parquet_file_with_millions_of_rows_is_refused(tmp_path):
    rows = 3_000_000
    file = write_hermes_file(tmp_path / "small.parquet", pa.array([PEER] * rows), rows)
    assert file.stat().st_size < 100_000
    reason, grown = import_in_process(file, tmp_path / "run")
    assert "15,000,000 values, too many" in reason
    assert grown < MOST_GROWTH_KIB


def test_a_name_longer_than_any_peer_id_is_not_decoded():
    with pytest.raises(ValueError, match="of 2000000 characters is not a peer id"):
        peer_of_name("z" * 2_000_000)
