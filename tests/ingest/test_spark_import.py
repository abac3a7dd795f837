"""The import as a Spark job against the import in one process: the same run, on a real Spark."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from hearsay.ingest.import_traces import import_traces
from hearsay.ingest.source_record import tracestat
from hearsay.ingest.sources import recognise, split
from hearsay.ingest.spark_import import read_with_spark
from hearsay.trace.compare_runs import verify
from hearsay.trace.folder.arrow import parquet
from hearsay.trace.folder.manifest import load_manifest
from hearsay.trace.folder.run_folder import RunFolder
from hearsay.trace.language.rows import canonical
from hearsay.trace.reader import read_rows


def read_table(path):
    return parquet.read_table(path).to_pydict()


DATA = Path(__file__).parent / "data"


@pytest.mark.thorough
def test_spark_imports_the_same_run(spark, tmp_path):
    plain = tmp_path / "plain.pb"
    plain.write_bytes(gzip.decompress((DATA / "go-0.16.pb.gz").read_bytes()))
    lines = tmp_path / "lines.json"
    lines.write_bytes(gzip.decompress((DATA / "go-0.15.json.gz").read_bytes()))
    cut = tmp_path / "cut.pb.gz"
    cut.write_bytes((DATA / "go-0.15.pb.gz").read_bytes()[:-20])
    bad_in_the_middle = tmp_path / "bad.pb"
    data = bytearray(plain.read_bytes())
    first_tag = data.index(b"\x08", split(recognise(plain), 200_000)[1].start)
    data[first_tag] = 0x0B
    bad_in_the_middle.write_bytes(data)
    files = [plain, cut, lines, bad_in_the_middle, DATA / "go-0.19.pb.gz", DATA / "go-0.15.pb.gz"]

    here = import_traces(files, RunFolder.create(tmp_path / "here"), unit_bytes=200_000)
    read = read_with_spark(spark, rows_per_partition=1500)
    there = import_traces(files, RunFolder.create(tmp_path / "there"), read=read, unit_bytes=200_000)

    assert here == there
    assert [Path(file.name).name for file in there.record.quarantined] == ["cut.pb.gz", "bad.pb", "go-0.15.pb.gz"]
    assert verify(tmp_path / "there") == []
    a, b = load_manifest(tmp_path / "here"), load_manifest(tmp_path / "there")
    assert (a.trace.rows, a.trace.hash, a.created_by) == (b.trace.rows, b.trace.hash, b.created_by)
    assert sum(file.trace_class == "message" for file in b.trace.files) > 2
    assert np.array_equal(canonical(read_rows(tmp_path / "here")), canonical(read_rows(tmp_path / "there")))
    for table in ("dictionary/peers", "dictionary/topics", "dictionary/messages", "skew", "source/delays"):
        assert read_table(tmp_path / f"here/{table}.parquet") == read_table(tmp_path / f"there/{table}.parquet")
    assert tracestat(tmp_path / "here") == tracestat(tmp_path / "there")
