"""A host on a real socket against hostile peers; each test is one attack."""

from __future__ import annotations

import asyncio
import tracemalloc
from contextlib import contextmanager

import pytest
from attacker import PROTOCOL_ERROR, Attacker, data_frame, frame, opening
from waiting import patience

from hearsay.libp2p import rates
from hearsay.libp2p.host import READ_BYTES, Host
from hearsay.libp2p.identify import PING_PROTOCOL, PingService
from hearsay.libp2p.mux.connection_limits import ConnectionLimits
from hearsay.libp2p.mux.multistream import HEADER as MULTISTREAM
from hearsay.libp2p.mux.multistream import Dialer, Upgrade, line
from hearsay.libp2p.mux.yamux import YamuxLimits
from hearsay.libp2p.mux.yamux_frames import INITIAL_WINDOW, Flag, FrameType
from hearsay.libp2p.names.errors import DialError
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.names.multiaddr import tcp_multiaddr
from hearsay.libp2p.node_host import HostLimits

SHORT = HostLimits(connection=ConnectionLimits(handshake_s=0.3, negotiation_s=0.3))


def attack(limits=None):
    """Return a decorator that makes a test from a coroutine function.

    Its arguments are a listening host and the list of its streams of /hold, which it does not read. At the end, an
    honest peer connects.
    """

    def decorate(test):
        async def with_host():
            async with patience():
                host = Host(limits=limits)
                held = []
                host.handle("/hold", held.append, 64)
                try:
                    await host.listen("/ip4/127.0.0.1/tcp/0")
                    await test(host, held)
                    honest = Host()
                    try:
                        await honest.dial(host.addresses[0])
                    finally:
                        await honest.close()
                finally:
                    await host.close()

        return lambda: asyncio.run(with_host())

    return decorate


@attack(SHORT)
async def test_a_peer_that_sends_nothing_is_cut_off_at_the_deadline(host, held):
    silent = await Attacker.connect(host)
    assert await silent.until_closed() == line(MULTISTREAM)


@attack(SHORT)
async def test_a_truncated_handshake_is_cut_off_at_the_deadline(host, held):
    attacker = await Attacker.connect(host)
    upgrade = Upgrade(PrivateKey.generate(), True)
    attacker.writer.write(upgrade.start())
    attacker.writer.write(upgrade.receive(await attacker.reader.read(65536))[:20])
    await attacker.until_closed()
    assert host.connections == {}


@attack(SHORT)
async def test_a_handshake_length_that_is_declared_and_never_sent(host, held):
    attacker = await Attacker.connect(host)
    attacker.writer.write(line(MULTISTREAM) + line("/noise") + b"\x1f\xff")
    await attacker.until_closed()
    assert host.connections == {}


