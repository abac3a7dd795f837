"""Attacks that could make honest nodes lower each other's scores, dial a third party, or keep partial messages."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from os import urandom
from pathlib import Path
from time import monotonic

from raw_peer import Gone, RawPeer, Target
from scene import Scene

from hearsay.core.language.rpc import (
    MESHSUB_13,
    Control,
    Features,
    Graft,
    Partial,
    PartialUse,
    PeerInfo,
    Prune,
    Rpc,
    Subscription,
)
from hearsay.libp2p.frames import frame
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import peer_id_of
from hearsay.libp2p.rendezvous import PeerRecord, seal_record
from hearsay.wire.encode import encode_rpc
from hearsay.wire.signing import Author, SignaturePolicy

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "wire"))

from message_corpus import corpus
from message_verdicts import read_verdicts

GROUP_BYTES, PART_BYTES = 8, 16
"""Sizes of a group's name and of a part in the topic `parts`, whose messages have eight parts."""
REJECTED = b"rejected "
"""Beginning of the messages that the validator of `news` rejects, if the target runs with `--rejects`."""


async def disputed_messages(scene: Scene) -> None:
    """Send the target and its honest peers unusual messages that go, rust or js accepts, so that they are relayed."""
    verdicts = read_verdicts()
    said = {case.name: {of[case.name] for of in verdicts.values() if case.name in of} for case in corpus()}
    disputed = [case.rpc for case in corpus() if not case.unsigned and "+" in said[case.name]]

    async def tell(target: Target) -> None:
        left = list(disputed)

        async def speak() -> None:
            peer, stream = await scene.member("news", target=target)
            while left and not scene.is_over:
                await peer.write(stream, frame(left.pop()))
                scene.counts["disputed"] += 1
                await asyncio.sleep(0.02)
            await scene.hold_connections(peer)

        await scene.repeat(speak)

    await asyncio.gather(*map(tell, (scene.target, *scene.relays)))


async def equivocations(scene: Scene) -> None:
    """Send different messages with the same id: one that is rejected to the target, others to its honest peers."""

    async def speak() -> None:
        identity = PrivateKey.generate()
        speakers = [await scene.member("news", target=target) for target in (scene.target, *scene.relays)]
        while not scene.is_over:
            number = int.from_bytes(urandom(6), "big")
            for place, (peer, stream) in enumerate(speakers):
                data = urandom(8) if place else REJECTED
                message = Author(identity, number).write("news", data, SignaturePolicy.STRICT_SIGN)
                await peer.write(stream, frame(encode_rpc(Rpc((), (message,)))))
                await asyncio.sleep(0.05)
            scene.counts["pairs"] += 1

    await scene.repeat(speak)


async def exchange_floods(scene: Scene) -> None:
    """Send PRUNEs from two peers four times a second. Each names 64 peers at the address of a third party."""
    a_second: Counter[int] = Counter()

    async def count(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        a_second[int(monotonic())] += 1
        writer.close()

    server = await asyncio.start_server(count, f"127.{scene.network}.200.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    somewhere = (Multiaddr.parse(f"/ip4/{host}/tcp/{port}"),)

    async def prune() -> None:
        peer, stream = await scene.member("news", graft=True)
        while not scene.is_over:
            names = [PrivateKey.generate() for _ in range(64)]
            infos: list[PeerInfo] = []
            for name in names:
                who = peer_id_of(name.public)
                infos.append(PeerInfo(who, seal_record(name, PeerRecord(who, 1, somewhere))))
            rpc = Rpc(control=Control(prune=(Prune("news", 1, tuple(infos)),)))
            await peer.write(stream, frame(encode_rpc(rpc)))
            scene.counts["named"] += len(names)
            await asyncio.sleep(0.25)

    async with server:
        await asyncio.gather(*(scene.repeat(prune) for _ in range(2)))
    scene.counts["dials"] = a_second.total()
    scene.counts["dials in a second"] = max(a_second.values(), default=0)


async def partial_groups(scene: Scene, right: bool = False) -> None:
    """Open 50 new groups of partial messages every 20 ms: by metadata, or by a valid part if `right` is true."""
    part = b"\x80" + bytes(PART_BYTES)

    async def open_groups() -> None:
        peer, stream = await _partial_peer(scene)
        while not scene.is_over:
            groups = [urandom(GROUP_BYTES) for _ in range(50)]
            said = [
                Partial("parts", group, part + group) if right else Partial("parts", group, None, b"\x80")
                for group in groups
            ]
            await peer.write(stream, b"".join(frame(encode_rpc(Rpc(partial=partial))) for partial in said))
            scene.counts["groups"] += len(groups)
            await asyncio.sleep(0.02)

    await scene.repeat(open_groups)


async def _partial_peer(scene: Scene) -> tuple[RawPeer, int]:
    peer = await scene.connect(protocol=MESHSUB_13)
    control = Control(graft=(Graft("parts"),), features=(Features(partial_messages=True),))
    first = Rpc((Subscription("parts", True, PartialUse.REQUESTS),), (), control)
    stream = peer.open(MESHSUB_13, frame(encode_rpc(first)))
    try:
        async with asyncio.timeout(5):
            await peer.pubsub.wait()
    except TimeoutError:
        raise Gone("no stream for pubsub") from None
    return peer, stream
