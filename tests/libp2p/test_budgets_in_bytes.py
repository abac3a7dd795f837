"""Budgets in bytes of streams, peers and a host; the peer with most bytes is disconnected first."""

from __future__ import annotations

import asyncio

import pytest
from attacker import Attacker, data_frame, frame, opening
from one_host import read_all
from waiting import patience

from hearsay.libp2p.frames import FrameReader
from hearsay.libp2p.frames import frame as framed
from hearsay.libp2p.host import READ_BYTES, Host
from hearsay.libp2p.mux.connection_limits import ConnectionLimits
from hearsay.libp2p.mux.connection_streams import STREAM_BYTES
from hearsay.libp2p.mux.multistream import line
from hearsay.libp2p.mux.yamux import YamuxLimits
from hearsay.libp2p.mux.yamux_frames import Flag, FrameType, GoAway
from hearsay.libp2p.names.errors import FrameError
from hearsay.libp2p.node_host import HostLimits
from hearsay.libp2p.resources import Budget, ResourceLimits

KIB = 1024
PIECE = 64 * KIB


def limited(**limits):
    """Return a decorator that makes a test from a coroutine function.

    Its arguments are a listening host, the list of its streams, which it does not read, and the list of peers that
    exceeded a limit.
    """

    def decorate(test):
        async def with_host():
            async with patience():
                connection = ConnectionLimits(yamux=YamuxLimits(max_unread_bytes=1 << 30))
                host = Host(limits=HostLimits(resources=ResourceLimits(**limits), connection=connection))
                held, over = [], []
                host.handle("/hold", held.append, 64)
                host.handle("/two", held.append, 2)
                host.on_over_limit.append(over.append)
                try:
                    await host.listen("/ip4/127.0.0.1/tcp/0")
                    await test(host, held, over)
                finally:
                    await host.close()

        return lambda: asyncio.run(with_host())

    return decorate


async def connect_peer(host, held, address="127.0.0.2", streams=1):
    """Return a peer with open streams of /hold."""
    attacker = await (await Attacker.connect(host, address)).upgrade()
    count = len(held) + streams
    attacker.send(*[opening(2 * number + 1, "/hold") for number in range(streams)])
    while len(held) < count:
        await asyncio.sleep(0)
    return attacker


@limited(stream=150 * KIB)
async def test_a_stream_that_is_not_read_ends_at_its_limit(host, held, over):
    attacker = await connect_peer(host, held)
    attacker.send(data_frame(1, bytes(PIECE)) * 3)
    await attacker.until(frame(FrameType.WINDOW_UPDATE, Flag.RST, 1, 0))
    assert held[0].was_reset
    assert over == [held[0].peer]
    assert host.resources.all.used == 0
    assert list(host.connections) == over


@limited(peer=300 * KIB)
async def test_a_peer_over_its_own_budget_loses_its_connection(host, held, over):
    attacker = await connect_peer(host, held, streams=4)
    for number in range(4):
        attacker.send(data_frame(2 * number + 1, bytes(PIECE)) * 2)
    assert frame(FrameType.GO_AWAY, 0, 0, GoAway.INTERNAL_ERROR) in await attacker.until_closed()
    assert (host.connections, len(over), host.resources.all.used) == ({}, 1, 0)


@limited(stream=100 * KIB)
async def test_bytes_that_are_read_no_longer_count(host, held, over):
    attacker = await connect_peer(host, held)
    for _ in range(4):
        attacker.send(data_frame(1, bytes(PIECE)))
        await read_all(held[0], PIECE)
    assert (over, host.resources.all.used) == ([], STREAM_BYTES)
    attacker.send(frame(FrameType.WINDOW_UPDATE, Flag.FIN, 1, 0))
    held[0].finish()
    assert await held[0].read() == b""
    held.clear()
    assert host.resources.all.used == 0


@limited(stream=300 * KIB)
async def test_answers_that_the_peer_does_not_read_end_the_stream(host, held, over):
    attacker = await connect_peer(host, held)
    for _ in range(10):
        held[0].write(bytes(PIECE))
    await attacker.until(frame(FrameType.WINDOW_UPDATE, Flag.RST, 1, 0))
    assert over == [held[0].peer]
    assert host.resources.all.used == 0


@limited(all=1000 * KIB, address=1000 * KIB, peer=1000 * KIB, protocol=1000 * KIB, stream=1000 * KIB)
async def test_the_peers_with_most_bytes_are_disconnected_when_the_shared_budget_is_nearly_full(host, held, over):
    honest = await connect_peer(host, held, "127.0.0.3")
    honest.send(data_frame(1, bytes(PIECE)))
    attackers = [await connect_peer(host, held, f"127.0.0.{number}", 3) for number in range(4, 8)]
    while len(over) < 3:
        for attacker in attackers:
            attacker.send(data_frame(1, bytes(KIB)), data_frame(3, bytes(KIB)), data_frame(5, bytes(KIB)))
        await asyncio.sleep(0)
    assert not set(over) & set(host.connections)
    assert held[0].peer in host.connections
    assert await read_all(held[0], PIECE) == bytes(PIECE)
    assert host.resources.all.refused == 0
    for peer in (honest, *attackers):
        peer.writer.close()


