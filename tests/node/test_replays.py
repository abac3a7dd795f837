"""Replays of signed messages: sequence numbers of authors, the file that stores them, and real nodes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting import run, until

from hearsay.core.language.rpc import Rpc
from hearsay.libp2p.frames import frame
from hearsay.libp2p.host import Host
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.names.peer_id import peer_id_of
from hearsay.node import sequence_numbers
from hearsay.node.config import NodeConfig
from hearsay.node.node import Node
from hearsay.node.sequence_numbers import WINDOW, SequenceFile, SequenceFileError, SequenceNumbers, decode, encode
from hearsay.trace.folder.durable import write_durably
from hearsay.wire.encode import encode_rpc
from hearsay.wire.signing import Author, SignaturePolicy

MESHSUB = "/meshsub/1.1.0"
QUICK = {"heartbeat_interval_ms": 100, "first_heartbeat_ms": 20, "first_heartbeat_spread_ms": 50, "seen_ttl_ms": 100}
ALICE, BOB, CAROL = (peer_id_of(PrivateKey.generate().public) for _ in range(3))


def number(value):
    return value.to_bytes(8, "big")


def test_a_number_is_taken_once_and_messages_may_overtake_each_other():
    numbers = SequenceNumbers(10)
    assert [numbers.take(ALICE, number(value)) for value in (5000, 5003, 5001, 5003, 5001, 5000, 5002)] == [
        True, True, True, False, False, False, True,
    ]  # fmt: skip
    assert not numbers.is_new(ALICE, number(5003 - WINDOW))
    assert numbers.is_new(ALICE, number(5004 - WINDOW))
    assert numbers.take(ALICE, number(1 << 63))
    assert not numbers.take(ALICE, number(5004))
    assert numbers.take(BOB, number(1))


def test_what_was_known_before_is_refused_up_to_the_highest():
    numbers = SequenceNumbers(10, [(ALICE, 5000)])
    assert [numbers.is_new(ALICE, number(value)) for value in (4000, 4999, 5000, 5001)] == [False, False, False, True]
    assert numbers.take(ALICE, number(5002))
    assert [numbers.is_new(ALICE, number(value)) for value in (5000, 5001, 5002)] == [False, True, False]


def test_the_author_that_was_silent_for_longest_is_forgotten_first():
    numbers = SequenceNumbers(2)
    for author in (ALICE, BOB, ALICE, CAROL):
        numbers.take(author, number(7 + numbers.changes))
    assert [author for author, _ in numbers.highest()] == [ALICE, CAROL]


@given(st.lists(st.integers(0, 3 * WINDOW)))
def test_no_number_is_ever_taken_twice(values):
    numbers = SequenceNumbers(1)
    taken = [value for value in values if numbers.take(ALICE, number(value))]
    assert len(taken) == len(set(taken))
    assert not values or taken[0] == values[0]


@given(st.lists(st.tuples(st.sampled_from([ALICE, BOB]), st.integers(0, (1 << 64) - 1))))
def test_files_are_read_as_they_were_written(highest):
    assert decode(encode(highest)) == highest


DAMAGE = [lambda b: b[:-1], lambda b: b"", lambda b: b[:40] + bytes([b[40] ^ 1]) + b[41:], lambda b: b + b"x"]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_refused_by_its_name(tmp_path, damage):
    path = tmp_path / "numbers"
    path.write_bytes(damage(encode([(ALICE, 7), (BOB, 8)])))
    with pytest.raises(SequenceFileError, match=r"numbers: the file is damaged"):
        SequenceFile(path, 10)
    path.unlink()
    SequenceFile(path, 10)


def test_two_nodes_cannot_have_one_file_and_a_killed_one_leaves_it_free(tmp_path):
    path = tmp_path / "numbers"
    holds = (
        "import sys; from pathlib import Path; from hearsay.node.sequence_numbers import SequenceFile; "
        "file = SequenceFile(Path(sys.argv[1]), 10); print('has it', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", holds, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout.readline() == "has it\n"
    with pytest.raises(SequenceFileError, match="another node uses this file"):
        SequenceFile(path, 10)
    os.kill(other.pid, signal.SIGKILL)
    other.wait()
    other.stdin.close()
    other.stdout.close()
    SequenceFile(path, 10)


def test_a_file_that_is_closed_during_a_write_keeps_the_latest_numbers(tmp_path, monkeypatch):
    path, began, go_on = tmp_path / "numbers", threading.Event(), threading.Event()

    def write_slowly(path, encoded):
        if not began.is_set():
            began.set()
            go_on.wait(20)
        write_durably(path, encoded)

    async def close_during_a_write():
        file = SequenceFile(path, 10)
        file.start()
        file.numbers.take(ALICE, number(1))
        await until(began.is_set)
        file.numbers.take(ALICE, number(2))
        closing = asyncio.ensure_future(file.close())
        await asyncio.sleep(0.1)
        go_on.set()
        await closing

    monkeypatch.setattr(sequence_numbers, "WRITE_S", 0.01)
    monkeypatch.setattr(sequence_numbers, "write_durably", write_slowly)
    asyncio.run(close_during_a_write())
    assert decode(path.read_bytes()) == [(ALICE, 2)]


@asynccontextmanager
async def stranger(node):
    """Yield a function that writes messages to a node, unchanged, as a connected peer."""
    host = Host()
    host.handle(MESHSUB, lambda stream: None)
    try:
        await host.dial(node.addresses[0])
        stream = await host.open_stream(node.peer, [MESHSUB])
        await until(lambda: host.peer in node.peers)
        yield lambda *messages: stream.write(frame(encode_rpc(Rpc(messages=messages))))
    finally:
        await host.close()


def written(author, *data):
    return [author.write("news", each, SignaturePolicy.STRICT_SIGN) for each in data]


def forgotten(node):
    """Expire the seen cache of a node; return whether it is empty."""
    router = node._running.router
    router.seen.expire(node._running.clock())
    return not router.seen.known


def test_a_replay_is_neither_delivered_nor_forwarded_however_late_and_after_a_restart(tmp_path):
    @run
    async def test():
        author = Author(PrivateKey.generate(), 1000)
        first, second, third = written(author, b"first", b"second", b"third")
        careful = NodeConfig(parameters=QUICK, refuse_replays=tmp_path / "numbers")
        async with Node(NodeConfig(parameters=QUICK)) as friend:
            there = await friend.join("news")
            for replayed, fresh, count in ((first, second, 1), (second, third, 2)):
                async with Node(careful) as node, stranger(node) as send:
                    here = await node.join("news")
                    await node.connect(friend.addresses[0])
                    await until(lambda node=node: node.mesh("news"))
                    if count == 1:
                        send(first)
                        for topic in (here, there):
                            assert (await topic.next()).data == b"first"
                    await until(lambda node=node: forgotten(node) and forgotten(friend))
                    send(replayed)
                    await until(lambda node=node: node.statistics.replays == 1)
                    send(fresh)
                    for topic in (here, there):
                        assert (await topic.next()).data == fresh.data

    test()


def test_a_message_that_the_application_refused_uses_up_no_number():
    @run
    async def test():
        (message,) = written(Author(PrivateKey.generate(), 1000), b"first")
        async with Node(NodeConfig(parameters=QUICK, refuse_replays=True)) as node, stranger(node) as send:
            here = await node.join("news")
            answers = [False, True]

            async def validator(_):
                return answers.pop(0)

            node.add_validator("news", validator)
            send(message)
            await until(lambda: node.statistics.rejected == 1 and forgotten(node))
            send(message)
            assert (await here.next()).data == b"first"

    test()


def test_replays_cannot_be_refused_where_nothing_is_signed():
    with pytest.raises(ValueError, match="signed"):
        NodeConfig(refuse_replays=True, signatures=SignaturePolicy.STRICT_NO_SIGN)
