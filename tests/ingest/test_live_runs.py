"""Traces of live nodes are joined into one run: one numbering, corrected clocks, each message in one file."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

import pytest
from commands import hearsay
from hypothesis import given, settings
from hypothesis import strategies as st
from pubsub_trace import NAMES, TYPES, Event, delimited

from hearsay.core.language.actions import Deliver, DuplicateReceived, MessagePublished, MessageRejected, Reason, Via
from hearsay.core.language.rpc import Message, Rpc
from hearsay.explain.rows import clocks_of
from hearsay.ingest.import_traces import NothingImported, import_traces, join_runs
from hearsay.ingest.live_runs import folders_to_join
from hearsay.ingest.source_record import load_source
from hearsay.ingest.spark_import import read_with_spark
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.names.peer_id import peer_id_of, to_text
from hearsay.node.live_trace import LiveTrace
from hearsay.pipeline.run_facts import load_runs
from hearsay.trace.compare_runs import verify
from hearsay.trace.folder.arrow import pa, parquet, read_table
from hearsay.trace.folder.manifest import RunFolderError, load_manifest
from hearsay.trace.folder.run_folder import RunFolder
from hearsay.trace.folder.writer import TraceWriter
from hearsay.trace.language.schema import Column, TraceEvent
from hearsay.trace.reader import RowFilter, iter_rows, read_rows
from hearsay.trace.run_series import RunSeries, write_names

START_US = 1_700_000_000_000_000
HOUR_US = 3_600_000_000
ADA, BOB = sorted(peer_id_of(PrivateKey.from_seed(bytes([number]) * 32).public) for number in (1, 2))
HERS = Message(b"hers", "news", b"from Ada", ADA, b"1")
HIS = Message(b"his", "chat", b"from Bob", BOB, b"1")


def trace_node(directory, node, agent, *calls, ahead_us=0, router=None):
    """Write a node's trace: call each function at its time in µs, by a clock that may be ahead; return the folder."""
    now = [START_US + ahead_us]

    async def run() -> None:
        trace = LiveTrace(directory, node, lambda: now[0], agent, router)
        for at_us, happen in calls:
            now[0] = START_US + ahead_us + at_us
            happen(trace)
        await trace.close()

    asyncio.run(run())
    return directory


def published(message):
    return lambda trace: trace.happened(MessagePublished(message))


def sent(peer, message):
    return lambda trace: trace.sent(peer, trace.parts(Rpc((), (message,)), (Via.MESH,)))


def received(peer, message):
    def happen(trace):
        trace.received(peer, Rpc((), (message,)))
        trace.delivered(Deliver(message, peer))

    return happen


@pytest.fixture
def runs(tmp_path):
    """Ada publishes at 1 s, Bob at 2 s; each message takes a millisecond; Bob's clock is an hour ahead."""
    ada = trace_node(
        tmp_path / "ada",
        ADA,
        "hearsay/a",
        (1_000_000, published(HERS)),
        (1_000_100, sent(BOB, HERS)),
        (2_001_100, received(BOB, HIS)),
        (2_002_000, lambda trace: trace.happened(MessageRejected(HIS, BOB, Reason.BAD_SIGNATURE))),
    )
    bob = trace_node(
        tmp_path / "bob",
        BOB,
        "hearsay/b",
        (1_001_100, received(ADA, HERS)),
        (2_000_000, published(HIS)),
        (2_000_100, sent(ADA, HIS)),
        (3_000_000, lambda trace: trace.happened(DuplicateReceived(HERS.id, "news", ADA))),
        ahead_us=HOUR_US,
    )
    return [ada, bob]


def test_two_nodes_traces_become_one_run_whose_clocks_agree(runs, tmp_path):
    out = tmp_path / "joined"
    done = join_runs(runs, RunFolder.create(out))
    assert verify(out) == []
    assert (done.peers, done.messages, len(done.clocks)) == (2, 2, 2)
    clocks = parquet.read_table(out / "skew.parquet").to_pydict()
    assert clocks["flagged"] == [False, True]
    assert clocks["put_back_us"] == [0, HOUR_US]
    peers = read_table(out / "dictionary/peers.parquet")
    assert peers["name"] == [to_text(ADA), to_text(BOB)]
    assert peers["implementation"] == ["hearsay/a", "hearsay/b"]
    messages = read_table(out / "dictionary/messages.parquet")
    known = zip(*(messages[key] for key in ("id", "publisher", "bytes", "published_us")), strict=True)
    assert sorted(known) == [(b"hers".hex(), 0, 8, 1_000_000), (b"his".hex(), 1, 8, 2_000_000)]
    times = {(row.event, row.peer, row.message): row.time_us for row in iter_rows(out)}
    hers, his = (messages["id"].index(name.hex()) for name in (b"hers", b"his"))
    assert times[TraceEvent.DELIVER, 1, hers] == 1_001_100
    assert times[TraceEvent.DELIVER, 0, his] == 2_001_100
    assert min(times.values()) == 0
    files = [file for file in load_manifest(out).trace.files if file.trace_class == "message"]
    assert sum(file.rows for file in files) == 10
    assert load_manifest(out).trace.spanning_messages == ()


