"""Imports of real traces of go-libp2p-pubsub, and of files that must be refused."""

from __future__ import annotations

import gzip
import itertools
import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from pubsub_trace import Batch, Event, delimited, json_line, parse_delimited, plain_rows

from hearsay.ingest.import_traces import ImportResult, NothingImported, TooManyRecords, import_traces, read_here
from hearsay.ingest.records import BadSource, peer_name, peer_of_name
from hearsay.ingest.source_record import load_events, load_source, trace_stat, tracestat
from hearsay.ingest.sources import recognise, split
from hearsay.libp2p.names.peer_id import to_base58
from hearsay.trace.compare_runs import verify
from hearsay.trace.folder.arrow import parquet
from hearsay.trace.folder.manifest import load_manifest
from hearsay.trace.folder.run_folder import RunFolder
from hearsay.trace.language.schema import PartKind, TraceEvent
from hearsay.trace.reader import iter_rows, read_rows


def read_table(path):
    return parquet.read_table(path).to_pydict()


DATA = Path(__file__).parent / "data"
RECORDED = ["go-0.19", "go-0.16", "go-0.15"]


def imported(tmp_path: Path, *files: Path, name: str = "run", **options) -> tuple[Path, ImportResult]:
    run = tmp_path / name
    done = import_traces(files, RunFolder.create(run), **options)
    assert verify(run) == []
    return run, done


def quarantined(done: ImportResult) -> dict[str, str | None]:
    return {Path(file.name).name: file.reason for file in done.record.quarantined}


def recorded_events(name: str) -> list:
    return parse_delimited(gzip.decompress((DATA / f"{name}.pb.gz").read_bytes()))


@pytest.fixture
def plain_pb(tmp_path) -> Path:
    path = tmp_path / "plain.pb"
    path.write_bytes(gzip.decompress((DATA / "go-0.16.pb.gz").read_bytes()))
    return path


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("kind", ["pb", "json"])
def test_tracestats_recorded_figures(tmp_path, name, kind):
    run, _ = imported(tmp_path, DATA / f"{name}.{kind}.gz")
    assert tracestat(run) == (DATA / f"{name}.tracestat.txt").read_text()


@pytest.mark.parametrize("name", RECORDED)
def test_rows_are_the_events_of_the_file_in_names_and_microseconds(tmp_path, name):
    run, done = imported(tmp_path, DATA / f"{name}.pb.gz")
    peers, topics, messages = (
        dict(enumerate(read_table(run / "dictionary" / f"{table}.parquet")[column]))
        for table, column in (("peers", "name"), ("topics", "name"), ("messages", "id"))
    )
    reasons = {b"validation failed": "REJECTED", b"validation ignored": "IGNORED", None: None}
    events = recorded_events(name)
    origin = min(event.timestamp for event in events)
    assert done.record.origin_unix_ns == origin
    expected = [
        (
            (time - origin) // 1000,
            event,
            kind,
            peer_name(peer),
            remote and peer_name(remote),
            topic and topic.decode(),
            message and message.hex(),
            count,
            reasons[reason],
        )
        for each in events
        for time, event, kind, peer, remote, topic, message, count, reason in plain_rows(each)
    ]
    found = [
        (
            row.time_us,
            row.event,
            row.kind,
            peers[row.peer],
            peers.get(row.remote),
            topics.get(row.topic),
            messages.get(row.message),
            row.count,
            None if row.reason is None else row.reason.name,
        )
        for row in iter_rows(run)
    ]
    assert sorted(map(repr, found)) == sorted(map(repr, expected))
    assert all(row.hops is row.bytes is row.via is row.delay_us is None for row in iter_rows(run))


def test_numbers_follow_the_order_of_the_names(tmp_path):
    run, _ = imported(tmp_path, DATA / "go-0.16.pb.gz")
    peers = read_table(run / "dictionary/peers.parquet")["name"]
    messages = read_table(run / "dictionary/messages.parquet")["id"]
    assert peers == sorted(peers)
    assert messages == sorted(messages)
    assert set(read_table(run / "dictionary/peers.parquet")["role"]) == {"traced"}


