"""Two hosts on real sockets: identify, streams both ways, large payloads, back-pressure, closing."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from one_host import read_all
from waiting import patience

from hearsay.libp2p import identify
from hearsay.libp2p.frames import frame
from hearsay.libp2p.host import Host
from hearsay.libp2p.identify import PING_PROTOCOL, Identification, PingService
from hearsay.libp2p.mux import connection as connection_module
from hearsay.libp2p.mux.connection_limits import ConnectionLimits
from hearsay.libp2p.mux.stream import StreamClosed
from hearsay.libp2p.mux.yamux import YamuxLimits
from hearsay.libp2p.names.errors import DialError, MultistreamError, ProtocolError
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import peer_id_of, to_text
from hearsay.libp2p.node_host import HostLimits
from hearsay.libp2p.rendezvous import read_envelope

LOOPBACK = "/ip4/127.0.0.1/tcp/0"


def run(test):
    """Return a test that calls a coroutine function with two listening hosts, and closes them."""

    async def with_hosts():
        async with patience():
            one, other = Host(), Host()
            try:
                await one.listen(LOOPBACK)
                await other.listen(LOOPBACK)
                await test(one, other)
            finally:
                await one.close()
                await other.close()

    return lambda: asyncio.run(with_hosts())


class Events:
    """A callback whose values wait in a queue."""

    def __init__(self):
        self._queue = asyncio.Queue()

    def __call__(self, value):
        self._queue.put_nowait(value)

    async def next(self):
        return await self._queue.get()


async def echo(stream):
    with suppress(StreamClosed):
        while data := await stream.read():
            stream.write(data)
            await stream.drain()
        stream.finish()


def serve(host, protocol, handler):
    tasks = set()
    host.handle(protocol, lambda stream: tasks.add(asyncio.ensure_future(handler(stream))))


@run
async def test_streams_both_ways_over_one_connection(one, other):
    serve(one, "/echo", echo)
    serve(other, "/echo", echo)
    assert await one.dial(other.addresses[0]) == other.peer
    for asking, answering in ((one, other), (other, one)):
        stream = await asking.open_stream(answering.peer, ["/none", "/echo"])
        assert stream.protocol == "/echo"
        stream.write(b"hello")
        assert await read_all(stream, 5) == b"hello"
        stream.finish()
        assert await stream.read() == b""
    assert len(one.connections) == len(other.connections) == 1


@run
async def test_a_mebibyte_is_echoed(one, other):
    serve(other, "/echo", echo)
    stream = await one.open_stream(await one.dial(other.addresses[0]), ["/echo"])
    payload = bytes(range(256)) * 4096
    stream.write(payload)
    assert await read_all(stream, len(payload)) == payload


@run
async def test_identify_reports_agent_key_addresses_and_protocols(one, other):
    identified = Events()
    there = Identification(other, "other/2")
    here = Identification(one, "one/1")
    here.on_identified.append(lambda peer, identity: identified((peer, identity)))
    there.on_identified.append(lambda peer, identity: identified((peer, identity)))
    await one.dial(other.addresses[0])
    found = dict([await identified.next(), await identified.next()])
    identity = found[other.peer]
    assert identity.agent == "other/2"
    assert identity.public_key == other.identity.public.encoded
    assert identity.listen_addresses == other.addresses
    assert set(identity.protocols) == {identify.PROTOCOL, identify.PUSH_PROTOCOL}
    assert read_envelope(identity.signed_record).check().addresses == other.addresses
    assert found[one.peer].agent == "one/1"
    other.handle("/new", lambda stream: None)
    push = await other.open_stream(one.peer, [identify.PUSH_PROTOCOL])
    push.write(frame(there._identity(one.peer)))
    push.finish()
    peer, identity = await identified.next()
    assert peer == other.peer
    assert "/new" in identity.protocols
    await here.close()
    await there.close()


@run
async def test_pings_are_echoed_in_whole_payloads(one, other):
    PingService(other)
    stream = await one.open_stream(await one.dial(other.addresses[0]), [PING_PROTOCOL])
    stream.write(b"p" * 20)
    stream.write(b"p" * 12 + b"q" * 31)
    assert await read_all(stream, 32) == b"p" * 32
    stream.write(b"q")
    assert await stream.read() == b"q" * 32


@run
async def test_a_ping_fails_if_the_echo_differs(one, other):
    other.handle(PING_PROTOCOL, lambda stream: stream.write(b"x" * 33))
    peer = await one.dial(other.addresses[0])
    with pytest.raises(ProtocolError, match="did not echo"):
        await PingService(one).round_trip_s(peer)


@run
async def test_pings_are_answered(one, other):
    PingService(other)
    peer = await one.dial(other.addresses[0])
    ping_service = PingService(one)
    assert await ping_service.round_trip_s(peer) > 0
    assert PING_PROTOCOL in one.protocols


@run
async def test_a_slow_reader_stops_its_writer_but_no_other_stream(one, other):
    accepted = Events()
    other.handle("/slow", accepted)
    serve(other, "/echo", echo)
    peer = await one.dial(other.addresses[0])
    slow = await one.open_stream(peer, ["/slow"])
    reader = await accepted.next()
    slow.write(bytes(4 << 20))
    draining = asyncio.ensure_future(slow.drain())
    quick = await one.open_stream(peer, ["/echo"])
    for _ in range(20):
        quick.write(b"ping")
        assert await read_all(quick, 4) == b"ping"
    assert not draining.done()
    assert (4 << 20) - slow.unsent <= 256 * 1024
    assert await read_all(reader, 4 << 20) == bytes(4 << 20)
    await draining


@run
async def test_a_receiver_that_pauses_gets_everything_after_it_resumes(one, other):
    got, streams = Events(), Events()
    other.handle("/push", streams)
    stream = await one.open_stream(await one.dial(other.addresses[0]), ["/push"])
    inbound = await streams.next()
    inbound.pause()
    inbound.receive_with(got, got)
    stream.write(b"one")
    stream.finish()
    serve(other, "/echo", echo)
    second = await one.open_stream(other.peer, ["/echo"])
    second.write(b"x")
    await read_all(second, 1)
    assert got._queue.empty()
    inbound.resume()
    assert await got.next() == b"one"
    assert await got.next() is False


@run
async def test_new_and_ended_connections_are_reported(one, other):
    up, down = Events(), Events()
    other.on_peer_up.append(up)
    other.on_peer_down.append(down)
    await one.dial(other.addresses[0])
    assert await up.next() == one.peer
    one.disconnect(other.peer)
    assert await down.next() == one.peer
    assert one.connections == {}


@run
async def test_streams_of_a_lost_connection_end(one, other):
    accepted = Events()
    other.handle("/wait", accepted)
    stream = await one.open_stream(await one.dial(other.addresses[0]), ["/wait"])
    inbound = await accepted.next()
    reading = asyncio.ensure_future(inbound.read())
    one.connections[other.peer].abort()
    with pytest.raises(StreamClosed):
        await reading
    with pytest.raises(StreamClosed):
        await stream.read()
    with pytest.raises(StreamClosed):
        await one.open_stream(other.peer, ["/wait"])


@run
async def test_a_stream_without_a_common_protocol_fails(one, other):
    peer = await one.dial(other.addresses[0])
    with pytest.raises(MultistreamError, match="none of our protocols"):
        await one.open_stream(peer, ["/a", "/b"])


@run
async def test_wrong_peer_id(one, other):
    wrong = peer_id_of(PrivateKey.generate().public)
    address = Multiaddr(other.addresses[0].parts[:-1]).with_peer(wrong)
    with pytest.raises(DialError) as caught:
        await one.dial(address)
    assert str(caught.value) == f"{address}: expected {to_text(wrong)}, got {to_text(other.peer)}"
    assert one.connections == {}


@run
async def test_dialing_oneself_is_refused(one, other):
    with pytest.raises(DialError, match="the host's own address"):
        await one.dial(one.addresses[0])
    with pytest.raises(DialError, match="our own identity"):
        await one.dial(Multiaddr(one.addresses[0].parts[:-1]))


@run
async def test_a_dial_without_a_listening_host_or_over_udp_fails(one, other):
    address = other.addresses[0]
    await other.close()
    with pytest.raises(DialError, match="refused"):
        await one.dial(address)
    with pytest.raises(DialError, match="only TCP"):
        await one.dial("/ip4/127.0.0.1/udp/1/quic-v1")


@run
async def test_both_dial_at_once_and_one_connection_stays(one, other):
    serve(one, "/echo", echo)
    serve(other, "/echo", echo)
    for _ in range(5):
        up = Events()
        one.on_peer_up[:] = [up]
        await asyncio.gather(one.dial(other.addresses[0]), other.dial(one.addresses[0]), return_exceptions=True)
        while True:
            try:
                stream = await one.open_stream(other.peer, ["/echo"])
                stream.write(b"x")
                await read_all(stream, 1)
                break
            except StreamClosed:
                await up.next()
        assert one.connections[other.peer].dialed != other.connections[one.peer].dialed
        gone = [one.connections[other.peer].gone, other.connections[one.peer].gone]
        one.disconnect(other.peer)
        await asyncio.gather(*gone)


@run
async def test_parallel_dials_to_one_peer_share_a_connection(one, other):
    up = []
    other.on_peer_up.append(up.append)
    assert set(await asyncio.gather(*(one.dial(other.addresses[0]) for _ in range(5)))) == {other.peer}
    assert up == [one.peer]


@run
async def test_a_second_dial_without_a_peer_id_keeps_one_connection_on_both_sides(one, other):
    serve(other, "/echo", echo)
    nameless = Multiaddr(other.addresses[0].parts[:-1])
    await one.dial(other.addresses[0])
    for dials in (1, 1, 4):
        await asyncio.gather(*(one.dial(nameless) for _ in range(dials)), return_exceptions=True)
        while len(one._all) > 1 or len(other._all) > 1:
            await asyncio.sleep(0.005)
        stream = await one.open_stream(other.peer, ["/echo"])
        stream.write(b"x")
        await read_all(stream, 1)
        assert list(other.connections) == [one.peer]


@run
async def test_parallel_dials_to_one_address_fail_together(one, other):
    accepted = []

    async def accept_and_close(_, writer):
        accepted.append(writer)
        writer.close()

    server = await asyncio.start_server(accept_and_close, "127.0.0.9", 0)
    try:
        wrong = Multiaddr.parse(f"/ip4/127.0.0.9/tcp/{server.sockets[0].getsockname()[1]}").with_peer(other.peer)
        failed = await asyncio.gather(*(one.dial(wrong) for _ in range(5)), return_exceptions=True)
        assert [type(each) for each in failed] == [DialError] * 5
        assert len(accepted) == 1
        assert isinstance((await asyncio.gather(one.dial(wrong), return_exceptions=True))[0], DialError)
        assert len(accepted) == 2
    finally:
        server.close()


@run
async def test_a_cancelled_dial_ends_and_another_address_is_dialled(one, other):
    """At the first address a server accepts connections and sends nothing."""
    begun, ended = asyncio.Event(), asyncio.Event()

    async def silent(reader, writer):
        while await reader.read(65536):
            begun.set()
        ended.set()
        writer.close()

    tarpit = await asyncio.start_server(silent, "127.0.0.9", 0)
    try:
        port = tarpit.sockets[0].getsockname()[1]
        wrong = Multiaddr.parse(f"/ip4/127.0.0.9/tcp/{port}").with_peer(other.peer)
        given_up = asyncio.ensure_future(one.dial(wrong))
        right = asyncio.ensure_future(one.dial(other.addresses[0]))
        await begun.wait()
        given_up.cancel()
        assert await right == other.peer
        await ended.wait()
    finally:
        tarpit.close()


def test_limits_on_connections_and_streams():
    async def crowded():
        limits = HostLimits(max_connections=1, connection=ConnectionLimits(yamux=YamuxLimits(max_inbound_streams=2)))
        server, first, second = Host(limits=limits), Host(), Host()
        accepted = Events()
        server.handle("/hold", accepted)
        try:
            await server.listen(LOOPBACK)
            await first.dial(server.addresses[0])
            for _ in range(2):
                await first.open_stream(server.peer, ["/hold"])
            with pytest.raises(StreamClosed, match="reset"):
                await first.open_stream(server.peer, ["/hold"])
            held = await accepted.next()
            held.reset()
            second_up, second_down = Events(), Events()
            second.on_peer_up.append(second_up)
            second.on_peer_down.append(second_down)
            try:
                await second.dial(server.addresses[0])
                while not server.refused:
                    assert len(server.connections) == 1
                    await asyncio.sleep(0)
                await second_down.next()
            except DialError:
                pass
            assert server.refused == 1
            assert list(server.connections) == [first.peer]
        finally:
            for host in (server, first, second):
                await host.close()

    asyncio.run(crowded())


def test_uvloop_runs_the_same_host():
    uvloop = pytest.importorskip("uvloop")

    async def talk():
        one, other = Host(), Host()
        try:
            await other.listen(LOOPBACK)
            serve(other, "/echo", echo)
            stream = await one.open_stream(await one.dial(other.addresses[0]), ["/echo"])
            stream.write(bytes(1 << 20))
            assert await read_all(stream, 1 << 20) == bytes(1 << 20)
        finally:
            await one.close()
            await other.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(talk())


@run
async def test_a_host_closes_after_a_peer_has_aborted_its_connection(one, other):
    await other.dial(one.addresses[0])
    while not one.connections:
        await asyncio.sleep(0.005)
    (unaware,) = one.connections.values()
    unaware._transport.pause_reading()
    (leaving,) = other.connections.values()
    leaving.abort()
    while leaving._transport.get_extra_info("socket").fileno() != -1:
        await asyncio.sleep(0.005)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(connection_module, "LEAVE_SECONDS", 0.1)
        assert await one.close() == frozenset()
