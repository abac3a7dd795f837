"""The node: a pub/sub router on a libp2p host.

async with Node(NodeConfig(bootstrap=(address,))) as node:
    topic = await node.join("news")
    await topic.publish(b"hello")
    async for message in topic:
        print(message.author_text, message.data)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import time_ns
from types import TracebackType
from typing import Self, assert_never

from hearsay.core.language.actions import Deliver, DeliverPartial, RemindOfPartial
from hearsay.core.language.events import DirectPeerChosen, Join, Leave, Publish
from hearsay.core.language.rpc import Message, PartialUse
from hearsay.core.shell.contract import RouterFailed
from hearsay.core.shell.guarantees import RouterState
from hearsay.core.shell.strategy import Dialling
from hearsay.libp2p.host import Host
from hearsay.libp2p.identify import Identification, PingService
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.libp2p.node_host import NodeHost, Tasks
from hearsay.libp2p.rendezvous_streams import RendezvousPoint
from hearsay.node import freed_memory
from hearsay.node.conduct import Offence, Statistics
from hearsay.node.config import NodeConfig
from hearsay.node.driver import Driver, Reachable, Report
from hearsay.node.links import ConductEnforcer
from hearsay.node.meeting.address_book import AddressBoard, AddressNews
from hearsay.node.meeting.discovery import Discovery
from hearsay.node.meeting.rendezvous import Searches
from hearsay.node.peer_standing import PeerScores, PeerWorth
from hearsay.node.records import Records
from hearsay.node.topic import JoinedTopics, Partials, Published, Topic, WaitingPublishes
from hearsay.node.trace_rows import TraceRows
from hearsay.node.validation import Validator
from hearsay.partial.exchange import DrivenApplication, Outcome
from hearsay.py_libp2p.host import PyLibp2pHost
from hearsay.trace.language.event_rows import Codes
from hearsay.wire.encode import check_fits, check_topic
from hearsay.wire.fields import raw
from hearsay.wire.messages import MessageIdFunction
from hearsay.wire.signing import Author, SignaturePolicy

MAX_INBOUND_STREAMS = 3
"""Maximum inbound streams of a peer for a pubsub protocol; the node reads only the newest stream."""
GOODBYE_SECONDS = 1.0
"""Maximum seconds that `close` waits until all queued bytes are sent."""


class Node:
    """A node. Start and close it with `async with`."""

    def __init__(
        self,
        config: NodeConfig | None = None,
        *,
        identity: PrivateKey | None = None,
        trace: Path | str | None = None,
        watcher: Callable[[Codes], None] | None = None,
    ) -> None:
        """Create the node. Without an `identity`, it has a new key. With `trace`, it writes a trace to this folder.

        `watcher` is called with every trace row, even if no trace is written. `Node.rows` has the names of peers and
        topics.
        """
        self.config = config or NodeConfig()
        self._records = Records(self.config, None if trace is None else Path(trace), watcher)
        make_host = PyLibp2pHost if self.config.host == "libp2p" else Host
        self._host: NodeHost = make_host(identity, self.config.limits.host)
        self.peer: PeerId = self._host.peer
        limits = self.config.limits
        self._author = Author(self._host.identity, time_ns())
        self._topics = JoinedTopics(
            self._host.resources.share("messages for the application", limits.all_topic_queues_bytes),
            limits.topic_queue,
            limits.topic_queue_bytes,
        )
        self._waiting_publishes = WaitingPublishes(lambda: self._running, limits.waiting_publishes)
        self.confirmed: frozenset[PeerId] | None = None
        """After `close`: the peers that have confirmed all bytes that were sent to them. None before `close`, or if
        the host cannot know."""
        self._board = AddressBoard()
        self._enforcer = ConductEnforcer(self._host, limits.conduct)
        self.on_kept_out = self._enforcer.on_kept_out
        """Called with each ban of a peer or of an address."""
        self._tasks = Tasks()
        self._driver: Driver | None = None
        self._closing: asyncio.Task[None] | None = None
        self._identification = Identification(self._host, self.config.agent, self.config.limits.identify)
        self._ping_service = PingService(self._host)
        self.scores = PeerScores(lambda: self._running, self._tasks)
        """The scores of the node's peers."""
        self._partials = Partials(
            lambda: self._running,
            lambda topic, data: self._running.feed(Publish(self._write(topic, data))),
            self._enforcer.add_offences,
        )
        self._discovery = Discovery(
            self._host,
            report=self._board.report,
            protocol_of=lambda peer: self._running.links.protocol_of(peer),
            limits=self.config.limits.discovery,
            ban_of=self._enforcer.conduct.ban_of,
        )
        self._searches = Searches(self._host, self.config, self._discovery)

    async def __aenter__(self) -> Self:
        driver = self._driver = Driver(
            self.config,
            self._host,
            self._identification,
            self._discovery,
            self._ping_service,
            self._enforcer,
            self._handle_report,
        )
        self._host.worth = PeerWorth(driver)
        try:
            self._records.begin(driver, self._host, self._board)
            for protocol in driver.protocols:
                self._host.handle(protocol, driver.links.inbound_open, MAX_INBOUND_STREAMS)
            if driver.router.strategy.dialling is Dialling.BY_ROUTER:
                self._identification.on_identified.append(self._discovery.identified)
            self._host.on_peer_up.append(driver.links.peer_up)
            self._host.on_peer_down.append(driver.links.peer_down)
            self._host.on_over_limit.append(lambda peer: self._enforcer.add_offences(peer, Offence.OVER_LIMIT, 1))
            for address in self.config.listen:
                await self._host.listen(Multiaddr.parse(address))
            await self._records.serve_metrics()
            for address in (*self.config.bootstrap, *self.config.direct_peers):
                self._discovery.keep_connected(Multiaddr.parse(address))
            for peer in self.config.direct:
                driver.feed(DirectPeerChosen(peer))
            if self.config.rendezvous_point:
                RendezvousPoint(self._host, self.config.limits.rendezvous)
            await self._searches.begin(lambda: self._topics.names, self._identification.record, self._board.report)
            if self.config.return_memory:
                self._tasks.start(freed_memory.return_freed_memory())
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
        if error is None and self.failure is not None:
            raise self.failure

    @property
    def addresses(self) -> tuple[str, ...]:
        """Return the addresses at which this node listens, each with its peer id."""
        return tuple(map(str, self._host.addresses))

    @property
    def metrics_url(self) -> str | None:
        """Return the URL of the metrics; None if `NodeConfig.metrics` is None, or before the node has started."""
        metrics = self._records.metrics
        return None if metrics is None else metrics.url

    @property
    def rows(self) -> TraceRows | None:
        """Return the object that makes the trace rows and has their names; None without a trace and a watcher."""
        return self._records.rows

    @property
    def connected(self) -> tuple[PeerId, ...]:
        """Return all connected peers, even those that speak no pubsub."""
        return tuple(sorted(self._host.connections))

    @property
    def on_address_news(self) -> list[Callable[[AddressNews], None]]:
        """Return the list of callbacks, which are called with each new state of an address in `address_news`."""
        return self._board.callbacks

    @property
    def address_news(self) -> tuple[AddressNews, ...]:
        """Return the latest state of each address in `bootstrap`, `direct_peers` and `rendezvous`."""
        return self._board.latest

    @property
    def peers(self) -> tuple[PeerId, ...]:
        """Return the connected peers that speak a pubsub protocol of this node, after its negotiation."""
        return self._running.links.connected

    @property
    def agreeing(self) -> tuple[PeerId, ...]:
        """Return the connected peers with which a pubsub protocol is still being negotiated."""
        links = self._running.links.by_peer
        settled = {peer for peer, link in links.items() if link.settled.is_set()}
        return tuple(sorted({*self._host.connections} - settled))

    @property
    def failure(self) -> RouterFailed | None:
        """Return the failure of the router, which closes the node; None without a failure."""
        return None if self._driver is None else self._driver.failure

    @property
    def statistics(self) -> Statistics:
        return self._running.statistics

    @property
    def state(self) -> RouterState:
        """Return a copy of the state of the router, as a table."""
        return self._running.router.inspect()

    def mesh(self, topic: str) -> tuple[PeerId, ...]:
        """Return the mesh peers of a topic; empty for routers without a mesh."""
        peers = self._running.router.strategy.mesh_peers(topic)
        return tuple(peer for peer in peers if isinstance(peer, bytes))

    def topic_peers(self, topic: str) -> int:
        """Return the number of connected peers that are subscribed to a topic. This node need not have joined it."""
        view = self._running.router.peers.in_topic(topic)
        return len(view.native) + len(view.flood)

    async def connect(self, address: str) -> PeerId:
        """Connect to the peer at an address, and return its peer id.

        Raises `DialError` if that fails, and `EncodingError` if the address is malformed.
        """
        return await self._host.dial(Multiaddr.parse(address))

    def disconnect(self, peer: PeerId) -> None:
        self._host.disconnect(peer)

    async def ping(self, peer: PeerId) -> float:
        """Return the time of a round trip to a connected peer in seconds. The caller limits the time to wait.

        Raises `StreamClosed` or `ProtocolError` if the peer is gone or does not answer correctly.
        """
        return await self._ping_service.round_trip_s(peer)

    async def join(
        self,
        topic: str,
        *,
        signatures: SignaturePolicy | None = None,
        message_id: MessageIdFunction | None = None,
        partial: DrivenApplication | None = None,
        partial_use: PartialUse = PartialUse.REQUESTS,
    ) -> Topic:
        """Join a topic. `signatures` and `message_id` replace the node's policy and message ids in this topic, even
        after the node has left it.

        Raises `TooLarge` if the name of the topic is too long, and `ValueError` if the topic is joined already, is
        not allowed, or cannot have partial messages.

        With an application `partial`, this node and peers that support partial messages exchange parts (v1.3). A node
        that has all parts publishes the full message, which has no author. Therefore the topic needs a policy without
        signatures. `partial_use` must not be NONE then.
        """
        driver = self._running
        self._require_router()
        if topic in self._topics:
            raise ValueError(f"topic {topic!r} is joined already")
        self._check_topic(topic)
        if partial is not None:
            self._partials.check(topic, signatures or driver.receiver.policy(topic))
        if signatures is not None:
            driver.receiver.policies[topic] = signatures
        if message_id is not None:
            driver.receiver.id_functions[topic] = message_id
        if partial is not None:
            self._partials.choose(topic, partial, partial_use)
        joined = self._topics.add(self, topic)
        driver.feed(Join(topic))
        self._require_router()
        self._searches.topic_joined()
        return joined

    async def leave(self, topic: str) -> None:
        joined = self._topics.remove(topic)
        if joined is None:
            self._require_router()
            raise ValueError(f"topic {topic!r} is not joined")
        self._waiting_publishes.forget(topic)
        self._running.feed(Leave(topic))
        self._partials.leave(topic)
        joined.end(StopAsyncIteration())

    async def publish(self, topic: str, data: bytes, *, wait_for_peers: bool = False) -> Published:
        """Publish in a topic, joined or not.

        Raises `TooLarge` if the message does not fit into an RPC or a name or id is too long, `ValueError` if the
        topic is not allowed or a validator of the topic does not accept the message, and `TimeoutError` if a
        validator exceeds its deadline. An exception of a validator is passed on.

        With `wait_for_peers`, a message that would reach no peer waits until it would reach one. At most
        `NodeLimits.waiting_publishes` messages of a topic wait. To make room for another, the oldest is dropped and
        counted (`Statistics.gave_up_waiting`).
        """
        driver = self._running
        self._require_router()
        self._check_topic(topic)
        message = self._write(topic, data)
        message_id = raw(message.id)
        check_fits(message, self.config.limits.rpc)
        await driver.validation.check_own(message)
        self._require_router()
        if wait_for_peers and not self.reaches_somebody(topic):
            self._waiting_publishes.add(topic, message)
            return Published(message_id, 0, 0, True)
        sent, dropped = driver.publish(Publish(message))
        self._require_router()
        return Published(message_id, sent - dropped, dropped, False)

    def _write(self, topic: str, data: bytes) -> Message:
        driver = self._running
        message = self._author.write(topic, data, driver.receiver.policy(topic))
        source = None if message.source is None else raw(message.source)
        return replace(message, id=driver.receiver.message_id(topic, source, message.seqno, data))

    def follow(self, topic: str, outcome: Outcome) -> None:
        """Act on the outcome of parts that the application has added to a partial message: pass the events of the
        outcome to the router, and publish the full message if the parts complete it. Raises `ValueError` if the topic
        was not joined with an application.
        """
        self._require_router()
        self._partials.follow(topic, outcome)

    def waiting(self, topic: str) -> int:
        """Return the number of messages of this node in a topic that wait until they would reach a peer."""
        return self._waiting_publishes.count(topic)

    def reaches_somebody(self, topic: str) -> bool:
        """Return True if a message of a topic would be sent to a peer if it were published now.

        In a joined topic of a router with a mesh, the topic needs a mesh peer, or a subscriber that only floods. With
        episub, an eager peer takes the place of a mesh peer. Otherwise any connected peer that is subscribed to the
        topic suffices.
        """
        return self._waiting_publishes.reaches(topic)

    async def wait_for_peers(self, topic: str, within_s: float | None = None) -> bool:
        """Wait until a message of a topic would reach a peer, then return True. Return False after `within_s`
        seconds; None is no limit. Raises `RouterFailed` if the router has failed.
        """
        return await self._waiting_publishes.wait_for_peer(topic, within_s)

    async def make_room(self, within_s: float) -> bool:
        """Wait until the queues of peers that are more than half full are empty, then return True. Return False after
        `within_s` seconds.

        Call this before each of many publications, so that no message is dropped for lack of room.
        """
        self._require_router()
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._running.links.make_room()
                return True
        return False

    async def flush(self) -> None:
        """Wait until all queues of peers are empty and all bytes are sent.

        Messages that wait until they would reach a peer (`waiting`) are not in these queues; use `wait_for_peers` for
        them.
        """
        self._require_router()
        await self._running.links.flush()

    def add_validator(self, topic: str, validator: Validator, *, threads: bool = False) -> None:
        """Have `validator` check every message of a topic: those of peers, and those that this node publishes, except
        full messages that parts complete (`follow`).

        With `threads`, the validator runs on threads. It must then be a plain function that is thread-safe and does
        not block for ever.
        """
        self._running.validation.add(topic, validator, threads)

    def remove_validator(self, topic: str, validator: Validator) -> None:
        self._running.validation.remove(topic, validator)

    async def close(self) -> None:
        """Leave all topics, close all connections and finish the trace. Further calls wait for the first one."""
        if self._closing is None or self._closing.cancelled():
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await self._closing

    async def _close(self) -> None:
        await self._records.stop_metrics()
        await self._searches.close()
        await self._discovery.close()
        if self._driver is not None:
            await self._driver.requests.close()
            for topic in self._topics.names:
                await self.leave(topic)
            with suppress(TimeoutError):
                async with asyncio.timeout(GOODBYE_SECONDS):
                    await self._driver.links.flush()
            await self._driver.links.stream_tasks.close()
        await self._tasks.close()
        await self._identification.close()
        self.confirmed = await self._host.close()
        if self._driver is not None:
            await self._driver.close()
        await self._records.close()

    @property
    def _running(self) -> Driver:
        if self._driver is None:
            raise RuntimeError("the node is not running; use `async with Node(…)`")
        return self._driver

    def _check_topic(self, topic: str) -> None:
        check_topic(topic, self.config.limits.rpc)
        if not self._running.router.allows(topic):
            raise ValueError(f"topic {topic!r} is not one of the router's allowed_topics")

    def _require_router(self) -> None:
        if self.failure is not None:
            raise self.failure

    def _handle_report(self, report: Report) -> None:
        match report:
            case Deliver():
                self._partials.delivered(report)
                self._running.statistics.missed += self._topics.deliver(report)
            case DeliverPartial() | RemindOfPartial():
                self._partials.perform(report)
            case Reachable():
                if self.failure is None:
                    self._waiting_publishes.publish_reachable()
            case RouterFailed():
                self._topics.fail(report)
                self._waiting_publishes.wake()
                if self._closing is None:
                    self._closing = asyncio.get_running_loop().create_task(self._close())
            case _:
                assert_never(report)
