"""The node: a pub/sub router on a libp2p host.

async with Node(NodeConfig(bootstrap=(address,))) as node:
    topic = await node.join("news")
    await topic.publish(b"hello")
    async for message in topic:
        print(message.author_text, message.data)
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import time_ns
from types import TracebackType
from typing import Self

from hearsay.core.actions import Deliver
from hearsay.core.events import Join, Leave, Publish
from hearsay.core.inspect import Peering, RouterState
from hearsay.core.meshsub import MeshStrategy
from hearsay.core.rpc import Message
from hearsay.libp2p.errors import MultistreamError, ProtocolError
from hearsay.libp2p.host import Host
from hearsay.libp2p.identification import Identification
from hearsay.libp2p.identify import Identity
from hearsay.libp2p.keys import PrivateKey
from hearsay.libp2p.multiaddr import Multiaddr
from hearsay.libp2p.node_host import NodeHost
from hearsay.libp2p.peer_id import PeerId
from hearsay.libp2p.pinging import Pinging
from hearsay.libp2p.rendezvous_streams import RendezvousPoint
from hearsay.libp2p.stream import Stream, StreamClosed
from hearsay.node.clock import Clock
from hearsay.node.config import NodeConfig
from hearsay.node.connecting import Connecting
from hearsay.node.discovery import Discovery
from hearsay.node.driver import Driver
from hearsay.node.live_trace import LiveTrace
from hearsay.node.local_network import LocalNetwork
from hearsay.node.peer_link import PeerLink
from hearsay.node.rendezvous import RendezvousSearch
from hearsay.node.statistics import Statistics
from hearsay.node.topic import Published, Received, Topic
from hearsay.node.validation import Validator
from hearsay.py_libp2p.host import PyLibp2pHost
from hearsay.py_libp2p.provider_search import ProviderSearch
from hearsay.wire.decode import MessageIdFunction
from hearsay.wire.signing import Author, SignaturePolicy
from hearsay.wire.splitting import check_fits

REOPEN_SECONDS = (0.1, 1.0, 5.0)
"""Waits before our stream to a peer that ended it is opened again; then the peer is left alone."""

GOODBYE_SECONDS = 1.0
"""So long closing waits for peers to take what they were sent."""


class Node:
    """Start it with `async with`."""

    def __init__(
        self, config: NodeConfig | None = None, *, identity: PrivateKey | None = None, trace: Path | None = None
    ) -> None:
        self.config = config or NodeConfig()
        self._trace_directory = trace
        self._host: NodeHost = (
            PyLibp2pHost(identity) if self.config.host == "libp2p" else Host(identity, self.config.limits.host)
        )
        self.peer: PeerId = self._host.peer
        self._author = Author(self._host.identity, time_ns())
        self._topics: dict[str, Topic] = {}
        self._waiting: dict[str, deque[Message]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._driver: Driver | None = None
        self._identification = Identification(self._host, self.config.agent)
        self._pinging = Pinging(self._host)
        self._discovery = Discovery(self._host)
        self._connecting = Connecting(
            self._discovery, self._pinging, lambda: self.peers, lambda event: self._running.feed(event)
        )
        self._searches: list[RendezvousSearch | ProviderSearch] = []
        self._local_network = (
            LocalNetwork(self._discovery.found, self.config.local_interfaces) if self.config.local_network else None
        )

    async def __aenter__(self) -> Self:
        clock = Clock()
        driver = self._driver = Driver(
            self.config,
            self.peer,
            clock,
            deliver=self._delivered,
            ask=self._connecting.perform,
            disconnect=self._hang_up,
            learn=self._discovery.learn,
            record_of=self._record_of,
            reachable=self._publish_waiting,
        )
        try:
            if self._trace_directory is not None:
                driver.trace = LiveTrace(self._trace_directory, self.peer, clock, self.config.agent)
            for protocol in driver.protocols:
                self._host.handle(protocol, self._inbound)
            if driver.router.strategy.chooses_connections:
                self._identification.on_identified.append(self._remember)
            self._host.on_peer_up.append(self._peer_up)
            self._host.on_peer_down.append(driver.peer_down)
            for address in self.config.listen:
                await self._host.listen(Multiaddr.parse(address))
            for address in self.config.bootstrap:
                self._discovery.keep(Multiaddr.parse(address))
            if self.config.rendezvous_point:
                RendezvousPoint(self._host)
            self._search()
            if self._local_network is not None:
                await self._local_network.start(self._host.addresses)
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where this node listens, to be given to others."""
        return tuple(map(str, self._host.addresses))

    @property
    def peers(self) -> tuple[PeerId, ...]:
        """Connected peers that speak pubsub."""
        return tuple(sorted(peer for peer, link in self._running.links.items() if link.connected))

    @property
    def statistics(self) -> Statistics:
        return self._running.statistics

    @property
    def state(self) -> RouterState:
        """All that the router remembers."""
        return self._running.router.inspect()

    def mesh(self, topic: str) -> tuple[PeerId, ...]:
        """The peers with whom full messages of a topic are exchanged; empty for routers without a mesh."""
        return tuple(
            peer
            for known, peer, peering in self._running.router.strategy.peerings()
            if known == topic and peering is Peering.FULL_MESSAGE and isinstance(peer, bytes)
        )

    def topic_peers(self, topic: str) -> int:
        """How many connected peers are subscribed to a topic."""
        view = self._running.router.peers.in_topic(topic)
        return len(view.native) + len(view.flood)

    async def connect(self, address: str) -> PeerId:
        """Connect to a peer; `DialError` says why not."""
        return await self._host.dial(Multiaddr.parse(address))

    def disconnect(self, peer: PeerId) -> None:
        self._host.disconnect(peer)

    async def ping(self, peer: PeerId) -> float:
        """The round trip to a peer in seconds."""
        return await self._pinging.round_trip_s(peer)

    async def join(
        self,
        topic: str,
        *,
        signatures: SignaturePolicy | None = None,
        message_id: MessageIdFunction | None = None,
    ) -> Topic:
        """Take part in a topic, perhaps with a signature policy or message ids of its own."""
        driver = self._running
        if topic in self._topics:
            raise ValueError(f"topic {topic!r} is joined already")
        topic.encode()  # a name that is not UTF-8 could not be sent
        if signatures is not None:
            driver.signatures[topic] = signatures
        if message_id is not None:
            driver.message_ids.set(topic, message_id)
        joined = self._topics[topic] = Topic(self, topic, self.config.limits.topic_queue)
        driver.feed(Join(topic))
        for search in self._searches:
            search.topic_joined()
        return joined

    async def leave(self, topic: str) -> None:
        joined = self._topics.pop(topic, None)
        if joined is None:
            raise ValueError(f"topic {topic!r} is not joined")
        self._waiting.pop(topic, None)
        self._running.feed(Leave(topic))
        joined.close()

    async def publish(self, topic: str, data: bytes, *, wait_for_peers: bool = False) -> Published:
        """Send a message to a topic, joined or not. `TooLarge` when no RPC could hold it.

        With `wait_for_peers` a message that nobody could be sent waits for the first peer, or the mesh, of the topic.
        """
        driver = self._running
        message = self._author.write(topic, data, driver.policy(topic))
        source, seqno = message.source, message.seqno
        assert source is None or isinstance(source, bytes)
        number = driver.message_ids(topic, source, seqno, data)
        message = replace(message, id=number)
        check_fits(message, self.config.limits.rpc.max_rpc_bytes)
        if wait_for_peers and not self._reaches_somebody(topic):
            waiting = self._waiting.setdefault(topic, deque(maxlen=self.config.limits.waiting_publishes))
            waiting.append(message)
            return Published(number, 0, 0, True)
        sent, dropped = driver.publish(Publish(message))
        return Published(number, sent - dropped, dropped, False)

    async def flush(self) -> None:
        """Wait until everything that waits for peers has gone to them."""
        await self._running.flush()

    def add_validator(self, topic: str, validator: Validator) -> None:
        """Ask `validator` about every message of a topic that comes from a peer."""
        self._running.validation.add(topic, validator)

    def remove_validator(self, topic: str, validator: Validator) -> None:
        self._running.validation.remove(topic, validator)

    async def close(self) -> None:
        """Leave all topics, say goodbye to all peers, finish the trace."""
        if self._local_network is not None:
            await self._local_network.close()
        for search in self._searches:
            await search.close()
        await self._discovery.close()
        await self._connecting.close()
        if self._driver is not None:
            for topic in list(self._topics):
                await self.leave(topic)
            with suppress(TimeoutError):
                async with asyncio.timeout(GOODBYE_SECONDS):
                    await self._driver.flush()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._identification.close()
        await self._host.close()
        if self._driver is not None:
            await self._driver.close()

    @property
    def _running(self) -> Driver:
        if self._driver is None:
            raise RuntimeError("the node is not running; use `async with Node(…)`")
        return self._driver

    def _delivered(self, action: Deliver) -> None:
        message, sender = action.message, action.received_from
        topic = self._topics.get(str(message.topic))
        if topic is None:
            return
        assert sender is None or isinstance(sender, bytes)
        assert message.source is None or isinstance(message.source, bytes)
        assert isinstance(message.id, bytes)
        if not topic.put(Received(message.data, topic.name, message.source, message.id, sender)):
            self._running.statistics.missed += 1

    def _reaches_somebody(self, topic: str) -> bool:
        strategy = self._running.router.strategy
        if isinstance(strategy, MeshStrategy) and topic in strategy.mesh.topics:
            return len(strategy.mesh.topics[topic]) > 0
        return self.topic_peers(topic) > 0

    def _publish_waiting(self) -> None:
        for topic in [topic for topic in self._waiting if self._reaches_somebody(topic)]:
            for message in self._waiting.pop(topic):
                self._running.feed(Publish(message))

    def _record_of(self, peer: PeerId) -> bytes | None:
        if peer == self.peer:
            return self._identification.record()
        known = self._identification.known.get(peer)
        record = known.signed_record if known is not None else None
        return record or self._discovery.record_of(peer)

    def _remember(self, peer: PeerId, identity: Identity) -> None:
        """What a peer says of its addresses serves to find it again later."""
        if identity.signed_record:
            self._discovery.learn(identity.signed_record)

    def _hang_up(self, peer: PeerId) -> None:
        """The router needs a connection no more; those to bootstrap peers stay, as they would come back anyway."""
        if not self._discovery.keeps(peer):
            self._host.disconnect(peer)

    def _search(self) -> None:
        """Begin to look for the peers of topics where the configuration says."""
        if self.config.rendezvous:
            search = RendezvousSearch(
                self._host,
                [Multiaddr.parse(address) for address in self.config.rendezvous],
                topics=lambda: self._topics,
                record=self._identification.record,
                found=self._discovery.found,
            )
            self._searches.append(search)
        if self.config.dht:
            assert isinstance(self._host, PyLibp2pHost)
            search = ProviderSearch(self._host, topics=lambda: self._topics, found=self._discovery.found)
            self._searches.append(search)

    def _peer_up(self, peer: PeerId) -> None:
        driver = self._running
        driver.peer_up(peer)
        self._start(self._open(driver, driver.links[peer]))

    def _inbound(self, stream: Stream) -> None:
        self._running.inbound_open(stream)

    async def _open(self, driver: Driver, link: PeerLink) -> None:
        """Our stream to a peer; again, a few times, when the peer ends it but stays connected."""
        for wait_s in (0.0, *REOPEN_SECONDS):
            await asyncio.sleep(wait_s)
            if driver.links.get(link.peer) is not link:
                return
            try:
                stream = await self._host.open_stream(link.peer, driver.protocols)
            except MultistreamError:
                return  # the peer does not speak pubsub
            except (StreamClosed, ProtocolError):
                continue
            if driver.links.get(link.peer) is not link:
                stream.reset()
                return
            ended = asyncio.Event()
            driver.outbound_open(link, stream)
            stream.receive_with(_OurStream(ended))
            await ended.wait()
            if link.outbound is stream:
                driver.outbound_lost(link)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _OurStream:
    """Watches the stream we write to; nothing is expected on it."""

    def __init__(self, ended: asyncio.Event) -> None:
        self._ended = ended

    def data_received(self, data: bytes) -> None:
        raise ProtocolError("data on a stream that is ours to write to")

    def stream_ended(self, reset: bool) -> None:
        if reset:
            self._ended.set()
