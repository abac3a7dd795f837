"""The compiled decoder against protobuf's own library and plain Python, and against damaged bytes."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from pubsub_trace import Batch, Event, delimited, events, json_line, parse_delimited, plain_rows

from hearsay.ingest.event_decoder import MAX_MESSAGE
from hearsay.ingest.pubsub_traces import decode_pieces, is_batched, looks_like_events, protobuf_of_lines
from hearsay.ingest.records import BadSource, peer_name, plain
from hearsay.libp2p.names import protobuf as varint
from hearsay.trace.language.schema import wire_name

streams = st.lists(events(), min_size=1, max_size=6)


def decode_rows(pieces: list[bytes], batched: bool = False) -> list[tuple]:
    """Return the decoded records that are rows, in the form of `plain_rows`."""
    found = [record for batch in decode_pieces(pieces, batched) for record in plain(batch).to_pylist()]
    names = ("time_ns", "event", "kind", "peer", "remote", "topic", "message", "count", "reason")
    assert all(record[name] is None for record in found for name in ("hops", "bytes", "via", "error"))
    return [tuple(record[name] for name in names) for record in found if record["class"]]


def expected(messages: list) -> list[tuple]:
    return [in_texts(row) for event in messages for row in plain_rows(event)]


def in_texts(row: tuple) -> tuple:
    time, event, kind, peer, remote, topic, message, count, reason = row
    return (
        time,
        wire_name(event),
        None if kind is None else wire_name(kind),
        peer_name(peer),
        remote and peer_name(remote),
        None if topic is None else topic.decode("utf-8", "backslashreplace"),
        None if message is None else message.hex(),
        count,
        None if reason is None else reason.decode("utf-8", "backslashreplace"),
    )


@given(streams)
def test_rows_are_what_protobufs_library_reads(stream):
    assert decode_rows([delimited(stream)]) == expected(stream)


@given(streams, st.booleans(), st.booleans())
def test_json_is_the_same_by_old_and_new_names_and_by_protojson(stream, new_names, protojson):
    lines = [json_line(event, new_names=new_names, protojson=protojson) for event in stream]
    assert decode_rows(list(protobuf_of_lines(lines))) == expected(stream)


@given(st.lists(streams, min_size=1, max_size=3))
def test_batches_of_a_remote_tracer(batches):
    data = delimited([Batch(batch=batch) for batch in batches])
    assert is_batched(data)
    assert looks_like_events(data)
    assert decode_rows([data], batched=True) == [row for batch in batches for row in expected(batch)]


@given(streams, st.integers(1, 50))
def test_pieces_may_be_cut_anywhere(stream, size):
    data = delimited(stream)
    assert decode_rows([data[at : at + size] for at in range(0, len(data), size)]) == expected(stream)


def test_more_names_and_rows_than_the_first_tables_hold():
    stream = []
    for number in range(3000):
        event = Event(type=7, peerID=b"peer %d" % (number % 1500), timestamp=number)
        event.sendRPC.meta.messages.add(messageID=b"message %d" % number, topic=f"topic {number // 2}")
        for _ in range(100):
            event.sendRPC.meta.control.graft.add(topic="t")
        stream.append(event)
    assert decode_rows([delimited(stream)]) == expected(stream)


def test_an_event_as_large_as_the_limit_and_one_larger():
    event = Event(type=6, peerID=b"p", timestamp=1)
    event.recvRPC.meta.control.ihave.add(topic="t").messageIDs.extend([b"x" * 1000] * 4100)
    assert len(event.SerializeToString()) < MAX_MESSAGE
    assert decode_rows([delimited([event])]) == expected([event])
    event.recvRPC.meta.control.ihave[0].messageIDs.extend([b"x" * 1000] * 100)
    with pytest.raises(BadSource, match="longer than"):
        decode_rows([delimited([event])])


@given(st.lists(events(), min_size=1, max_size=3), st.data())
def test_a_cut_stream_is_refused_unless_cut_between_events(stream, data):
    whole = delimited(stream)
    cut = data.draw(st.integers(0, len(whole) - 1))
    ends = [len(delimited(stream[:count])) for count in range(len(stream))]
    if cut in ends:
        assert decode_rows([whole[:cut]]) == expected(stream[: ends.index(cut)])
    else:
        with pytest.raises(BadSource):
            decode_rows([whole[:cut]])


def check_against_protobuf(data: bytes, batched: bool) -> None:
    """Require that data are refused, or decoded as protobuf's library decodes them."""
    try:
        rows = decode_rows([data], batched)
    except BadSource:
        return
    assert rows == expected(parse_delimited(data, batched))


