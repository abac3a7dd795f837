"""The Spark data source of foreign traces: records, partitions, and errors of bad files."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pubsub_trace import Event, delimited

from hearsay.ingest import register
from hearsay.ingest.import_traces import import_traces
from hearsay.ingest.records import FIELDS, PLAIN_SCHEMA
from hearsay.ingest.spark_import import TraceReader
from hearsay.trace.folder.run_folder import RunFolder
from hearsay.trace.language.schema import wire_name
from hearsay.trace.reader import iter_rows, load_names

DATA = Path(__file__).parent / "data"
PAGE = Path(__file__).parents[2] / "docs/guide/foreign-traces.md"


def read(*paths: object, **options: object) -> list[list[dict]]:
    """Return the records of each partition."""
    given = {"paths": json.dumps([str(path) for path in paths])} | {key: str(value) for key, value in options.items()}
    reader = TraceReader(given)
    batches = [list(reader.read(partition)) for partition in reader.partitions()]
    assert all(batch.schema == PLAIN_SCHEMA for each in batches for batch in each)
    return [pa.Table.from_batches(each, PLAIN_SCHEMA).to_pylist() for each in batches]


def without_file(record: dict) -> dict:
    return {name: record[name] for name in FIELDS[2:]}


@pytest.mark.parametrize("name", ["go-0.19.json.gz", "go-0.16.pb.gz"])
def test_records_with_a_class_are_the_rows_of_an_import(tmp_path, name):
    run = tmp_path / "run"
    done = import_traces([DATA / name], RunFolder.create(run))
    ((*records,),) = read(DATA / name)
    names = load_names(run)
    rows = Counter(
        (
            row.time_us,
            wire_name(row.event),
            None if row.kind is None else wire_name(row.kind),
            names.peer(row.peer),
            None if row.remote is None else names.peer(row.remote),
            None if row.topic is None else names.topic(row.topic),
            row.count,
        )
        for row in iter_rows(run)
    )
    fields = ("event", "kind", "peer", "remote", "topic", "count")
    origin_ns = done.record.origin_unix_ns
    found = Counter(
        ((record["time_ns"] - origin_ns) // 1000, *(record[field] for field in fields))
        for record in records
        if record["class"]
    )
    assert found == rows
    assert sum(record["part"] == 0 for record in records) == done.record.files[0].events
    assert not any(record["error"] for record in records)


@pytest.mark.parametrize("kind", ["pb", "json"])
def test_a_plain_file_is_read_in_ranges_of_bytes(tmp_path, kind):
    path = tmp_path / f"plain.{kind}"
    path.write_bytes(gzip.decompress((DATA / f"go-0.15.{kind}.gz").read_bytes()))
    ((*whole,),) = read(path)
    ranges = read(path, partitionBytes=5_000)
    assert len(ranges) > 3
    assert [record for part in ranges for record in part] == whole


def test_a_folder_and_a_pattern_are_their_files(tmp_path):
    for name in ("a.pb.gz", "b.pb.gz", ".hidden", "_SUCCESS"):
        (tmp_path / name).write_bytes((DATA / "go-0.15.pb.gz").read_bytes())
    for path in (tmp_path, tmp_path / "*.pb.gz"):
        files = [part[0]["file"] for part in read(path)]
        assert [Path(file).name for file in files] == ["a.pb.gz", "b.pb.gz"]


def test_an_rpc_without_parts_is_a_record_without_class(tmp_path):
    path = tmp_path / "t.pb"
    empty = Event(type=7, peerID=b"p", timestamp=5)
    empty.sendRPC.sendTo = b"q"
    path.write_bytes(delimited([empty]))
    (((record),),) = read(path)
    assert (record["event"], record["class"], record["kind"], record["part"]) == ("send_rpc", None, None, 0)


def test_what_cannot_be_read_is_a_record_with_the_error(tmp_path):
    (tmp_path / "cut.pb").write_bytes(gzip.decompress((DATA / "go-0.15.pb.gz").read_bytes())[:-1])
    (tmp_path / "foreign.txt").write_bytes(b"These are not the bytes you are looking for")
    cut, foreign = read(tmp_path / "cut.pb", tmp_path / "foreign.txt")
    whole = [without_file(record) for record in read(DATA / "go-0.15.pb.gz")[0]]
    assert len(cut) > 100
    assert [without_file(record) for record in cut[:-1]] == whole[: len(cut) - 1]
    assert "truncated" in cut[-1]["error"]
    assert [(record["file"], record["error"][:7]) for record in foreign] == [
        (str(tmp_path / "foreign.txt"), "foreign")
    ]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "no path"),
        ({"path": "x", "traceFormat": "pcap"}, "traceFormat 'pcap': must be go-json"),
        ({"path": "x", "partitionBytes": "0"}, "partitionBytes '0': must be a whole number of 1 or more"),
        ({"path": "x", "partitionBytes": "1 MB"}, "partitionBytes '1 MB': must be a whole number of 1 or more"),
    ],
)
def test_invalid_options_are_refused(options, problem):
    with pytest.raises(ValueError, match=problem):
        TraceReader(options)


def test_the_example_of_the_guide_runs_on_spark(spark):
    register(spark)
    example = re.search(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert example
    rows = spark.read.format("hearsay").load(str(DATA / "go-0.16.pb.gz"))
    rows.createOrReplaceTempView("records")
    ((*records,),) = read(DATA / "go-0.16.pb.gz")
    events = Counter(record["event"] for record in records if record["part"] == 0 and record["event"])
    copies = {row["topic"]: (row["delivered"], row["copies"]) for row in spark.sql(example[1]).collect()}
    assert sum(delivered for delivered, _ in copies.values()) == events["deliver"] > 0
    assert sum(both for _, both in copies.values()) == events["deliver"] + events["duplicate"]