def test_messages_know_their_publication(tmp_path):
    run, done = imported(tmp_path, DATA / "go-0.16.pb.gz")
    table = read_table(run / "dictionary/messages.parquet")
    found = set(zip(table["id"], table["published_us"], table["bytes"], strict=True))
    published = {
        (event.publishMessage.messageID.hex(), (event.timestamp - done.record.origin_unix_ns) // 1000, None)
        for event in recorded_events("go-0.16")
        if event.type == 0
    }
    assert found == published


@pytest.mark.parametrize("unit_bytes", [1, 5_000, 100_000])
@pytest.mark.parametrize("kind", ["pb", "json"])
def test_cutting_a_file_into_ranges_changes_nothing(tmp_path, kind, unit_bytes):
    path = tmp_path / f"plain.{kind}"
    data = gzip.decompress((DATA / f"go-0.15.{kind}.gz").read_bytes())
    path.write_bytes(data)
    units = split(recognise(path), unit_bytes)
    assert len(units) >= len(data) // max(unit_bytes, 700)
    cut, _ = imported(tmp_path, path, name="cut", unit_bytes=unit_bytes)
    whole, _ = imported(tmp_path, DATA / "go-0.15.pb.gz", name="whole")
    assert_same_run(cut, whole)


def test_the_order_of_files_changes_nothing(tmp_path):
    events = recorded_events("go-0.15")
    files = []
    for index, start in enumerate(range(0, len(events), 50)):
        path = tmp_path / f"{index}.pb"
        path.write_bytes(delimited(events[start : start + 50]))
        files.append(path)
    forward, _ = imported(tmp_path, *files, name="forward")
    backward, _ = imported(tmp_path, *reversed(files), name="backward")
    whole, _ = imported(tmp_path, DATA / "go-0.15.pb.gz", name="whole")
    assert_same_run(forward, whole)
    assert_same_run(backward, whole)


def assert_same_run(a: Path, b: Path) -> None:
    assert load_manifest(a).trace.hash == load_manifest(b).trace.hash
    for table in ("dictionary/peers", "dictionary/topics", "dictionary/messages", "skew", "source/events"):
        assert read_table(a / f"{table}.parquet") == read_table(b / f"{table}.parquet"), table
    assert tracestat(a) == tracestat(b)


def test_a_remote_tracers_batches(tmp_path):
    events = recorded_events("go-0.15")
    path = tmp_path / "remote.gz"
    path.write_bytes(gzip.compress(delimited([Batch(batch=events[:20]), Batch(), Batch(batch=events[20:])])))
    assert recognise(path).format == "traced"
    batched, _ = imported(tmp_path, path, name="batched")
    whole, _ = imported(tmp_path, DATA / "go-0.15.pb.gz", name="whole")
    assert_same_run(batched, whole)


def test_rpcs_without_parts_are_counted_and_have_no_rows(tmp_path):
    path = tmp_path / "t.pb"
    empty = Event(type=7, peerID=b"p", timestamp=5)
    empty.sendRPC.sendTo = b"q"
    path.write_bytes(delimited([empty, empty]))
    run, done = imported(tmp_path, path)
    assert done.rows == 0
    assert load_events(run) == [(0, "send_rpc", 2)]
    assert trace_stat(run).events[TraceEvent.SEND_RPC] == 2


def test_bad_files_are_named_and_the_rest_goes_on(tmp_path, plain_pb):
    packed = (DATA / "go-0.15.pb.gz").read_bytes()
    lines = gzip.decompress((DATA / "go-0.15.json.gz").read_bytes())
    data = plain_pb.read_bytes()
    bad = {
        "empty.pb": b"",
        "empty.gz": gzip.compress(b""),
        "foreign.txt": b"These are not the bytes you are looking for",
        "cut.pb": data[:-1],
        "cut.gz": packed[:-9],
        "damaged.gz": packed[:1000] + b"\0\1\2" + packed[1003:],
        "trailing.gz": packed + b"garbage",
        "cut.json": lines[:-30],
        "mixed.json": lines + data[:2000],
        "mixed.pb": data + lines[:500],
        "not.parquet": b"PAR1" + bytes(100) + b"PAR1",
        "future.pb": delimited([Event(type=9, peerID=b"p", timestamp=1, join={"topic": "t"})]).replace(
            b"\x08\x09", b"\x08\x63"
        ),
    }
    paths = [plain_pb]
    for name, content in bad.items():
        paths.append(tmp_path / name)
        paths[-1].write_bytes(content)
    run, done = imported(tmp_path, *paths, unit_bytes=100_000)
    assert quarantined(done).keys() == bad.keys()
    reasons = quarantined(done)
    assert reasons["empty.pb"] == "empty"
    assert reasons["foreign.txt"].startswith("foreign")
    assert "truncated" in reasons["cut.pb"]
    assert "truncated" in reasons["cut.gz"]
    assert "truncated" in reasons["cut.json"]
    assert "unknown type" in reasons["future.pb"]
    assert load_source(run) == done.record
    whole, _ = imported(tmp_path, plain_pb, name="whole")
    assert_same_run(run, whole)


def test_one_node_in_two_formats_is_there_once(tmp_path):
    files = [DATA / "go-0.16.pb.gz", DATA / "go-0.16.json.gz", DATA / "go-0.19.json.gz"]
    run, done = imported(tmp_path, *files)
    assert quarantined(done) == {"go-0.16.json.gz": f"the same events as {files[0]}"}
    alone, _ = imported(tmp_path, files[0], files[2], name="alone")
    assert np.array_equal(read_rows(run), read_rows(alone))


def test_more_records_than_fit_into_memory_are_not_read_here(tmp_path, plain_pb):
    run = RunFolder.create(tmp_path / "run")
    with pytest.raises(TooManyRecords, match="more than 100 records"):
        import_traces([plain_pb], run, read=partial(read_here, most=100))
    assert not list((tmp_path / "run").glob(".spill*"))


def test_a_format_that_is_not_the_one_wanted_is_quarantined(tmp_path):
    with pytest.raises(NothingImported) as caught:
        import_traces([DATA / "go-0.15.json.gz"], RunFolder.create(tmp_path / "run"), wanted="go-pb")
    assert [file.reason for file in caught.value.record.quarantined] == [
        "the file seems to have the format go-json, but the format go-pb was given"
    ]


@pytest.mark.parametrize("kind", ["pb", "json"])
def test_a_file_cut_anywhere_is_never_read_in_part(tmp_path, kind):
    whole = gzip.decompress((DATA / f"go-0.15.{kind}.gz").read_bytes())
    events = recorded_events("go-0.15")
    writer = delimited if kind == "pb" else lambda some: b"".join(map(json_line, some))
    ends = [0, *itertools.accumulate(len(writer([event])) for event in events)]
    if kind == "pb":
        assert ends[-1] == len(whole)
    path = tmp_path / f"cut.{kind}"
    for size in range(1, 1500, 7):
        path.write_bytes(whole[:size])
        try:
            done = import_traces([path], RunFolder.create(tmp_path / f"run{size}"))
        except NothingImported:
            continue
        complete = ends if kind == "pb" else [at + 1 for at, byte in enumerate(whole) if byte == 10]
        assert size in complete or (kind == "json" and size + 1 in complete)
        assert done.rows


def test_every_cut_of_a_gzip_file_is_refused(tmp_path):
    whole = (DATA / "go-0.15.pb.gz").read_bytes()
    path = tmp_path / "cut.gz"
    for size in range(1, len(whole), 23):
        path.write_bytes(whole[:size])
        with pytest.raises(NothingImported):
            import_traces([path], RunFolder.create(tmp_path / f"run{size}"))


def test_an_unfinished_import_leaves_no_manifest_and_no_scratch(tmp_path):
    run = RunFolder.create(tmp_path / "run")
    with pytest.raises(NothingImported):
        import_traces([tmp_path / "missing.pb"], run)
    assert not (tmp_path / "run/manifest.json").exists()
    run.discard()
    assert list((tmp_path / "run").iterdir()) == [tmp_path / "run/dictionary"] or not any(
        (tmp_path / "run").iterdir()
    )


def test_recognising_a_file_without_any_format(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"\x05hello")
    with pytest.raises(BadSource, match="foreign"):
        recognise(path)


def test_the_manifest_names_the_source(tmp_path):
    run, _ = imported(tmp_path, DATA / "go-0.15.pb.gz", DATA / "go-0.16.json.gz")
    assert load_manifest(run).created_by["source"] == "go-json+traced"
    assert json.loads((run / "source.json").read_text())["reject_reasons"] == {"validation failed": 15}


@pytest.mark.parametrize(
    ("hexadecimal", "text"),
    [  # as go-libp2p writes them
        (
            "002408011220112ba562fa11af1f1d1d3b1bdc0b05d7313985cfea4be6ef5087f849cd478180",
            "12D3KooWAyPhaaNs2G9UT7zcaLnGqu4CA5ew1GyKpkPxbDJKNfYT",
        ),
        (
            "12209139839e65fabea9efd230898ad8b574509147e48d7c1e87a33d6da70fd2efbf",
            "QmY7Yh4UquoXHLPFo2XbhXkhBvFoPwmQUSa92pxnxjQuPU",
        ),
        ("736372697074", "736372697074"),
    ],
)
def test_names_of_peers(hexadecimal, text):
    assert peer_name(bytes.fromhex(hexadecimal)) == text


def test_base58_there_and_back():
    assert to_base58(b"\0\0\1") == "112"
    assert peer_of_name("112") == b"\0\0\1"
    with pytest.raises(ValueError, match="not a peer id"):
        peer_of_name("0OIl")


def test_parts_of_an_rpc_keep_their_counts(tmp_path):
    path = tmp_path / "t.pb"
    event = Event(type=6, peerID=b"p", timestamp=5)
    event.recvRPC.receivedFrom = b"q"
    event.recvRPC.meta.control.ihave.add(topic="t").messageIDs.extend([b"1", b"2", b"3"])
    event.recvRPC.meta.control.idontwant.add().messageIDs.extend([b"1"] * 4)
    event.recvRPC.meta.control.prune.add(topic="t").peers.extend([b"x", b"y"])
    path.write_bytes(delimited([event]))
    run, _ = imported(tmp_path, path)
    assert {row.kind: row.count for row in iter_rows(run)} == {
        PartKind.IHAVE: 3,
        PartKind.IDONTWANT: 4,
        PartKind.PRUNE: 1,
    }
    assert np.all(read_rows(run)[:, 0] == 0)