@given(st.binary(max_size=300), st.booleans())
def test_random_bytes_are_refused_or_read_right(data, batched):
    check_against_protobuf(data, batched)


def mutate(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(changed))
        match chance.randint(0, 3):
            case 0:
                changed[at] ^= 1 << chance.randrange(8)
            case 1:
                changed[at] = chance.choice([0, 1, 0x7F, 0x80, 0xFF])
            case 2:
                changed[at:at] = chance.randbytes(chance.randint(1, 3))
            case _:
                del changed[at : at + chance.randint(1, 3)]
        changed = changed or bytearray(b"\0")
    return bytes(changed)


@examples(3)
@given(streams, st.booleans(), st.integers(0, 2**32))
def test_mutations_are_refused_or_read_right(stream, batched, seed):
    data = delimited([Batch(batch=stream)] if batched else stream)
    check_against_protobuf(mutate(data, random.Random(seed)), batched)


@given(st.lists(events(), min_size=1, max_size=2), st.integers(0, 2**32))
def test_a_length_that_lies_inside_an_event_is_refused_or_read_right(stream, seed):
    body = mutate(stream[0].SerializeToString(), random.Random(seed))
    check_against_protobuf(varint.encode(len(body)) + body + delimited(stream[1:]), batched=False)


BOUNDS = """
import random
from pubsub_trace import Event, delimited
from test_event_decoder import check_against_protobuf, mutate

event = Event(type=7, peerID=b"p" * 38, timestamp=5)
event.sendRPC.sendTo = b"q" * 38
event.sendRPC.meta.messages.add(messageID=b"m" * 46, topic="news")
event.sendRPC.meta.subscription.add(subscribe=True, topic="news")
event.sendRPC.meta.control.ihave.add(topic="news").messageIDs.extend([b"a", b"b"])
reject = Event(type=1, peerID=b"p", timestamp=6)
reject.rejectMessage.messageID = b"m"
reject.rejectMessage.reason = "validation failed"
data = delimited([event, reject])
for seed in range(4000):
    check_against_protobuf(mutate(data, random.Random(seed)), False)
for cut in range(len(data)):
    check_against_protobuf(data[:cut] + b"\\xff" * 9, False)
"""


@pytest.mark.thorough
def test_no_index_is_out_of_bounds_by_numbas_own_checks(tmp_path):
    here = Path(__file__).parent
    run = subprocess.run(
        [sys.executable, "-c", BOUNDS],
        env={
            **os.environ,
            "NUMBA_BOUNDSCHECK": "1",
            "NUMBA_CACHE_DIR": str(tmp_path),
            "PYTHONPATH": os.pathsep.join([str(here), *sys.path]),
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"nonsense\n", "line 1"),
        (b'{"type":9', "truncated"),
        (b"[1]\n", "expected an object, not \\[1\\]"),
        (b'{"type":"NEWS","peerID":"AA==","timestamp":1}\n', "NEWS"),
        (b'{"type":true,"peerID":"AA==","timestamp":1}\n', "whole number"),
        (b'{"type":9,"peerID":"A","timestamp":1,"join":{"topic":"t"}}\n', "line 1"),
        (b'{"type":9,"peerID":"AA==","timestamp":-1,"join":{"topic":"t"}}\n', "-1 is not in 0"),
        (b'{"type":9,"peerID":"AA==","timestamp":1.5,"join":{"topic":"t"}}\n', "whole number"),
        (b'{"type":9,"peerID":"AA==","timestamp":1,"join":{"topic":7}}\n', "not a text"),
        (b"[" * 100_000 + b"\n", "line 1"),
    ],
)
def test_lines_that_are_no_events_are_refused(line, reason):
    with pytest.raises(BadSource, match=reason):
        decode_rows(list(protobuf_of_lines([line])))


def test_lists_of_topics_of_before_september_2020():
    line = b'{"type":0,"peerID":"AA==","timestamp":1,"publishMessage":{"messageID":"AQ==","topics":["a","b"]}}\n'
    assert [row[5:7] for row in decode_rows(list(protobuf_of_lines([line])))] == [("b", "01")]
