"""A rendezvous point on a real socket, and peers that exceed its limits."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from attacker import Attacker, data_frame, opening
from waiting import patience, until

from hearsay.libp2p.frames import FrameReader, frame
from hearsay.libp2p.host import Host
from hearsay.libp2p.mux.stream import StreamClosed
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import peer_id_of
from hearsay.libp2p.names.protobuf import encode
from hearsay.libp2p.rates import Rate
from hearsay.libp2p.rendezvous import (
    MAX_MESSAGE_BYTES,
    PROTOCOL,
    MessageType,
    PeerRecord,
    RendezvousMessage,
    encode_message,
    seal_record,
)
from hearsay.libp2p.rendezvous_streams import PointLimits, Registry, RendezvousPoint, ask

DISCOVER = RendezvousMessage(type=MessageType.DISCOVER, namespace="news")
QUESTION = frame(encode_message(DISCOVER))
PADDING = (Multiaddr.parse("/dns4/" + "a" * 200 + "/tcp/1"),) * 17


def attack(**limits):
    """Return a decorator that makes a test from a coroutine function.

    Its arguments are a point with forty padded records, its host, and a host that is connected to it. At the end,
    another peer gets an answer.
    """

    def decorate(test):
        async def with_point():
            async with patience():
                host, attacker, honest = Host(), Host(), Host()
                try:
                    await host.listen("/ip4/127.0.0.1/tcp/0")
                    point = RendezvousPoint(host, PointLimits(**limits))
                    fill(point.registry)
                    await attacker.dial(host.addresses[0])
                    await test(point, host, attacker)
                    await honest.dial(host.addresses[0])
                    assert (await ask(honest, host.peer, DISCOVER)).records
                finally:
                    for one in (host, attacker, honest):
                        await one.close()

        return lambda: asyncio.run(with_point())

    return decorate


def fill(registry):
    for _ in range(40):
        key = PrivateKey.generate()
        record = seal_record(key, PeerRecord(peer_id_of(key.public), 1, PADDING))
        registered = RendezvousMessage(type=MessageType.REGISTER, namespace="news", record=record)
        registry.answer(peer_id_of(key.public), "127.0.0.1", registered)


async def streams_to(point, attacker, count):
    return [await attacker.open_stream(point, [PROTOCOL]) for _ in range(count)]


async def read_answers(stream, count):
    """Return the first `count` answers in a stream."""
    reader, found = FrameReader(MAX_MESSAGE_BYTES), []
    while len(found) < count:
        data = await stream.read()
        assert data, "the point finished"
        found += reader.receive(data)
    return found


@attack()
async def test_a_peer_that_does_not_read_gets_no_more_answers_than_its_windows_hold(point, host, attacker):
    streams = await streams_to(host.peer, attacker, 8)
    for stream in streams:
        stream.write(QUESTION * 60)
    held = host.connections[attacker.peer]._streams._streams
    await until(lambda: len(held) == 8 and all(stream._paused and stream.unsent for stream in held.values()))
    assert sum(stream.unsent for stream in held.values()) < 8 * 70_000


@attack()
async def test_a_peer_that_reads_gets_all_answers_in_order(point, host, attacker):
    (stream,) = await streams_to(host.peer, attacker, 1)
    stream.write(QUESTION * 60)
    stream.finish()
    assert len(set(await read_answers(stream, 60))) > 1  # chance decides which peers come first
    assert await stream.read() == b""
    await until(lambda: not point._streams)


@attack(stream_s=0.5)
async def test_a_stream_ends_at_its_deadline(point, host, attacker):
    silent, unread, finished = await streams_to(host.peer, attacker, 3)
    unread.write(QUESTION * 60)
    finished.write(QUESTION * 5)
    finished.finish()
    await until(lambda: all(stream.was_reset for stream in (silent, unread, finished)))
    assert not point._streams


@attack()
async def test_a_peer_has_eight_streams_and_more_are_reset(point, host, attacker):
    streams = await streams_to(host.peer, attacker, 12)
    await until(lambda: sum(stream.was_reset for stream in streams) == 4)
    for stream in streams[:2]:
        stream.reset()
    await until(lambda: point._streams[attacker.peer] == 6)
    (again,) = await streams_to(host.peer, attacker, 1)
    again.write(QUESTION)
    await read_answers(again, 1)


@attack()
async def test_questions_that_wait_are_bounded(point, host, attacker):
    (stream,) = await streams_to(host.peer, attacker, 1)
    stream.write(QUESTION * 65)
    await until(lambda: stream.was_reset)


@attack()
async def test_a_question_is_bounded_before_its_bytes_come(point, host, attacker):
    (stream,) = await streams_to(host.peer, attacker, 1)
    stream.write(encode(8193))
    await until(lambda: stream.was_reset)


@attack()
async def test_an_invalid_request_that_waited_ends_its_stream(point, host, attacker):
    (stream,) = await streams_to(host.peer, attacker, 1)
    stream.write(QUESTION + frame(b"\xff"))
    with pytest.raises(StreamClosed):
        await read_answers(stream, 2)


class CountingRegistry(Registry):
    """A registry that counts its requests by address."""

    def __init__(self, now_s):
        super().__init__(now_s)
        self.asked = Counter()

    def answer(self, peer, address, asked):
        self.asked[address] += 1
        return super().answer(peer, address, asked)


async def ask_as_other_peers(host):
    """Get two answers for each of five peers at 127.0.0.1."""
    for _ in range(5):
        honest = Host()
        try:
            await honest.dial(host.addresses[0])
            for _ in range(2):
                await ask(honest, host.peer, DISCOVER)
        finally:
            await honest.close()


async def count_requests(point, host, peers, expected):
    """Return the numbers of answered requests by address.

    Each of `peers` peers at 127.0.0.2 sends four. After `expected` of them are answered, peers at 127.0.0.1 send ten.
    """
    point.registry = CountingRegistry(asyncio.get_running_loop().time)
    crowd = [await (await Attacker.connect(host, "127.0.0.2")).upgrade() for _ in range(peers)]
    for one in crowd:
        one.send(opening(1, PROTOCOL), data_frame(1, QUESTION * 2), data_frame(1, QUESTION * 2))
    await until(lambda: point.registry.asked["127.0.0.2"] >= expected)
    await ask_as_other_peers(host)
    asked = point.registry.asked.copy()
    fill(point.registry)
    for one in crowd:
        one.writer.close()
    return asked


@attack(rate=Rate(3, 0.001))
async def test_the_rate_of_requests_of_a_peer_is_limited(point, host, attacker):
    assert await count_requests(point, host, 1, 3) == {"127.0.0.2": 3, "127.0.0.1": 10}


@attack(address_rate=Rate(50, 0.001))
async def test_the_rate_of_an_address_is_limited_and_other_addresses_are_answered(point, host, attacker):
    assert await count_requests(point, host, 20, 50) == {"127.0.0.2": 50, "127.0.0.1": 10}


@attack(rate=Rate(2, 0.001), address_rate=Rate(2, 0.001))
async def test_a_peer_whose_address_is_refused_keeps_its_own_rate(point, host, attacker):
    assert not point.use_or_wait_s(b"first", "127.0.0.2")
    assert not point.use_or_wait_s(b"second", "127.0.0.2")
    assert point.use_or_wait_s(b"third", "127.0.0.2")
    assert point.use_or_wait_s(b"third", "127.0.0.2")
    assert [point.use_or_wait_s(b"third", "127.0.0.3") > 0 for _ in range(3)] == [False, False, True]