def test_facts_that_other_formats_lack_are_kept(runs, tmp_path):
    out = tmp_path / "joined"
    join_runs(runs, RunFolder.create(out))
    rows = list(iter_rows(out))
    assert {row.via for row in rows if row.event is TraceEvent.SEND_RPC} == {Via.MESH}
    assert {row.hops for row in rows if row.event is TraceEvent.PUBLISH} == {0}
    assert [row.reason for row in rows if row.event is TraceEvent.REJECT] == [Reason.BAD_SIGNATURE]
    record = load_source(out)
    assert record.formats == ("live",)
    assert record.reject_reasons == {"bad_signature": 1}
    assert record.origin_unix_ns == START_US * 1000


def test_the_order_of_the_runs_does_not_matter_and_pieces_serve_as_the_whole(runs, tmp_path):
    join_runs(runs, RunFolder.create(tmp_path / "one"))
    (runs[1] / "manifest.json").unlink()  # as in the folder of a killed node
    join_runs(runs[::-1], RunFolder.create(tmp_path / "other"))
    one, other = (load_manifest(tmp_path / name).trace for name in ("one", "other"))
    assert (one.hash, one.rows) == (other.hash, other.rows)


@pytest.mark.thorough
def test_a_join_on_spark_is_the_same(spark, runs, tmp_path):
    here = join_runs(runs, RunFolder.create(tmp_path / "here"))
    assert join_runs(runs, RunFolder.create(tmp_path / "there"), read=read_with_spark(spark)) == here
    assert load_manifest(tmp_path / "there").trace.hash == load_manifest(tmp_path / "here").trace.hash
    for table in ("dictionary/peers", "dictionary/messages", "skew", "source/delays"):
        assert read_table(tmp_path / f"there/{table}.parquet") == read_table(tmp_path / f"here/{table}.parquet")


def test_what_is_no_live_trace_is_refused_before_anything_is_written(runs, tmp_path):
    join_runs(runs, RunFolder.create(tmp_path / "joined"))
    with pytest.raises(RunFolderError, match="already a join"):
        folders_to_join([tmp_path / "joined"])
    with pytest.raises(RunFolderError, match="the same node and time as in"):
        folders_to_join([runs[0], runs[0]])
    shutil.copytree(runs[0], tmp_path / "longer")
    later = [(60_000_000, published(HERS))]
    trace_node(tmp_path / "longer", ADA, "hearsay/a", *later, ahead_us=HOUR_US)
    with pytest.raises(RunFolderError, match="the same node and time as in"):
        folders_to_join([runs[0], tmp_path / "longer"])
    other_life = trace_node(tmp_path / "later", ADA, "hearsay/a", *later, ahead_us=HOUR_US)
    assert len(folders_to_join([*runs, other_life])) == 3
    with pytest.raises(RunFolderError, match="does not exist"):
        folders_to_join([tmp_path / "nothing"])


@pytest.mark.parametrize(
    ("dictionary", "columns"),
    [
        ("peers", {"peer": [0, 1], "name": ["not base58!", "x"], "implementation": [None, None]}),
        ("peers", {"peer": [0, 1], "name": [["a"], ["b"]], "implementation": [None, None]}),
        ("peers", {"peer": [0], "name": [to_text(ADA)], "implementation": [None]}),
        ("topics", {"topic": [1, 2], "name": ["news", "chat"]}),
        ("messages", {"message": [-5], "bytes": [1]}),
        ("messages", {"message": [5], "bytes": [1], "id": [7]}),
        ("messages", {"message": [5]}),
    ],
)
def test_dictionaries_that_are_not_a_live_traces_are_refused(runs, tmp_path, dictionary, columns):
    path = next(folder / f"dictionary/{dictionary}.parquet" for folder in folders_to_join(runs[1:]))
    parquet.write_table(pa.table(columns), path)
    with pytest.raises((NothingImported, RunFolderError)):
        join_runs(runs, RunFolder.create(tmp_path / "joined"))


