"""Requests of a router that are answered later: dial a peer, measure a round trip, find contacts for a topic.

* A dial that fails, or reaches a peer without a common pubsub protocol, is answered by `DialFailed`. For a dial that
  succeeds, the router gets `PeerConnected`.
* A ping is answered by the round trip time, at most `PING_SECONDS`, unless the peer is gone.
* A search for contacts is answered by random peers, connected or with known addresses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import sample
from typing import assert_never

from hearsay.core.language.actions import Dial, FindContacts, Ping
from hearsay.core.language.events import ContactsFound, DialFailed, Event, RoundTripMeasured
from hearsay.core.language.identifiers import TopicId
from hearsay.libp2p.host.tasks import Tasks
from hearsay.libp2p.mux.stream import StreamClosed
from hearsay.libp2p.names.errors import ProtocolError
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.libp2p.services.ping import PingService
from hearsay.node.meeting.discovery import Discovery

STREAM_SECONDS = 5.0
"""Seconds after a dial in which the pubsub stream must be open."""
PING_SECONDS = 10.0


class RequestHandler:
    def __init__(
        self,
        discovery: Discovery,
        ping_service: PingService,
        router_peers: Callable[[], tuple[PeerId, ...]],
        feed: Callable[[Event], None],
    ) -> None:
        """Create the handler. `router_peers` returns the peers of the router; `feed` passes an event to it."""
        self._discovery = discovery
        self._ping_service = ping_service
        self._router_peers = router_peers
        self._feed = feed
        self._tasks = Tasks()
        self._dialing: set[PeerId] = set()
        self._closed = False

    def perform(self, action: Dial | Ping | FindContacts) -> None:
        if self._closed:
            return
        match action:
            case Dial():
                assert isinstance(action.peer, bytes)
                if action.peer not in self._dialing:  # otherwise the answer follows
                    self._dialing.add(action.peer)
                    self._tasks.start(self._dial(action.peer))
            case Ping():
                assert isinstance(action.peer, bytes)
                self._tasks.start(self._ping(action.peer))
            case FindContacts():
                asyncio.get_running_loop().call_soon(self._find, action.topic, action.count)
            case _:
                assert_never(action)

    async def close(self) -> None:
        """Cancel all requests and ignore further ones."""
        self._closed = True
        await self._tasks.close()

    async def _dial(self, peer: PeerId) -> None:
        try:
            if await self._discovery.reach(peer):
                await asyncio.sleep(STREAM_SECONDS)
        finally:
            self._dialing.discard(peer)
        if peer not in self._router_peers():
            self._feed(DialFailed(peer))

    async def _ping(self, peer: PeerId) -> None:
        seconds = PING_SECONDS
        try:
            async with asyncio.timeout(PING_SECONDS):
                seconds = await self._ping_service.round_trip_s(peer)
        except (StreamClosed, ProtocolError, TimeoutError):
            pass  # counts as the maximum
        if peer in self._router_peers():
            self._feed(RoundTripMeasured(peer, int(seconds * 1_000_000)))

    def _find(self, topic: TopicId, count: int) -> None:
        if self._closed:
            return
        known = sorted({*self._router_peers(), *self._discovery.known})
        self._feed(ContactsFound(topic, tuple(sample(known, min(count, len(known))))))