@attack()
async def test_another_protocol_is_refused_at_once(host, held):
    attacker = await Attacker.connect(host)
    attacker.writer.write(b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n" + b"\n" * 100)
    await attacker.until_closed()


@attack()
async def test_plaintext_is_not_offered(host, held):
    attacker = await Attacker.connect(host)
    attacker.writer.write(line(MULTISTREAM) + line("/plaintext/2.0.0"))
    received = b""
    while not received.endswith(line("na")):
        received += await attacker.reader.readexactly(1)
    attacker.writer.close()


@attack()
async def test_a_replayed_handshake_is_refused(host, held):
    recorded, known = [], []
    host.on_peer_up.append(known.append)
    original = await Attacker.connect(host)
    upgrade = Upgrade(PrivateKey.generate(), True)
    to_send = upgrade.start()
    while not upgrade.done:
        recorded.append(to_send)
        original.writer.write(to_send)
        to_send = upgrade.receive(await original.reader.read(65536))
    while not host.connections:
        await asyncio.sleep(0)
    original.writer.close()
    for connection in list(host.connections.values()):
        await connection.gone
    replay = await Attacker.connect(host)
    replay.writer.write(b"".join(recorded))
    await replay.until_closed()
    assert len(known) == 1


def test_a_reflected_handshake_is_refused():
    async def reflect():
        async def mirror(reader, writer):
            while data := await reader.read(65536):
                writer.write(data)
            writer.close()

        server = await asyncio.start_server(mirror, "127.0.0.1", 0)
        host = Host()
        try:
            with pytest.raises(DialError):
                await host.dial(tcp_multiaddr(*server.sockets[0].getsockname()))
            assert host.connections == {}
        finally:
            await host.close()
            server.close()

    asyncio.run(reflect())


@attack()
async def test_a_modified_frame_ends_the_connection(host, held):
    attacker = await (await Attacker.connect(host)).upgrade()
    sealed = bytearray(attacker.channel.seal(frame(FrameType.PING, Flag.SYN, 0, 1)))
    sealed[-1] ^= 1
    attacker.writer.write(sealed)
    assert frame(FrameType.PING, Flag.ACK, 0, 1) not in await attacker.until_closed()
    assert host.connections == {}


@attack()
async def test_yamux_window_overflow_ends_the_connection(host, held):
    attacker = await (await Attacker.connect(host)).upgrade()
    attacker.send(opening(1, "/hold"))
    for _ in range(5):
        attacker.send(data_frame(1, bytes(INITIAL_WINDOW // 4)))
    assert PROTOCOL_ERROR in await attacker.until_closed()


@attack()
async def test_a_yamux_length_that_is_declared_and_never_sent(host, held):
    attacker = await (await Attacker.connect(host)).upgrade()
    attacker.send(opening(1, "/hold"), frame(FrameType.DATA, 0, 1, 200_000))
    await attacker.until(line("/hold"))
    connection = next(iter(host.connections.values()))
    used = host.resources.all.used
    attacker.send(b"part")
    await attacker.writer.drain()
    assert host.resources.all.used == used < 10_000
    attacker.writer.close()
    await connection.gone
    assert host.resources.all.used == 0


@attack(HostLimits(connection=ConnectionLimits(yamux=YamuxLimits(max_inbound_streams=8))))
async def test_a_stream_flood_is_reset_and_then_ends_the_connection(host, held):
    attacker = await (await Attacker.connect(host)).upgrade()
    attacker.send(*[frame(FrameType.WINDOW_UPDATE, Flag.SYN, 2 * number + 1, 0) for number in range(20)])
    await attacker.until(frame(FrameType.WINDOW_UPDATE, Flag.RST, 39, 0))
    connection = next(iter(host.connections.values()))
    assert len(connection._streams) == 8
    attacker.send(*[frame(FrameType.WINDOW_UPDATE, Flag.SYN, 2 * number + 101, 0) for number in range(5000)])
    assert PROTOCOL_ERROR in await attacker.until_closed()


@attack()
async def test_a_ping_flood_whose_answers_are_not_read_ends_the_connection(host, held):
    attacker = await (await Attacker.connect(host)).upgrade()
    attacker.send(frame(FrameType.PING, Flag.SYN, 0, 1) * 5000)
    assert PROTOCOL_ERROR in await attacker.until_closed()


@attack(SHORT)
async def test_a_stream_without_a_protocol_is_reset_at_the_deadline(host, held):
    attacker = await (await Attacker.connect(host)).upgrade()
    attacker.send(frame(FrameType.WINDOW_UPDATE, Flag.SYN, 1, 0))
    await attacker.until(frame(FrameType.WINDOW_UPDATE, Flag.RST, 1, 0))


@attack(HostLimits(connection=ConnectionLimits(max_negotiating=4, negotiation_s=60)))
async def test_streams_without_a_protocol_are_limited_and_those_with_one_do_not_count(host, held):
    attacker = await (await Attacker.connect(host)).upgrade()
    attacker.send(*[opening(2 * number + 1, "/hold") for number in range(10)])
    while len(held) < 10:
        await attacker.until_answered()
    idle = [frame(FrameType.WINDOW_UPDATE, Flag.SYN, 2 * number + 1, 0) for number in range(20, 30)]
    attacker.send(*idle)
    received = await attacker.until_answered() + await attacker.until_answered()
    assert [frame(FrameType.WINDOW_UPDATE, Flag.RST, 2 * number + 1, 0) in received for number in range(20, 30)] == (
        [False] * 4 + [True] * 6
    )


@attack()
async def test_pings_whose_answers_are_not_read_end_their_stream(host, held):
    PingService(host)
    attacker = await (await Attacker.connect(host)).upgrade()
    attacker.send(opening(1, PING_PROTOCOL))
    await attacker.until(line(PING_PROTOCOL))
    received = b""
    for _ in range(8):
        attacker.send(data_frame(1, bytes(INITIAL_WINDOW // 4)))
        received += await attacker.until_answered()
    assert frame(FrameType.WINDOW_UPDATE, Flag.RST, 1, 0) in received


@attack(HostLimits(max_handshakes=4))
async def test_connections_that_never_shake_hands_are_limited(host, held):
    crowd = [await Attacker.connect(host) for _ in range(10)]
    for late in crowd[4:]:
        assert await late.until_closed() == b""
    assert host.refused == 6
    for early in crowd:
        early.writer.close()
    for connection in list(host._all):
        await connection.gone


@attack(HostLimits(connection=ConnectionLimits(yamux=YamuxLimits(max_unread_bytes=4 << 20))))
async def test_the_memory_of_a_hostile_connection_is_bounded(host, held):
    """No application reads the streams: the heap grows by about the received bytes, and not beyond the limit."""
    attacker = await (await Attacker.connect(host)).upgrade()
    attacker.send(*[opening(2 * number + 1, "/hold") for number in range(64)])
    while len(held) < 64:
        await attacker.reader.read(65536)
    chunk = bytes(INITIAL_WINDOW - 1000)
    tracemalloc.start()
    try:
        for number in range(64):
            attacker.send(data_frame(2 * number + 1, chunk))
            try:
                await attacker.writer.drain()
            except ConnectionError:
                break
        while host.connections:
            await asyncio.sleep(0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * (4 << 20)


ANY_SMALL_FRAMES = HostLimits(connection=ConnectionLimits(small_frames_at_once=1e9))


async def send_one_byte_frames(host, count):
    """Send data of a stream in frames of one byte, and return the host's connection."""
    attacker = await (await Attacker.connect(host)).upgrade()
    attacker.send(opening(1, "/hold"))
    await attacker.until(line("/hold"))
    (connection,) = host.connections.values()
    sealed = [attacker.channel.seal(frame(FrameType.DATA, 0, 1, count))]
    sealed += [attacker.channel.seal(b"x") for _ in range(count)]
    attacker.writer.write(b"".join(sealed))
    return connection


MAX_SLICE_FRAMES = 2 * (16 << 10) // 19
"""An upper bound of the frames in a slice without time: twice 16 KiB, in frames of 19 bytes with one byte each."""


@contextmanager
def one_slice_at_a_time():
    """Let a host open one slice of frames, as short as possible, in each iteration of the event loop."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rates, "SLICE_S", 0.0)
        patched.setattr(rates, "TURN_S", 1e-9)
        yield


@attack(ANY_SMALL_FRAMES)
async def test_frames_of_one_byte_do_not_delay_another_peer(host, held):
    with one_slice_at_a_time():
        connection = await send_one_byte_frames(host, 200_000)
        channel, most = connection._channel, 0
        while channel.frames < 50_000:
            before = channel.frames
            await asyncio.sleep(0)
            most = max(most, channel.frames - before)
        assert 0 < most < MAX_SLICE_FRAMES, "more than a slice between two iterations of the event loop"
        other = await (await Attacker.connect(host)).upgrade()
        await other.until_answered()
        assert channel.frames < 150_000


@attack(ANY_SMALL_FRAMES)
async def test_the_socket_is_not_read_while_frames_wait(host, held):
    with one_slice_at_a_time():
        connection = await send_one_byte_frames(host, 100_000)
        most = 0
        while connection._channel.frames < 50_000:
            most = max(most, connection._channel.buffered_bytes)
            await asyncio.sleep(0)
        assert 16 << 10 < most <= READ_BYTES + 19, "more than one read and a part of a frame"


@attack(ANY_SMALL_FRAMES)
async def test_bytes_received_before_the_socket_closed_are_handled(host, held):
    with one_slice_at_a_time():
        connection = await send_one_byte_frames(host, 10_000)
        channel = connection._channel
        while channel.buffered_bytes < 40_000:
            await asyncio.sleep(0)
        connection._transport.abort()
        await connection.gone
    assert channel.buffered_bytes < 2 + 1 + 16, "more than a part of the last frame: length, byte and tag"


@attack(HostLimits(connection=ConnectionLimits(small_frames_per_s=10_000, small_frames_at_once=500)))
async def test_empty_frames_beyond_a_rate_are_an_offence(host, held):
    offenders = []
    host.on_over_limit.append(offenders.append)
    attacker = await (await Attacker.connect(host)).upgrade()
    await attacker.until_answered()
    assert offenders == []
    attacker.writer.write(b"".join(attacker.channel.seal(b"") for _ in range(5000)))
    await attacker.until_answered()
    assert set(offenders) == set(host.connections)
    assert len(offenders) > 1


@attack(HostLimits(connection=ConnectionLimits(small_frames_per_s=10_000, small_frames_at_once=500)))
async def test_empty_frames_of_yamux_beyond_a_rate_are_an_offence(host, held):
    offenders = []
    host.on_over_limit.append(offenders.append)
    attacker = await (await Attacker.connect(host)).upgrade()
    attacker.send(opening(1, "/hold"))
    attacker.send(*[data_frame(1, b"")] * 5000)
    await attacker.until_answered()
    assert set(offenders) == set(host.connections)


@attack()
async def test_frames_before_a_multiplexer_is_agreed_are_limited(host, held):
    attacker = await Attacker.connect(host)
    upgrade = Upgrade(PrivateKey.generate(), True)
    upgrade._muxer = Dialer(["/none"])
    attacker.writer.write(upgrade.start())
    while upgrade.channel is None:
        attacker.writer.write(upgrade.receive(await attacker.reader.read(65536)))
    attacker.writer.write(b"".join(upgrade.channel.seal(b"") for _ in range(300)))
    await attacker.until_closed()
    assert host.connections == {}