def test_a_damaged_trace_is_named_and_nothing_is_joined(runs, tmp_path):
    damaged = next(runs[1].rglob("class=node/*.parquet"))
    damaged.write_bytes(damaged.read_bytes()[:-20])
    with pytest.raises(NothingImported) as caught:
        join_runs(runs, RunFolder.create(tmp_path / "joined"))
    (file,) = caught.value.record.quarantined
    assert str(damaged) in file.reason
    assert not (tmp_path / "joined/manifest.json").exists()


def replace_by_killed(trace):
    """Replace a trace by that of a node killed after its first rows, without NODE_DOWN and manifest."""
    rest = min(folder for folder in trace.iterdir() if folder.name.isdecimal())
    rows = read_rows(rest)
    shutil.rmtree(trace)
    series = RunSeries(trace)
    folder = series.next_folder()
    with TraceWriter(folder.path) as writer:
        writer.add(rows[rows[:, Column.EVENT] != TraceEvent.NODE_DOWN])
        written = writer.close()
    write_names(folder, {0: to_text(BOB), 1: to_text(ADA)}, {0: "news", 1: "chat"}, "hearsay/b")
    series.write_names([to_text(BOB), to_text(ADA)], ["news", "chat"], "hearsay/b")
    folder.write_messages([], [], [], [], [], [])
    folder.write_manifest(written, seed=None, complete=True)
    series._own.release()


def test_a_node_that_was_killed_is_down_after_its_last_row(runs, tmp_path):
    replace_by_killed(runs[1])
    out = tmp_path / "joined"
    join_runs(runs, RunFolder.create(out))
    assert verify(out) == []
    downs = [(row.time_us, row.peer, row.reason) for row in iter_rows(out) if row.event is TraceEvent.NODE_DOWN]
    assert downs == [(2_002_000, 0, None), (3_000_001, 1, Reason.LOST)]
    assert load_source(out).reject_reasons == {"bad_signature": 1}


def test_run_folders_of_a_killed_node_name_only_the_peers_and_topics_of_their_rows(tmp_path):
    """Bob's third folder names neither Cem nor the topic of Ada's message."""
    cem = peer_id_of(PrivateKey.from_seed(b"c" * 32).public)
    now = [START_US]

    async def trace_until_killed():
        trace = LiveTrace(tmp_path / "bob", BOB, lambda: now[0], "hearsay/b")
        for happen in (received(cem, HERS), received(ADA, HIS), received(ADA, HIS)):
            now[0] += 1_000_000
            happen(trace)
            await trace._wait_for_write()
            trace._write()
            await trace._wait_for_write()
        await trace._tasks.close()
        trace._series._own.release()

    asyncio.run(trace_until_killed())
    pieces = folders_to_join([tmp_path / "bob"])
    assert [read_table(piece / "dictionary/peers.parquet", ["peer"])["peer"] for piece in pieces][1:] == [
        [0, 2],
        [0, 2],
    ]
    join_runs([tmp_path / "bob"], RunFolder.create(tmp_path / "joined"))
    assert verify(tmp_path / "joined") == []
    rows = read_rows(tmp_path / "joined")
    delivered_from = rows[rows[:, Column.EVENT] == TraceEvent.DELIVER][:, Column.REMOTE].tolist()
    names = read_table(tmp_path / "joined/dictionary/peers.parquet", ["peer"], ["name"])["name"]
    assert [names[remote] for remote in delivered_from] == [to_text(cem), to_text(ADA), to_text(ADA)]


def test_a_continued_trace_of_a_killed_node_states_when_it_was_lost(runs):
    replace_by_killed(runs[1])
    trace_node(runs[1], BOB, "hearsay/b", ahead_us=2 * HOUR_US)
    events = (TraceEvent.NODE_UP, TraceEvent.NODE_DOWN)
    ups_and_downs = [
        (row.time_us - START_US - HOUR_US, row.event, row.reason)
        for row in iter_rows(runs[1], RowFilter(events=events))
    ]
    assert ups_and_downs == [
        (0, TraceEvent.NODE_UP, None),
        (3_000_001, TraceEvent.NODE_DOWN, Reason.LOST),
        (HOUR_US, TraceEvent.NODE_UP, None),
        (HOUR_US, TraceEvent.NODE_DOWN, None),
    ]
    assert len(folders_to_join(runs)) == 2


