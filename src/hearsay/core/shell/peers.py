"""The connected peers of a router, with their protocols and subscriptions."""

from __future__ import annotations

from collections.abc import Iterator

from hearsay.core.language.identifiers import PeerId, TopicId
from hearsay.core.language.sizes import SUBSCRIPTION_BYTES, TOPIC_VIEW_BYTES, length_of


class PeerGroup:
    """A set of peers that is always iterated in ascending order."""

    __slots__ = ("_ordered", "members")

    def __init__(self) -> None:
        self.members: set[PeerId] = set()
        """The peers, for lookups. Iterate over `ordered` instead, and change the group by its methods."""
        self._ordered: tuple[PeerId, ...] | None = ()

    @property
    def ordered(self) -> tuple[PeerId, ...]:
        """The peers in ascending order."""
        if self._ordered is None:
            self._ordered = tuple(sorted(self.members))
        return self._ordered

    def add(self, peer: PeerId) -> bool:
        """Add a peer; return True if it was no member."""
        if peer in self.members:
            return False
        self.members.add(peer)
        self._ordered = None
        return True

    def discard(self, peer: PeerId) -> bool:
        """Remove a peer; return True if it was a member."""
        if peer not in self.members:
            return False
        self.members.remove(peer)
        self._ordered = None
        return True

    def __contains__(self, peer: PeerId) -> bool:
        return peer in self.members

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[PeerId]:
        return iter(self.ordered)


class ConnectedPeer:
    """One connected peer. It is `native` if it speaks a native protocol of the router; otherwise it only floods
    (FLOOD-2)."""

    __slots__ = ("address", "id", "native", "outbound", "protocol", "topic_bytes", "topics")

    def __init__(self, peer: PeerId, protocol: str, native: bool, address: str, outbound: bool) -> None:
        self.id = peer
        self.address = address
        self.outbound = outbound
        """True if this node dialled the peer."""
        self.protocol = protocol
        self.native = native
        self.topics: set[TopicId] = set()
        self.topic_bytes = 0
        """Bytes of memory that the peer's subscriptions take (`subscription_bytes`)."""


def subscription_bytes(topic: TopicId) -> int:
    """Return the bytes of memory that one subscription takes."""
    return SUBSCRIPTION_BYTES + length_of(topic)


_NO_PEERS = PeerGroup()
"""The empty group that all topics without native peers, or without peers that only flood, share. Never changed."""


class TopicPeers:
    """The peers that subscribe to one topic: `native` peers, and in `flood` those that only flood."""

    __slots__ = ("flood", "native")

    def __init__(self) -> None:
        self.native = _NO_PEERS
        self.flood = _NO_PEERS

    def add(self, peer: ConnectedPeer) -> None:
        if peer.native:
            if self.native is _NO_PEERS:
                self.native = PeerGroup()
            self.native.add(peer.id)
        else:
            if self.flood is _NO_PEERS:
                self.flood = PeerGroup()
            self.flood.add(peer.id)

    def discard(self, peer: ConnectedPeer) -> None:
        (self.native if peer.native else self.flood).discard(peer.id)

    def __contains__(self, peer: PeerId) -> bool:
        return peer in self.native or peer in self.flood

    def __bool__(self) -> bool:
        return len(self.native) > 0 or len(self.flood) > 0


NO_PEERS = TopicPeers()
"""The `TopicPeers` of all topics without subscribers. Never changed."""


class PeerBook:
    """All connected peers, and the subscribed peers of each topic."""

    def __init__(self) -> None:
        self.topic_bytes = 0
        """Bytes of memory that the subscriptions of all peers take, with the `TopicPeers` of their topics."""
        self.connected: dict[PeerId, ConnectedPeer] = {}
        self.topics: dict[TopicId, TopicPeers] = {}

    def in_topic(self, topic: TopicId) -> TopicPeers:
        """Return the peers that subscribe to a topic: a live view if there are any, otherwise `NO_PEERS`. The caller
        must not change the result."""
        return self.topics.get(topic, NO_PEERS)

    def subscribe(self, peer: ConnectedPeer, topic: TopicId) -> None:
        if topic in peer.topics:
            return
        peer.topics.add(topic)
        self._count(peer, subscription_bytes(topic))
        view = self.topics.get(topic)
        if view is None:
            view = self.topics[topic] = TopicPeers()
            self.topic_bytes += TOPIC_VIEW_BYTES
        view.add(peer)

    def unsubscribe(self, peer: ConnectedPeer, topic: TopicId) -> None:
        if topic not in peer.topics:
            return
        peer.topics.remove(topic)
        self._count(peer, -subscription_bytes(topic))
        view = self.topics[topic]
        view.discard(peer)
        if not view:
            del self.topics[topic]
            self.topic_bytes -= TOPIC_VIEW_BYTES

    def remove(self, peer: ConnectedPeer) -> None:
        """Remove a peer that has disconnected, and all its subscriptions."""
        for topic in sorted(peer.topics):
            self.unsubscribe(peer, topic)
        del self.connected[peer.id]

    def _count(self, peer: ConnectedPeer, size: int) -> None:
        peer.topic_bytes += size
        self.topic_bytes += size
