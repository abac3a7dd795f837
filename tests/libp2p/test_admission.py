"""Admission of connections: bans, limits of handshakes and connections, and the share of each address."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
from contextlib import ExitStack

import pytest
from attacker import PROTOCOL_ERROR, Attacker
from one_host import with_host

from hearsay import listener
from hearsay.libp2p.host import Host
from hearsay.libp2p.mux.multistream import Upgrade
from hearsay.libp2p.names.errors import DialError
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.names.peer_id import peer_id_of
from hearsay.libp2p.node_host import HostLimits, fitted
from hearsay.listener import Slots, groups_of


def limited(**limits):
    return with_host(HostLimits(**limits))


@with_host()
async def test_an_address_that_is_kept_out_gets_no_handshake(host):
    host.admits = lambda peer, address: address != "127.0.0.2"
    kept_out = await Attacker.connect(host, "127.0.0.2")
    assert await kept_out.until_closed() == b""
    assert host.refused == 1
    await (await Attacker.connect(host)).upgrade()


@with_host()
async def test_a_peer_that_is_kept_out_is_disconnected_after_its_handshake(host):
    unwanted = PrivateKey.generate()
    seen = []
    host.on_peer_up.append(seen.append)
    host.admits = lambda peer, address: peer != peer_id_of(unwanted.public)
    kept_out = await (await Attacker.connect(host)).upgrade(unwanted)
    assert PROTOCOL_ERROR not in await kept_out.until_closed()
    assert (seen, host.refused) == ([], 1)


@with_host()
async def test_a_peer_that_is_kept_out_is_not_dialled(host):
    other = Host()
    try:
        (address,) = await other.listen("/ip4/127.0.0.1/tcp/0")
        host.admits = lambda peer, address: peer != other.peer
        with pytest.raises(DialError, match="banned"):
            await host.dial(address)
        host.admits = lambda peer, address: address != "127.0.0.1"
        with pytest.raises(DialError, match="banned"):
            await host.dial(address)
        assert other.refused == 0
    finally:
        await other.close()


@with_host()
async def test_the_address_of_a_connected_peer(host):
    identity = PrivateKey.generate()
    peer = peer_id_of(identity.public)
    connected = asyncio.Event()
    host.on_peer_up.append(lambda _: connected.set())
    assert host.address_of(peer) == ""
    await (await Attacker.connect(host, "127.0.0.9")).upgrade(identity)
    await connected.wait()
    assert host.address_of(peer) == "127.0.0.9"


@limited(max_handshakes=16, handshake_patience_s=60)
async def test_idle_sockets_of_one_address_keep_out_no_other_peer(host):
    crowd = [await Attacker.connect(host, "127.0.0.2") for _ in range(20)]
    while host.refused < 4:
        await asyncio.sleep(0)
    honest = Host()
    try:
        assert await honest.dial(host.addresses[0]) == host.peer
    finally:
        await honest.close()
    assert host.refused == 5
    for idle in crowd:
        idle.writer.close()


@limited(max_handshakes=16, handshake_patience_s=0)
async def test_idle_sockets_give_way_to_others_of_their_own_address(host):
    crowd = [await Attacker.connect(host) for _ in range(20)]
    await (await Attacker.connect(host)).upgrade()
    assert host.refused == 5
    for idle in crowd:
        idle.writer.close()


@limited(max_handshakes=16, handshake_patience_s=0)
async def test_silent_sockets_of_many_addresses_end_no_handshake_and_keep_out_no_peer(host):
    crowd = [await Attacker.connect(host, f"127.0.1.{1 + number}") for number in range(16)]
    begun = await Attacker.connect(host, "127.0.0.2")
    begun.writer.write(Upgrade(PrivateKey.generate(), True).start())
    assert await begun.reader.read(1)
    crowd += [await Attacker.connect(host, f"127.0.2.{1 + number}") for number in range(32)]
    while host.refused < 33:
        await asyncio.sleep(0)
    (connection,) = (each for each in host._handshakes if each.received_s)
    assert connection.address == "127.0.0.2"
    await (await Attacker.connect(host, "127.0.0.3")).upgrade()
    for idle in (begun, *crowd):
        idle.writer.close()


@limited(max_handshakes=8, handshake_patience_s=0)
async def test_bytes_that_a_busy_loop_has_not_read_keep_a_handshake_among_silent_sockets(host):
    endpoint = host.addresses[0].tcp_endpoint
    with ExitStack() as stack:  # the host accepts all of them at once, in its next turn of the loop

        def connect(address):
            return stack.enter_context(socket.create_connection(endpoint, source_address=(address, 0)))

        honest = connect("127.0.0.2")
        honest.sendall(Upgrade(PrivateKey.generate(), True).start())
        for number in range(15):
            connect(f"127.0.1.{1 + number}")
        honest.setblocking(False)
        answer = await asyncio.get_running_loop().sock_recv(honest, 1)
        assert (answer, host.refused) == (Upgrade(PrivateKey.generate(), False).start()[:1], 8)


@limited(max_connections=4, reserved_for_dials=0, max_handshakes=2)
async def test_connections_that_are_ending_give_way_to_a_newcomer(host):
    """Their peers do not read the last bytes, so the host keeps the sockets for a while."""
    crowd = []
    for _ in range(6):
        greedy, connection = await Attacker.not_reading(host)
        while not connection._transport.get_write_buffer_size():
            await asyncio.sleep(0)
        host.drop(connection)
        crowd.append(greedy)
    assert len(host._all) == 6, "as many as connections and handshakes together"
    await (await Attacker.connect(host)).upgrade()
    assert (host.refused, len(host._all)) == (0, 1)
    for greedy in crowd:
        greedy.writer.close()


@limited(max_per_address=8)
async def test_connections_of_one_address_are_limited(host):
    crowd = [await (await Attacker.connect(host, "127.0.0.2")).upgrade() for _ in range(9)]
    assert PROTOCOL_ERROR not in await crowd[-1].until_closed()
    assert len(host.connections) == 8
    await (await Attacker.connect(host, "127.0.0.3")).upgrade()
    while len(host.connections) < 9:
        await asyncio.sleep(0)


@limited(max_connections=6, reserved_for_dials=0)
async def test_a_full_host_ends_a_connection_of_the_address_with_most(host):
    crowd = [await (await Attacker.connect(host, "127.0.0.2")).upgrade() for _ in range(6)]
    while len(host.connections) < 6:
        await asyncio.sleep(0)
    known = list(host.connections)
    await (await Attacker.connect(host, "127.0.0.3")).upgrade()
    await crowd[0].until_closed()
    assert set(known[1:]) < set(host.connections)
    assert sorted(map(host.address_of, host.connections)) == ["127.0.0.2"] * 5 + ["127.0.0.3"]


def test_slots_have_a_limit_for_each_address_and_for_all():
    slots = Slots(6, 4, 10)
    assert [slots.enter(name, "a", 0) for name in "uvwx"] == [None] * 4
    assert slots.enter("y", "a", 9) == "y"
    assert slots.enter("y", "a", 10) == "u"
    assert [slots.enter(name, "b", 10) for name in "pq"] == [None] * 2
    assert slots.enter("r", "c", 10) == "v"
    slots.leave("r")
    slots.leave("r")
    assert (len(slots), slots.enter("s", "b", 10)) == (5, None)
    assert slots.enter("t", "b", 10) == "w"


def test_ipv6_addresses_of_one_slash_48_share_a_limit():
    assert groups_of("2001:db8:1:203::4%eth0") == ("2001:db8:1::/48", "2001:db8:1:200::/56", "2001:db8:1:203::/64")
    assert groups_of("::ffff:192.0.2.1") == groups_of("192.0.2.1") == ("192.0.2.1",)
    slots = Slots(960, 256, 20)
    assert [slots.enter(name, "192.0.2.1", 0) for name in range(12)] == [None] * 12
    losers = [slots.enter(number, f"2001:db8:1:{number:x}::1", 1) for number in range(100, 1060)]
    assert losers[:256] == [None] * 256
    assert all(isinstance(loser, int) and loser >= 100 for loser in losers[256:])
    assert len(slots) == 12 + 256


def test_the_largest_group_gives_way_at_each_width():
    slots = Slots(5, 4, 20)
    places = {"a": "2001:db8:1::1", "b": "2001:db8:1:100::1", "c": "2001:db8:1:101::1", "d": "2001:db8:1:101::2"}
    for name, place in places.items():
        slots.enter(name, place, 0)
    slots.enter("e", "192.0.2.1", 0)
    assert slots.enter("f", "192.0.2.2", 0) == "c"


def test_idle_connections_of_many_addresses_evict_no_useful_peer():
    slots = Slots(16, 8, 20, lambda: dict.fromkeys("uvw", 1))
    assert [slots.enter(name, "192.0.2.1", 0) for name in "uvw"] == [None] * 3
    for number in range(13):
        slots.enter(number, f"198.51.100.{number}", 0)
    assert slots.enter(13, "203.0.113.1", 19) == 13
    assert [slots.enter(number, f"203.0.113.{number}", 20) for number in range(14, 27)] == list(range(13))
    assert slots.enter("newcomer", "192.0.2.1", 40) == 14


def test_newcomers_keep_a_quarter_of_the_slots():
    slots = Slots(8, 8, 20, lambda: {number: number + 1 for number in range(8)})
    for number in range(8):
        slots.enter(number, f"192.0.2.{number}", 0)
    assert [slots.enter(name, f"198.51.100.{place}", 1) for place, name in enumerate("ab")] == [0, 1]
    assert slots.enter("c", "203.0.113.1", 1) == "c"


def test_protection_covers_half_of_the_share_of_an_address():
    slots = Slots(8, 8, 20, lambda: dict.fromkeys(range(8), float("inf")))
    for number in range(8):
        slots.enter(number, "192.0.2.1", 0)
    assert slots.enter("a", "198.51.100.1", 1) == 4
    slots = Slots(8, 8, 20, lambda: dict.fromkeys(range(8), float("inf")))
    for number in range(8):
        slots.enter(number, f"192.0.2.{number}", 0)
    assert slots.enter("a", "198.51.100.1", 1) == "a"


@limited(max_connections=6, reserved_for_dials=0)
async def test_a_useful_peer_keeps_its_connection(host):
    crowd = [await (await Attacker.connect(host, "127.0.0.2")).upgrade() for _ in range(6)]
    while len(host.connections) < 6:
        await asyncio.sleep(0)
    useful = list(host.connections)[:3]
    host.worth = lambda: dict.fromkeys(useful, 1.0)
    await (await Attacker.connect(host, "127.0.0.3")).upgrade()
    await crowd[3].until_closed()
    assert set(useful) < set(host.connections)


def test_limits_of_connections_fit_the_limit_of_open_files():
    limits = HostLimits()
    assert fitted(limits, 1 << 20) == (1024, 960, 256, 128, 32)
    for files in (8, 64, 128, 256, 1024, 4096):
        places = fitted(limits, files)
        assert min(places) >= 1
        assert places.connections + places.handshakes <= files - files // 32
        assert places.inbound <= places.connections - places.connections // 32
    assert fitted(limits, 128) == (56, 42, 21, 8, 8)


@with_host()
async def test_without_free_file_descriptors_there_is_one_warning_and_connections_wait(host):
    caught = []
    handler = logging.Handler()
    handler.emit = caught.append
    logging.getLogger(listener.__name__).addHandler(handler)
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: caught.append(context))
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    clients = [socket.socket() for _ in range(4)]
    try:
        for client in clients:
            client.setblocking(False)
        resource.setrlimit(resource.RLIMIT_NOFILE, (clients[0].fileno(), files[1]))
        for client in clients:
            client.connect_ex(host.addresses[0].tcp_endpoint)
        while not caught:
            await asyncio.sleep(0)
        listening = host._listeners[0]
        for _ in range(3):
            listening._accept()
        assert [found.levelname for found in caught] == ["WARNING"]
        assert caught[0].exc_info is None
        resource.setrlimit(resource.RLIMIT_NOFILE, files)
        listening._accept()
        assert await asyncio.get_running_loop().sock_recv(clients[0], 1)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, files)
        logging.getLogger(listener.__name__).removeHandler(handler)
        for client in clients:
            client.close()