def test_an_unclosed_trace_is_refused_with_the_command_that_reads_it(runs):
    (runs[1] / "manifest.json").unlink()
    with pytest.raises(
        RunFolderError, match=r"a node's trace that was not closed.* `hearsay trace join \S+ --out DIR`"
    ):
        load_manifest(runs[1])


@pytest.mark.parametrize(("other", "named"), [("gossipsub", "gossipsub"), ("episub", "mixed: episub, gossipsub")])
def test_the_router_is_named_by_the_nodes_that_ran_it(tmp_path, other, named):
    ada = trace_node(tmp_path / "ada", ADA, "hearsay/a", (1, published(HERS)), router="gossipsub")
    bob = trace_node(tmp_path / "bob", BOB, "hearsay/b", (1, published(HIS)), router=other)
    join_runs([ada, bob], RunFolder.create(tmp_path / "joined"))
    routers = [facts.router for facts in load_runs([ada, bob, tmp_path / "joined"])]
    assert routers == ["gossipsub", other, named]
    assert verify(tmp_path / "joined") == []


def write_go_trace(path, node, *events, ahead_us=0):
    """Write events (time in µs, type, fields) as go's tracer does, by a clock that may be ahead; return the path."""
    found = []
    for at_us, name, fields in events:
        event = Event(type=NAMES.index(name), peerID=node, timestamp=(START_US + ahead_us + at_us) * 1000)
        payload = getattr(event, TYPES[name][0])
        meta = fields.pop("sent", None)
        for field, value in fields.items():
            setattr(payload, field, value)
        if meta is not None:
            payload.meta.messages.add(messageID=meta.id, topic=meta.topic)
        found.append(event)
    path.write_bytes(delimited(found))
    return path


def published_by_go(message):
    return "PUBLISH_MESSAGE", {"messageID": message.id, "topic": message.topic}


def sent_by_go(peer, message):
    return "SEND_RPC", {"sendTo": peer, "sent": message}


def received_by_go(peer, message):
    return "DELIVER_MESSAGE", {"messageID": message.id, "topic": message.topic, "receivedFrom": peer}


def imported(path):
    run = path.with_suffix("")
    import_traces([path], RunFolder.create(run))
    return run


CAL = peer_id_of(PrivateKey.from_seed(bytes([3]) * 32).public)


def make_mixed_runs(base, clocks, flights, back=True):
    """Return runs of Ada and Cal, which run go, and of Bob, our node between them. Ada's message goes to Bob and then
    to Cal, Cal's to Bob, and Bob's to Ada unless `back` is false.
    """
    cals = Message(b"cals", "news", b"from Cal", CAL, b"1")
    (ada, bob, cal), (ada_bob, bob_ada, bob_cal, cal_bob) = clocks, flights
    ours = [
        (1_000_000 + ada_bob, received(ADA, HERS)),
        (1_500_000, sent(CAL, HERS)),
        *([(2_000_000, published(HIS)), (2_000_000, sent(ADA, HIS))] if back else []),
        (3_000_000 + cal_bob, received(CAL, cals)),
    ]
    returned = [(2_000_000 + bob_ada, *received_by_go(BOB, HIS))] if back else []
    return [
        imported(
            write_go_trace(
                base / "ada.pb", ADA, (1_000_000, *published_by_go(HERS)), (1_000_000, *sent_by_go(BOB, HERS)),
                *returned, ahead_us=ada,
            )
        ),
        trace_node(base / "bob", BOB, "hearsay/b", *ours, ahead_us=bob, router="gossipsub"),
        imported(
            write_go_trace(
                base / "cal.pb", CAL, (1_500_000 + bob_cal, *received_by_go(BOB, HERS)),
                (3_000_000, *published_by_go(cals)), (3_000_000, *sent_by_go(BOB, cals)), ahead_us=cal,
            )
        ),
    ]  # fmt: skip


