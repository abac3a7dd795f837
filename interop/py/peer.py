"""A small gossipsub peer for the interoperability tests, on py-libp2p. ../README.md describes input and output."""

import argparse
import contextlib
import functools
import hashlib
import json
import time

import base58
import libp2p.pubsub.pubsub
import trio
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.crypto.x25519 import create_new_key_pair as create_noise_key
from libp2p.peer.id import ID
from libp2p.peer.peerinfo import info_from_p2p_addr
from libp2p.pubsub.floodsub import PROTOCOL_ID as FLOODSUB
from libp2p.pubsub.floodsub import FloodSub
from libp2p.pubsub.gossipsub import PROTOCOL_ID as MESHSUB_10
from libp2p.pubsub.gossipsub import PROTOCOL_ID_V11 as MESHSUB_11
from libp2p.pubsub.gossipsub import GossipSub
from libp2p.pubsub.pubsub import Pubsub
from libp2p.pubsub.rpc_queue import RpcQueue
from libp2p.security.noise.transport import PROTOCOL_ID as NOISE
from libp2p.security.noise.transport import Transport as NoiseTransport
from libp2p.tools.anyio_service import background_trio_service
from multiaddr import Multiaddr

from libp2p import new_host

MAX_BYTES = 4 << 20
# py-libp2p has no options for the largest sent RPC (by default one mebibyte) and the longest queue (32 messages).
libp2p.pubsub.pubsub.RpcQueue = functools.partial(RpcQueue, max_size=20_000, max_message_size=MAX_BYTES)


def say(event):
    print(json.dumps(event), flush=True)


def by_author(message):
    return message.from_id + message.seqno


def by_content(message):
    return hashlib.sha256(message.data).digest()


class Peer:
    def __init__(self, flags):
        self.flags = flags
        keys = create_new_key_pair()
        noise = NoiseTransport(libp2p_keypair=keys, noise_privkey=create_noise_key().private_key)
        self.host = new_host(key_pair=keys, sec_opt={NOISE: noise}, muxer_preference="YAMUX")
        if flags.router == "floodsub":
            router = FloodSub([FLOODSUB])
        else:
            router = GossipSub(
                protocols=[MESHSUB_11, MESHSUB_10, FLOODSUB],
                degree=6,
                degree_low=4,
                degree_high=12,
                heartbeat_interval=1,
                spam_protection_enabled=False,
            )
        self.router = router
        self.pubsub = Pubsub(
            self.host,
            router,
            strict_signing=not flags.unsigned,
            msg_id_constructor=by_content if flags.unsigned else by_author,
            max_inbound_rpc_size=MAX_BYTES,
        )
        self.received = 0
        self.joined = {}

    async def run(self):
        own = self.host.get_id()
        router = contextlib.nullcontext() if self.flags.router == "floodsub" else background_trio_service(self.router)
        async with (
            self.host.run(listen_addrs=[Multiaddr("/ip4/127.0.0.1/tcp/0")]),
            trio.open_nursery() as nursery,
            background_trio_service(self.pubsub),
            router,
        ):
            await self.pubsub.wait_until_ready()
            for topic in filter(None, self.flags.topics.split(",")):
                await self.join(nursery, topic)
            address = str(self.host.get_addrs()[0]).split("/p2p/")[0]
            say({"event": "listening", "address": f"{address}/p2p/{own}"})
            for address in filter(None, self.flags.connect.split(",")):
                await self.host.connect(info_from_p2p_addr(Multiaddr(address)))
            nursery.start_soon(self.report)
            await self.obey(nursery, trio.wrap_file(open(0, encoding="utf-8")))  # noqa: SIM115
            nursery.cancel_scope.cancel()

    async def join(self, nursery, topic):
        self.joined[topic] = await self.pubsub.subscribe(topic)
        nursery.start_soon(self.listen, topic, self.joined[topic])

    async def listen(self, topic, subscription):
        own = self.host.get_id()
        async for message in subscription:
            if message.from_id and ID(message.from_id) == own:
                continue
            self.received += 1
            if self.flags.count:
                if self.received % 100 == 0:
                    say({"event": "count", "count": self.received})
                continue
            digest = hashlib.sha256(message.data).hexdigest()
            author = base58.b58encode(message.from_id).decode()
            say({"event": "message", "topic": topic, "size": len(message.data), "sha256": digest, "from": author})

    async def report(self):
        before = None
        while True:
            await trio.sleep(0.05)
            topics = {topic: len(self.pubsub.peer_topics.get(topic, ())) for topic in self.joined}
            mesh = {topic: len(self.router.mesh.get(topic, ())) for topic in self.joined}
            if (topics, mesh) != before:
                before = topics, mesh
                say({"event": "peers", "topics": topics, "mesh": mesh})

    async def obey(self, nursery, lines):
        async for line in lines:
            verb, topic, *rest = line.rstrip("\n").split(" ", 3)
            if verb == "publish":
                for place in range(int(rest[1])):
                    start = f"{place} {time.time_ns()} {self.host.get_id()} py".encode()
                    await self.pubsub.publish(topic, start.ljust(int(rest[0]), b"\0")[: int(rest[0])])
            elif verb == "say":
                await self.pubsub.publish(topic, " ".join(rest).encode())
            elif verb == "leave":
                del self.joined[topic]
                await self.pubsub.unsubscribe(topic)
            elif verb == "join":
                await self.join(nursery, topic)
            elif verb == "connect":
                await self.host.connect(info_from_p2p_addr(Multiaddr(topic)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--connect", default="")
    parser.add_argument("--topics", default="")
    parser.add_argument("--router", default="gossipsub")
    parser.add_argument("--unsigned", action="store_true")
    parser.add_argument("--count", action="store_true")
    trio.run(Peer(parser.parse_args()).run)


main()
