"""What is remembered of partial messages: per topic, group and peer, for a few heartbeats, within bounds.

* PARTIAL-8: A group is remembered for `partial_group_heartbeats` after the application published in it, or after a
  peer opened it (go 3, rust 5). A peer's later metadata replaces the earlier; none says nothing. A peer to which a
  partial message did not leave was told and sent nothing of the group. What is kept of a peer goes with its
  connection, and a topic's groups when the topic is left.
* PARTIAL-9: Peers open at most `max_peer_groups` groups in a topic, and one peer `max_groups_per_peer` (go 255, 8);
  those that the application publishes to all are its own and do not count, those in which it only answers do.
  Metadata beyond `max_metadata_bytes` is not heard (rust). A topic has at most `MAX_GROUPS` groups, and the oldest
  goes first: peers bring new groups in which the application publishes what it got.
"""

from __future__ import annotations

from collections.abc import Iterator

from hearsay.core.language.identifiers import PeerId, TopicId
from hearsay.core.mesh.extensions.parameters import ExtensionParameters

MAX_GROUPS = 2_048
"""Of a topic; twice as many as an application keeps (`hearsay.partial.exchange`)."""


class PeerNotes:
    """Of one peer in one group."""

    __slots__ = ("heard", "note", "spoke", "told")

    def __init__(self) -> None:
        self.heard: bytes | None = None
        self.told: bytes | None = None
        self.note: object = None
        self.spoke = False
        """Whether anything of the group came from it."""


class Group:
    __slots__ = ("beats_left", "is_own", "is_peers", "opener", "peers")

    def __init__(self, beats: int, opener: PeerId | None) -> None:
        self.beats_left = beats
        self.is_own = opener is None
        """The application has published in it."""
        self.is_peers = opener is not None
        """A peer opened it, and the application has not published it to all."""
        self.opener = opener
        """Who opened it, as long as it is connected and the group counts as a peer's."""
        self.peers: dict[PeerId, PeerNotes] = {}

    def notes_of(self, peer: PeerId) -> PeerNotes:
        notes = self.peers.get(peer)
        if notes is None:
            notes = self.peers[peer] = PeerNotes()
        return notes


class Groups:
    __slots__ = ("_beats", "_most", "_most_of_one", "_topics")

    def __init__(self, parameters: ExtensionParameters) -> None:
        self._beats = parameters.partial_group_heartbeats
        self._most = parameters.max_peer_groups
        self._most_of_one = parameters.max_groups_per_peer
        self._topics: dict[TopicId, dict[bytes, Group]] = {}

    def publish(self, topic: TopicId, name: bytes) -> Group:
        """The group, published to all: now it is the application's own and counts for no peer."""
        group = self.answer(topic, name)
        group.is_peers, group.opener = False, None
        return group

    def answer(self, topic: TopicId, name: bytes) -> Group:
        """The group, in which the application answers peers; it goes on counting for the peer that opened it."""
        group = self._topics.get(topic, {}).get(name) or self._add(topic, name, None)
        group.is_own, group.beats_left = True, self._beats
        return group

    def of_peer(self, topic: TopicId, name: bytes, peer: PeerId) -> Group | None:
        """The group that a peer speaks of; None if there is no room for one more."""
        groups = self._topics.get(topic, {})
        group = groups.get(name)
        if group is None and self.has_room(topic) and self.opened_by(topic, peer) < self._most_of_one:
            group = self._add(topic, name, peer)
        return group

    def _add(self, topic: TopicId, name: bytes, opener: PeerId | None) -> Group:
        groups = self._topics.setdefault(topic, {})
        groups[name] = group = Group(self._beats, opener)
        if len(groups) > MAX_GROUPS:
            del groups[next(iter(groups))]
        return group

    def has_room(self, topic: TopicId) -> bool:
        return self.opened(topic) < self._most

    def opened(self, topic: TopicId) -> int:
        """Groups of a topic that peers have opened."""
        return sum(group.is_peers for group in self._topics.get(topic, {}).values())

    def opened_by(self, topic: TopicId, peer: PeerId) -> int:
        return sum(group.opener == peer for group in self._topics.get(topic, {}).values())

    def did_not_leave(self, topic: TopicId, name: bytes, peer: PeerId) -> None:
        group = self._topics.get(topic, {}).get(name)
        notes = None if group is None else group.peers.get(peer)
        if group is None or notes is None:
            return
        notes.told = notes.note = None
        if not notes.spoke:
            del group.peers[peer]

    def own(self, topic: TopicId) -> list[tuple[bytes, Group]]:
        """Those in which the application published, ascending."""
        return sorted((name, group) for name, group in self._topics.get(topic, {}).items() if group.is_own)

    def topics(self) -> Iterator[TopicId]:
        return iter(self._topics)

    def beat(self) -> None:
        """A heartbeat: groups grow old, and those of peers of which nobody is left go."""
        for topic, groups in list(self._topics.items()):
            for name, group in list(groups.items()):
                if not group.beats_left or not (group.is_own or group.peers):
                    del groups[name]
                group.beats_left -= 1
            if not groups:
                del self._topics[topic]

    def remove_peer(self, peer: PeerId) -> None:
        for topic, groups in list(self._topics.items()):
            for name, group in list(groups.items()):
                group.peers.pop(peer, None)
                if group.opener == peer:
                    group.opener = None
                if not group.is_own and not group.peers:
                    del groups[name]
            if not groups:
                del self._topics[topic]

    def leave(self, topic: TopicId) -> None:
        self._topics.pop(topic, None)

    def remembers(self, peer: PeerId) -> bool:
        return any(
            peer in group.peers or group.opener == peer
            for groups in self._topics.values()
            for group in groups.values()
        )

    def __len__(self) -> int:
        return sum(map(len, self._topics.values()))