@settings(max_examples=20)
@given(
    st.lists(st.integers(-HOUR_US, HOUR_US), min_size=3, max_size=3),
    st.lists(st.integers(1, 100_000), min_size=4, max_size=4),
)
def test_imports_and_a_live_run_are_joined_and_their_clocks_agree(clocks, flights):
    with tempfile.TemporaryDirectory() as base:
        runs = make_mixed_runs(Path(base), clocks, flights)
        out = Path(base) / "joined"
        done = join_runs(runs, RunFolder.create(out))
        assert verify(out) == []
        messages = read_table(out / "dictionary/messages.parquet")
        assert sorted(messages["id"]) == sorted(each.hex() for each in (b"hers", b"his", b"cals"))
        names: dict[int | None, str] = dict(enumerate(read_table(out / "dictionary/peers.parquet")["name"]))
        names_of = {name: peer for peer, name in names.items()}
        ahead = {to_text(peer): clock for peer, clock in zip((ADA, BOB, CAL), clocks, strict=True)}
        table = read_table(out / "skew.parquet")
        for clock in done.clocks:
            truth = ahead[names[clock.peer]] - ahead[names[clock.reference]]
            assert abs(clock.offset_us - truth) <= clock.uncertainty_us <= sum(flights)
            corrected = table["put_back_us"][table["peer"].index(clock.peer)]
            assert corrected == (clock.offset_us if clock.flagged else 0)
        hers = messages["id"].index(b"hers".hex())
        delivered = {
            names[row.peer]: row.time_us
            for row in iter_rows(out, RowFilter(messages={hers}, events={TraceEvent.DELIVER, TraceEvent.PUBLISH}))
        }
        late = delivered[to_text(CAL)] - delivered[to_text(ADA)]
        assert abs(late - (500_000 + flights[2])) <= 2 * sum(flights)
        ends = [names_of[to_text(peer)] for peer in (ADA, CAL)]
        known = clocks_of(out).errors_us
        assert abs(late - (500_000 + flights[2])) <= sum(known[peer][1] for peer in ends) <= 2 * sum(flights)
        assert load_runs([out])[0].router == "mixed: gossipsub, unknown"


def test_a_join_states_each_clock_and_names_those_it_cannot_know(tmp_path):
    runs = make_mixed_runs(tmp_path, (5_000_000, 0, 0), (2_000, 2_000, 1_000, 1_000))
    done = hearsay("trace", "join", *runs, "--out", tmp_path / "joined")
    assert done.returncode == 0, done.stderr
    lines = {line.split()[0]: line.split() for line in done.stdout.splitlines()}
    found = [lines[f"…{to_text(peer)[-8:]}"] for peer in (ADA, BOB, CAL)]
    assert found[0][1:3] + found[0][-1:] == ["5,000.0", "ms", "corrected"]
    assert sorted(line[-1] for line in found[1:]) == ["ms", "reference"]
    (tmp_path / "one-way").mkdir()
    runs = make_mixed_runs(tmp_path / "one-way", (5_000_000, 0, 0), (2_000, 2_000, 1_000, 1_000), back=False)
    done = hearsay("trace", "join", *runs, "--out", tmp_path / "unknown")
    assert "clock offset unknown for 1 of 3 nodes: no messages went both ways" in done.stdout


def test_an_explanation_states_how_far_the_clocks_it_compares_may_differ(tmp_path):
    runs = make_mixed_runs(tmp_path, (5_000_000, 0, 0), (2_000, 2_000, 1_000, 1_000))
    assert hearsay("trace", "join", *runs, "--out", tmp_path / "joined").returncode == 0
    hers = ("explain", tmp_path / "joined", "--message", b"hers".hex())
    done = hearsay(*hers, "--node", to_text(BOB))
    assert f"…{to_text(BOB)[-8:]} got it after 2 ms (± 4.00 ms), over 1 hop" in done.stdout
    assert "queues included (± 4.00 ms)" in done.stdout
    assert "± is the largest possible error of a time between events at two nodes" in done.stdout
    assert "(± 3.00 ms)" in hearsay(*hers).stdout
    (tmp_path / "one-way").mkdir()
    runs = make_mixed_runs(tmp_path / "one-way", (5_000_000, 0, 0), (2_000, 2_000, 1_000, 1_000), back=False)
    assert hearsay("trace", "join", *runs, "--out", tmp_path / "unknown").returncode == 0
    done = hearsay("explain", tmp_path / "unknown", "--message", b"hers".hex(), "--node", to_text(BOB))
    assert "(clock offset unknown)" in done.stdout
    assert "±" not in done.stdout.splitlines()[1]


def test_an_import_that_repeats_a_joined_trace_is_refused(tmp_path):
    runs = make_mixed_runs(tmp_path, (0, 0, 0), (1, 1, 1, 1))
    shutil.copytree(runs[0], tmp_path / "again")
    with pytest.raises(RunFolderError, match="the same node and time as in"):
        folders_to_join([*runs, tmp_path / "again"])
