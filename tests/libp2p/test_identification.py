"""Identify between hosts: rates, limits in bytes, and records older than the known one."""

from __future__ import annotations

import asyncio

import pytest
from waiting import patience, until

from hearsay.libp2p.frames import frame
from hearsay.libp2p.host import Host
from hearsay.libp2p.identify import (
    MAX_IDENTIFY_BYTES,
    PROTOCOL,
    PUSH_PROTOCOL,
    Identification,
    IdentifyLimits,
    Identity,
    encode_identity,
)
from hearsay.libp2p.mux.stream import StreamClosed
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.names.peer_id import peer_id_of
from hearsay.libp2p.names.protobuf import bytes_field
from hearsay.libp2p.rates import Rate
from hearsay.libp2p.rendezvous import PeerRecord, read_envelope, seal_record


def connected(**limits):
    """Return a decorator that makes a test from a coroutine function.

    Its arguments are the identification of a host, this host, and another host that is connected to it.
    """

    def decorate(test):
        async def with_hosts():
            async with patience():
                host, other = Host(), Host()
                identification = Identification(host, "test", IdentifyLimits(**limits))
                try:
                    await host.listen("/ip4/127.0.0.1/tcp/0")
                    await other.dial(host.addresses[0])
                    await test(identification, host, other)
                finally:
                    await identification.close()
                    await other.close()
                    await host.close()

        return lambda: asyncio.run(with_hosts())

    return decorate


async def push(host, other, *messages):
    """Push identify messages to `host`. Return False if it resets the stream."""
    stream = await other.open_stream(host.peer, [PUSH_PROTOCOL])
    stream.write(b"".join(map(frame, messages)))
    stream.finish()
    try:
        assert await stream.read() == b""
    except StreamClosed:
        return False
    return True


def identity_message(agent="", record=b""):
    return encode_identity(Identity(agent=agent, signed_record=record))


@connected(pushed=Rate(3, 0.001))
async def test_the_rate_of_pushes_is_limited(identification, host, other):
    read = [await push(host, other, identity_message(f"agent {number}")) for number in range(6)]
    assert read == [True] * 3 + [False] * 3
    assert identification.known[other.peer].agent == "agent 2"


@connected(asked=Rate(3, 0.001))
async def test_the_rate_of_identify_requests_is_limited(identification, host, other):
    for _ in range(3):
        stream = await other.open_stream(host.peer, [PROTOCOL])
        assert await stream.read()
    with pytest.raises(StreamClosed):
        await (await other.open_stream(host.peer, [PROTOCOL])).read()


@connected()
async def test_the_newest_record_of_a_peer_is_kept(identification, host, other):
    def record(sequence, key=other.identity):
        return seal_record(key, PeerRecord(peer_id_of(key.public), sequence, ()))

    stranger = record(9, PrivateKey.generate())
    forged = record(9)[:-1] + b"x"
    for sent in (record(2), record(1), stranger, forged, b"nonsense", b""):
        assert await push(host, other, identity_message("agent", sent))
        assert identification.known[other.peer].signed_record == record(2)
    assert await push(host, other, identity_message("agent", record(3)))
    assert read_envelope(identification.known[other.peer].signed_record).check().sequence == 3


@connected()
async def test_the_messages_of_a_push_are_bounded_together(identification, host, other):
    message = bytes_field(99, bytes(MAX_IDENTIFY_BYTES // 2))
    assert await push(host, other, identity_message("first"))
    assert not await push(host, other, *[message] * 3, identity_message("second"))
    assert identification.known[other.peer].agent == "first"


@connected(known_bytes=4096)
async def test_the_memory_of_all_identities_is_bounded(identification, host, other):
    assert await push(host, other, identity_message("short"))
    assert identification.known[other.peer].agent == "short"
    assert await push(host, other, identity_message("long") + bytes_field(99, bytes(1024)))
    assert identification.known == {}
    assert await push(host, other, identity_message("short again"))
    other.disconnect(host.peer)
    await until(lambda: not host.connections)
    assert identification._budget.used == 0


@connected()
async def test_a_host_signs_a_new_record_when_its_addresses_change(identification, host, other):
    first = identification.record()
    assert identification.record() == first
    await host.listen("/ip4/127.0.0.1/tcp/0")
    newer = read_envelope(identification.record()).check()
    assert newer.addresses == host.addresses
    assert newer.sequence > read_envelope(first).check().sequence
