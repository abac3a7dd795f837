"""Hearsay's node as a peer for the interoperability tests. ../README.md describes its lines of input and output."""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import sys
import time
from pathlib import Path

from hearsay.libp2p.names.errors import DialError
from hearsay.node.config import NodeConfig, NodeLimits
from hearsay.node.node import Node
from hearsay.wire.fields import RpcLimits
from hearsay.wire.messages import by_author, by_data
from hearsay.wire.signing import SignaturePolicy

try:
    import uvloop
except ImportError:
    uvloop = None


def say(event):
    print(json.dumps(event), flush=True)


class Peer:
    def __init__(self, flags):
        self.flags = flags
        self.received = 0
        limits = NodeLimits(rpc=RpcLimits(max_rpc_bytes=4 << 20), peer_queue_bytes=64 << 20, topic_queue=20_000)
        config = NodeConfig(
            host=flags.host,
            listen=(flags.listen,),
            rendezvous=tuple(filter(None, flags.rendezvous.split(","))),
            bootstrap=tuple(filter(None, flags.bootstrap.split(","))),
            dht=flags.dht,
            router=flags.router,
            preset=flags.preset,
            signatures=SignaturePolicy.STRICT_NO_SIGN if flags.unsigned else SignaturePolicy.STRICT_SIGN,
            message_id=by_data if flags.unsigned else by_author,
            limits=limits,
        )
        self.node = Node(config, trace=flags.trace)
        self.joined = {}
        self.tasks = set()

    async def run(self):
        async with self.node:
            for topic in filter(None, self.flags.topics.split(",")):
                await self.join(topic)
            say({"event": "listening", "address": self.node.addresses[0]})
            for address in filter(None, self.flags.connect.split(",")):
                await self.node.connect(address)
            self.start(self.report())
            reader = asyncio.StreamReader(limit=1 << 21)
            await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
            )
            while line := await reader.readline():
                await self.obey(line.decode().rstrip("\n"))

    def start(self, work):
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def join(self, name):
        topic = self.joined[name] = await self.node.join(name)
        self.start(self.listen(topic))

    async def listen(self, topic):
        async for message in topic:
            if message.received_from is None:
                continue
            self.received += 1
            if self.flags.count:
                if self.received % 100 == 0:
                    say({"event": "count", "count": self.received})
                continue
            digest = hashlib.sha256(message.data).hexdigest()
            author = message.author_text or ""
            say(
                {"event": "message", "topic": topic.name, "size": len(message.data), "sha256": digest, "from": author}
            )

    async def report(self):
        before = None
        while True:
            topics = {name: self.node.topic_peers(name) for name in self.joined}
            mesh = {name: len(self.node.mesh(name)) for name in self.joined}
            if (topics, mesh) != before:
                before = topics, mesh
                say({"event": "peers", "topics": topics, "mesh": mesh})
            await asyncio.sleep(0.05)

    async def obey(self, line):
        verb, topic, *rest = line.split(" ", 3)
        if verb == "publish":
            size, count = int(rest[0]), int(rest[1])
            for place in range(count):
                start = f"{place} {time.time_ns()} {self.node.peer.hex()} ours".encode()
                await self.node.publish(topic, start.ljust(size, b"\0")[:size])
                if place % 32 == 31:
                    await asyncio.sleep(0)
        elif verb == "say":
            await self.node.publish(topic, " ".join(rest).encode())
        elif verb == "leave":
            await self.joined.pop(topic).leave()
        elif verb == "join":
            await self.join(topic)
        elif verb == "connect":
            try:
                await self.node.connect(topic)
            except DialError as error:
                say({"event": "refused", "reason": str(error)})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--connect", default="")
    parser.add_argument("--topics", default="")
    parser.add_argument("--router", default="gossipsub")
    parser.add_argument("--preset", help="preset of the router [default: the node's default]")
    parser.add_argument("--host", default="own")
    parser.add_argument("--listen", default="/ip4/127.0.0.1/tcp/0")
    parser.add_argument("--bootstrap", default="")
    parser.add_argument("--rendezvous", default="")
    parser.add_argument("--dht", action="store_true")
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--unsigned", action="store_true")
    parser.add_argument("--count", action="store_true")
    work = Peer(parser.parse_args()).run()
    (uvloop or asyncio).run(work)  # py-libp2p's environment has no uvloop


main()
