"""Imports find the clocks that are off, and by how much, but leave the times of rows as they are."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from commands import hearsay
from hypothesis import given
from hypothesis import strategies as st
from pubsub_trace import delimited, parse_delimited

from hearsay.ingest.import_traces import import_traces
from hearsay.ingest.records import peer_name
from hearsay.ingest.skew import PairDelays, estimate_clocks, pair_delays
from hearsay.trace.folder.arrow import parquet
from hearsay.trace.folder.run_folder import RunFolder
from hearsay.trace.language.schema import NONE, Column, PartKind, TraceEvent
from hearsay.trace.reader import read_rows


def read_table(path):
    return parquet.read_table(path).to_pydict()


DATA = Path(__file__).parent / "data"


def delays_between(delays: dict[tuple[int, int], int]) -> PairDelays:
    senders, receivers = zip(*delays, strict=True) if delays else ((), ())
    numbers = [np.array(values, dtype=np.int64) for values in (senders, receivers)]
    found = np.array(list(delays.values()), dtype=np.int64)
    return PairDelays(numbers[0], numbers[1], found)


def test_two_clocks():
    clocks = estimate_clocks(delays_between({(0, 1): 51_000, (1, 0): -49_000}), [0, 1])
    assert [(clock.offset_us, clock.uncertainty_us, clock.flagged) for clock in clocks] == [
        (0, 0, False),
        (50_000, 1_001, True),
    ]
    assert [clock.smallest_delay_us for clock in clocks] == [-49_000, 51_000]


def test_one_direction_tells_no_offset():
    (sender, receiver) = estimate_clocks(delays_between({(0, 1): -5}), [0, 1])
    assert (sender.offset_us, receiver.offset_us, receiver.smallest_delay_us, receiver.flagged) == (
        None,
        None,
        -5,
        False,
    )


def test_groups_have_references_of_their_own():
    clocks = estimate_clocks(delays_between({(0, 1): 10, (1, 0): 10, (2, 3): 30, (3, 2): -10}), [0, 1, 2, 3, 4])
    assert [clock.reference for clock in clocks] == [0, 0, 2, 2, None]
    assert [clock.offset_us for clock in clocks] == [0, 0, 0, 20, None]


@given(
    st.lists(st.integers(-10_000_000, 10_000_000), min_size=2, max_size=7),
    st.data(),
)
def test_the_truth_lies_within_the_uncertainty(clocks, data):
    delays = {}
    for a, b in itertools.permutations(range(len(clocks)), 2):
        if data.draw(st.booleans()):
            delays[a, b] = data.draw(st.integers(0, 200_000)) + clocks[b] - clocks[a]
    for estimate in estimate_clocks(delays_between(delays), range(len(clocks))):
        if estimate.offset_us is None:
            continue
        truth = clocks[estimate.peer] - clocks[estimate.reference]
        assert abs(estimate.offset_us - truth) <= estimate.uncertainty_us
        assert not (estimate.flagged and truth == 0)


def write_shifted(tmp_path: Path, by_ns: int) -> tuple[Path, str]:
    """Write the recorded trace with the clock of one peer put forward; return the path and the peer's name."""
    events = parse_delimited(gzip.decompress((DATA / "go-0.16.pb.gz").read_bytes()))
    victim = events[0].peerID
    for event in events:
        if event.peerID == victim:
            event.timestamp += by_ns
    path = tmp_path / "shifted.pb"
    path.write_bytes(delimited(events))
    return path, peer_name(victim)


@pytest.mark.parametrize("by_us", [50_000, -50_000])
def test_a_real_trace_with_one_clock_put_wrong(tmp_path, by_us):
    path, victim = write_shifted(tmp_path, by_us * 1000)
    run = tmp_path / "run"
    import_traces([path], RunFolder.create(run))
    table = read_table(run / "skew.parquet")
    names = read_table(run / "dictionary/peers.parquet")["name"]
    flagged = {names[peer]: place for place, peer in enumerate(table["peer"]) if table["flagged"][place]}
    assert flagged.keys() == {victim}
    place = flagged[victim]
    assert abs(table["offset_us"][place] - by_us) <= table["uncertainty_us"][place]
    import_traces([DATA / "go-0.16.pb.gz"], RunFolder.create(tmp_path / "right"))
    assert not any(read_table(tmp_path / "right/skew.parquet")["flagged"])
    moved = read_rows(run)[:, Column.TIME_US]
    assert moved.max() - moved.min() != np.ptp(read_rows(tmp_path / "right")[:, Column.TIME_US])


def plain_delays(rows: np.ndarray) -> dict[tuple[int, int], int]:
    """Return the smallest delay of each pair of peers, by the rule of `message_facts` in plain Python."""
    sent, received = {}, {}
    receipts = (TraceEvent.RECV_RPC, TraceEvent.DELIVER, TraceEvent.DUPLICATE, TraceEvent.REJECT)
    for row in rows.tolist():
        time, event, kind, peer, remote, message = (
            row[column]
            for column in (
                Column.TIME_US,
                Column.EVENT,
                Column.KIND,
                Column.PEER,
                Column.REMOTE,
                Column.MESSAGE,
            )
        )
        if NONE in (remote, message) or remote == peer:
            continue
        if event == TraceEvent.SEND_RPC and kind == PartKind.PUBLISH:
            key = (peer, remote, message)
            sent[key] = min(time, sent.get(key, time))
        elif event in receipts:
            key = (remote, peer, message)
            received[key] = min(time, received.get(key, time))
    smallest: dict[tuple[int, int], int] = {}
    for (a, b, message), time in received.items():
        if (a, b, message) in sent:
            delay = time - sent[a, b, message]
            smallest[a, b] = min(delay, smallest.get((a, b), delay))
    return smallest


@pytest.mark.parametrize("name", ["go-0.15", "go-0.16"])
def test_smallest_delays_of_real_traces(tmp_path, name):
    run = tmp_path / "run"
    import_traces([DATA / f"{name}.json.gz"], RunFolder.create(run))
    found = pair_delays(read_rows(run, {"message"}))
    pairs = zip(found.sender.tolist(), found.receiver.tolist(), strict=True)
    expected = plain_delays(read_rows(run, {"message"}))
    assert dict(zip(pairs, found.delay_us.tolist(), strict=True)) == expected
    assert len(expected) > 5


def test_an_import_states_which_clocks_are_off_and_by_how_much(tmp_path):
    lines = [json.loads(line) for line in gzip.decompress((DATA / "go-0.16.json.gz").read_bytes()).splitlines()]
    late = lines[0]["peerID"]
    for line in lines:
        line["timestamp"] += 5_000_000_000 * (line["peerID"] == late)
    (tmp_path / "late.json").write_text("\n".join(map(json.dumps, lines)) + "\n")
    done = hearsay("trace", "import", tmp_path / "late.json", "--out", tmp_path / "run")
    assert "the clocks of 1 of 10 nodes are off, and latencies too, by up to 5,0" in done.stdout
