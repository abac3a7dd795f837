"""Peers that no longer answer or read, although their sockets are open."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from attacker import Attacker, frame
from one_host import with_host

from hearsay.libp2p.mux.connection_limits import ConnectionLimits
from hearsay.libp2p.mux.yamux_frames import FrameType
from hearsay.libp2p.node_host import HostLimits

QUICK = HostLimits(connection=ConnectionLimits(idle_s=0.2, answer_s=0.4, write_s=0.4))
DIALLING_PROGRAM = """
import asyncio, sys
from hearsay.libp2p.host import Host
async def main():
    host = Host()
    await host.dial(sys.argv[1])
    await asyncio.sleep(60)
asyncio.run(main())
"""


@with_host(QUICK)
async def test_a_peer_whose_process_is_stopped_is_disconnected(host):
    down = asyncio.Event()
    host.on_peer_down.append(lambda _: down.set())
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", DIALLING_PROGRAM, str(host.addresses[0]))
    try:
        while not host.connections:
            await asyncio.sleep(0.01)
        (connection,) = host.connections.values()
        received_s = connection._liveness.received_s
        while connection._liveness.received_s == received_s:  # an answer to a ping
            await asyncio.sleep(0.01)
        assert not down.is_set()
        os.kill(child.pid, signal.SIGSTOP)
        await down.wait()
        assert host.connections == {}
    finally:
        child.kill()
        await child.wait()


@with_host(QUICK)
async def test_a_peer_that_sends_but_does_not_read_is_disconnected(host):
    """The peer's window is open, bytes for the peer wait in the host's memory, and the peer goes on sending pings."""
    attacker, connection = await Attacker.not_reading(host)
    while not connection.closed:
        attacker.send(frame(FrameType.PING, 0, 0, 1))
        await asyncio.sleep(0.01)
    await connection.gone
    assert host.connections == {}