@limited(all=1000 * KIB, address=1000 * KIB, peer=1000 * KIB, protocol=1000 * KIB, stream=1000 * KIB)
async def test_many_peers_with_few_bytes_are_disconnected_without_an_offence(host, held, over):
    honest = await connect_peer(host, held, "127.0.0.3")
    host.worth = lambda: {held[0].peer: float("inf")}
    attackers = []
    while len(host.connections) == 1 + len(attackers):
        attackers.append(await connect_peer(host, held, f"127.0.1.{1 + len(attackers)}"))
        attackers[-1].send(data_frame(1, bytes(10 * KIB)))
        while host.connections.get(held[-1].peer) and len(held[-1]._unread) < 10 * KIB:
            await asyncio.sleep(0)
    assert held[0].peer in host.connections
    assert host.resources.all.used < 800 * KIB
    assert (over, host.resources.all.refused) == ([], 0)
    for peer in (honest, *attackers):
        peer.writer.close()


@limited(all=1000 * KIB, address=1000 * KIB, peer=1000 * KIB, protocol=1000 * KIB, stream=1000 * KIB)
async def test_memory_is_freed_in_the_turn_in_which_other_peers_filled_it(host, held, over):
    """Several peers may fill a shared budget within one turn of the loop; the next peer is not refused."""
    peers = [await connect_peer(host, held, f"127.0.0.{number}") for number in (3, 4, 5)]
    first, second, honest = (stream.budget for stream in held)
    assert (first.reserve(400 * KIB), second.reserve(500 * KIB), honest.reserve(200 * KIB)) == (True, True, True)
    assert second.closed
    assert host.resources.all.refused == 0
    while not over:
        await asyncio.sleep(0)
    assert (over, len(host.connections)) == ([held[1].peer], 2)
    for peer in peers:
        peer.writer.close()


@limited(all=1000 * KIB, address=1000 * KIB, peer=1000 * KIB, protocol=1000 * KIB, stream=1000 * KIB)
async def test_a_protected_peer_is_disconnected_after_all_others_that_keep_much(host, held, over):
    """The attackers use fewer bytes than an honest member of the mesh."""
    honest = await connect_peer(host, held, "127.0.0.3")
    honest.send(data_frame(1, bytes(200 * KIB)))
    host.worth = lambda: {held[0].peer: float("inf")}
    while host.resources.all.used < 200 * KIB:
        await asyncio.sleep(0)
    attackers = [await connect_peer(host, held, f"127.0.0.{number}") for number in range(4, 12)]
    for _ in range(100):
        for attacker in attackers:
            attacker.send(data_frame(1, bytes(KIB)))
        await asyncio.sleep(0)
    while len(over) < 2:
        await asyncio.sleep(0)
    assert held[0].peer in host.connections
    assert await read_all(held[0], 200 * KIB) == bytes(200 * KIB)
    for peer in (honest, *attackers):
        peer.writer.close()


@limited()
async def test_streams_of_a_peer_for_a_protocol_are_limited(host, held, over):
    attacker = await (await Attacker.connect(host)).upgrade()
    attacker.send(*[opening(number, "/two") for number in (1, 3, 5)])
    await attacker.until(frame(FrameType.WINDOW_UPDATE, Flag.RST, 5, 0))
    assert ([stream.id for stream in held], len(over)) == ([1, 3], 1)
    attacker.send(frame(FrameType.WINDOW_UPDATE, Flag.RST, 1, 0), opening(7, "/two"))
    await attacker.until(line("/two"))
    assert [stream.id for stream in held] == [1, 3, 7]


class AlwaysFirst:
    """Work that does not end and goes before all other work."""

    used_s = 0.0

    def work(self, until_s):
        self.used_s = -1.0
        return False


@limited()
async def test_a_socket_is_not_read_while_its_peer_has_no_turn(host, held, over):
    attacker = await (await Attacker.connect(host)).upgrade()
    while not host.connections:
        await asyncio.sleep(0)
    (connection,) = host.connections.values()
    host.turns.schedule(AlwaysFirst())
    attacker.send(bytes(8 * READ_BYTES))
    for _ in range(10_000):
        if not connection._transport.is_reading():
            break
        await asyncio.sleep(0)
    assert not connection._transport.is_reading()
    assert 0 < connection.budget.used == connection._channel.buffered_bytes <= 2 * READ_BYTES


def test_unfinished_frames_are_reserved():
    budget = Budget("stream", 100)
    reader = FrameReader(1000, budget)
    whole = framed(bytes(200))
    assert reader.receive(whole[:50]) == []
    assert budget.used == 50
    assert reader.receive(whole[50:] + whole[:10]) == [bytes(200)]
    assert budget.used == 10
    with pytest.raises(FrameError, match="no room"):
        reader.receive(whole[10:110])


def test_a_closed_budget_returns_its_bytes_to_the_budget_above():
    above = Budget("all", 100)
    one, other = Budget("one", 80, (above,)), Budget("other", 80, (above,))
    assert [one.reserve(60), other.reserve(60), other.reserve(40)] == [True, False, True]
    assert (above.used, above.refused, above.free, one.free) == (100, 1, 0, 0)
    one.close()
    one.release(60)
    assert (above.used, one.reserve(1)) == (40, False)
    del other
    assert above.used == 0
    with pytest.raises(ValueError, match="released"):
        above.release(1)
