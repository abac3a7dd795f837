"""Partial messages: peers exchange parts of a message before they have all of them (gossipsub v1.3's first
extension).

A group is one message in parts. The application chooses the content for each peer (`PartialApplication`), and the
router chooses the peers. The router keeps its state of each group and peer for a few heartbeats, within bounds.

* PARTIAL-1: A SUBSCRIBE to a peer of 1.3 announces the router's use of partial messages in the topic. The SUBSCRIBE
  is sent again when the use changes. A router that requests parts also supports them. UNSUBSCRIBE ends the use.
* PARTIAL-2: Two routers exchange partial messages if both have announced the extension (EXT-3), one requests parts in
  the topic, and the other one requests or supports them. A router that requests parts gets parts. A router that only
  supports parts gets metadata from routers that request parts; with `supporters_told` = `by_all`, it gets metadata
  from all routers that support parts.
* PARTIAL-3: A peer that requests parts gets no full messages from a router that supports parts, except the messages
  that the peer requests by IWANT. A router that requests parts also accepts full messages.
* PARTIAL-4: A peer that supports parts gets no IDONTWANT from a router that requests them.
* PARTIAL-5: When the application publishes a group, partial messages go to the peers of the mesh or the fan-out that
  get partial messages (PARTIAL-2), and to all peers that sent a partial message of the group, whatever their use in
  the topic. They also go to peers to which the group was gossiped (PARTIAL-6), if PARTIAL-2 still holds for these
  peers. Each partial message is an RPC of its own, sent after all other RPCs.
* PARTIAL-6: In the heartbeat, peers that are drawn for gossip and request parts get no IHAVE. Instead, the
  application chooses parts and metadata for these peers, in each group in which it has published, once for each peer
  and group. This is done even if there are no ids for an IHAVE.
* PARTIAL-7: Received partial messages go to the application, if it uses partial messages in the topic and the
  extension is on with the sender (EXT-3).
* PARTIAL-8: A group is remembered for `partial_group_heartbeats` after the application published in it, or after a
  peer opened it (go 3, rust 5). New metadata of a peer replace its earlier metadata; a message without metadata
  changes nothing. If a partial message could not be sent, the router forgets which metadata it sent to this peer in
  the group. The state of a peer is removed when its connection ends, and the groups of a topic when the topic is left
  or the application ends the use of partial messages in it.
* PARTIAL-9: A peer opens a group by the first partial message of the group. In a topic, at most `max_peer_groups`
  groups are opened by peers, and at most `max_groups_per_peer` by one peer (go: 255 and 8). When the application
  publishes a group to all peers, the group no longer counts as opened by a peer. When it only answers some peers, the
  group still counts. Messages with metadata beyond `max_metadata_bytes` are dropped (rust). A topic has at most
  `MAX_GROUPS` groups, counted or not, and the oldest is removed first. Otherwise the number of published groups would
  have no limit.
* PARTIAL-10: In each heartbeat, the router reminds the application of the remembered groups in which the application
  has published. The application may then ask other peers for missing parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hearsay.core.language.actions import DeliverPartial, Reason, RemindOfPartial
from hearsay.core.language.events import PartialApplication, PartialPeer, PartialsChosen, PublishPartial
from hearsay.core.language.identifiers import PeerId, TopicId
from hearsay.core.language.rpc import Partial, PartialUse, knows_extensions
from hearsay.core.language.sizes import partial_kind
from hearsay.core.mesh.features import FeatureBook
from hearsay.core.mesh.parameters import GossipsubParameters, SupportersTold
from hearsay.core.rules.partial_rules import (
    ACCEPTED,
    REQUESTS,
    gets_partials,
    group_refusal,
    is_addressed,
    is_over,
    needs_no_idontwant,
    refusal,
)
from hearsay.core.shell.guarantees import PartialPromise
from hearsay.core.shell.peers import ConnectedPeer, PeerGroup
from hearsay.core.shell.strategy import Shell

MAX_GROUPS = 2_048
"""Maximum number of groups of a topic: twice as many as an application keeps (`hearsay.partial.exchange`)."""
_NUMBERS = {use: number for number, use in enumerate(PartialUse)}


@dataclass(slots=True)
class PeerNotes:
    """State of one peer in one group; `received`, `sent` and `note` are as in `PartialPeer`."""

    received: bytes | None = None
    sent: bytes | None = None
    note: object = None
    has_sent: bool = False
    """True if the peer has sent a partial message of the group."""


class Group:
    """State of one group."""

    __slots__ = ("beats_left", "is_own", "is_peers", "opener", "peers")

    def __init__(self, beats: int, opener: PeerId | None) -> None:
        self.beats_left = beats
        self.is_own = opener is None
        """True if the application has published in the group."""
        self.is_peers = opener is not None
        """True if a peer opened the group and the application has not published it to all peers."""
        self.opener = opener
        """The peer that opened the group. None if the application created the group, if the application has published
        it to all peers, or if the peer has disconnected."""
        self.peers: dict[PeerId, PeerNotes] = {}

    def notes_of(self, peer: PeerId) -> PeerNotes:
        notes = self.peers.get(peer)
        if notes is None:
            notes = self.peers[peer] = PeerNotes()
        return notes


class Groups:
    """The groups of all topics."""

    def __init__(self, parameters: GossipsubParameters) -> None:
        self._beats = parameters.partial_group_heartbeats
        self._max = parameters.max_peer_groups
        self._max_of_one = parameters.max_groups_per_peer
        self._topics: dict[TopicId, dict[bytes, Group]] = {}

    def publish(self, topic: TopicId, name: bytes) -> Group:
        """Return the group with this name, new or old, since the application publishes it to all peers.

        From now on the group does not count as opened by a peer.
        """
        group = self.answer(topic, name)
        group.is_peers, group.opener = False, None
        return group

    def answer(self, topic: TopicId, name: bytes) -> Group:
        """Return the group with this name, new or old, since the application answers some peers in it.

        If a peer opened the group, the group still counts as opened by this peer.
        """
        group = self._topics.get(topic, {}).get(name) or self._add(topic, name, None)
        group.is_own, group.beats_left = True, self._beats
        return group

    def of_peer(self, topic: TopicId, name: bytes, peer: PeerId) -> Group | None:
        """Return the group of a partial message of this peer; open it if it is new. Return None if the peer may not
        open a group now."""
        group = self._topics.get(topic, {}).get(name)
        if group is None and self.refusal(topic, peer) == ACCEPTED:
            group = self._add(topic, name, peer)
        return group

    def _add(self, topic: TopicId, name: bytes, opener: PeerId | None) -> Group:
        groups = self._topics.setdefault(topic, {})
        groups[name] = group = Group(self._beats, opener)
        if len(groups) > MAX_GROUPS:
            del groups[next(iter(groups))]
        return group

    def refusal(self, topic: TopicId, peer: PeerId) -> int:
        """Return the `Reason` for which a peer may not open a group now, or ACCEPTED."""
        return group_refusal(self.opened(topic), self._max, self.opened_by(topic, peer), self._max_of_one)

    def opened(self, topic: TopicId) -> int:
        """Return the number of groups of a topic that count as opened by peers."""
        return sum(group.is_peers for group in self._topics.get(topic, {}).values())

    def opened_by(self, topic: TopicId, peer: PeerId) -> int:
        return sum(group.opener == peer for group in self._topics.get(topic, {}).values())

    def not_sent(self, topic: TopicId, name: bytes, peer: PeerId) -> None:
        group = self._topics.get(topic, {}).get(name)
        notes = None if group is None else group.peers.get(peer)
        if group is None or notes is None:
            return
        notes.sent = notes.note = None
        if not notes.has_sent:
            del group.peers[peer]

    def own(self, topic: TopicId) -> list[tuple[bytes, Group]]:
        """Return the groups of a topic in which the application has published, each after its name; names
        ascending."""
        return sorted((name, group) for name, group in self._topics.get(topic, {}).items() if group.is_own)

    def topics(self) -> Iterator[TopicId]:
        return iter(self._topics)

    def beat(self) -> None:
        """Handle a heartbeat: remove old groups, and groups that have no peers and in which the application never
        published."""
        for topic, groups in list(self._topics.items()):
            for name, group in list(groups.items()):
                if is_over(group.beats_left, group.is_own, bool(group.peers)):
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


class Partials:
    """Partial messages of one router: in each topic, the router's own use, the uses of its peers, and the groups."""

    def __init__(
        self,
        parameters: GossipsubParameters,
        shell: Shell,
        features: FeatureBook,
        routed: Callable[[TopicId], PeerGroup],
    ) -> None:
        self._shell = shell
        self._features = features
        self._routed = routed
        self._parameters = parameters
        self._between_supporters = parameters.supporters_told is SupportersTold.BY_ALL
        self.groups = Groups(parameters)
        self._choices: dict[TopicId, tuple[PartialUse, PartialApplication]] = {}
        """By topic, this router's use and the application."""
        self._uses: dict[PeerId, dict[TopicId, PartialUse]] = {}
        """By peer and topic, the uses that peers announced, except NONE."""

    def has(self, topic: TopicId) -> bool:
        return topic in self._choices

    def use(self, topic: TopicId) -> PartialUse:
        """Return this router's use in a topic; NONE without an application."""
        return self._choices[topic][0] if topic in self._choices else PartialUse.NONE

    def use_of(self, peer: PeerId, topic: TopicId) -> PartialUse:
        """Return a peer's use in a topic; NONE if the extension is not on with the peer (EXT-3)."""
        use = self._uses.get(peer, {}).get(topic, PartialUse.NONE)
        return use if self._features.exchanges_parts(peer) else PartialUse.NONE

    def _uses_of_both(self, peer: PeerId, topic: TopicId) -> tuple[int, int]:
        """Return the uses of this router and of a peer in a topic, as numbers; both are 0 without an application."""
        if topic not in self._choices:
            return 0, 0
        return _NUMBERS[self.use(topic)], _NUMBERS[self.use_of(peer, topic)]

    def gets_parts(self, peer: PeerId, topic: TopicId) -> bool:
        """Return whether a peer requests parts, so that it gets parts in place of full messages (PARTIAL-3)."""
        return self._uses_of_both(peer, topic)[1] == REQUESTS

    def spares(self, peer: PeerId, topic: TopicId) -> bool:
        """Return whether a peer needs no IDONTWANT (PARTIAL-4)."""
        return needs_no_idontwant(*self._uses_of_both(peer, topic))

    def gets_partials(self, peer: PeerId, topic: TopicId) -> bool:
        """Return whether a peer in the topic gets partial messages, perhaps only metadata (PARTIAL-2)."""
        return gets_partials(*self._uses_of_both(peer, topic), self._between_supporters)

    def without(self, peers: Sequence[PeerId], topic: TopicId) -> Sequence[PeerId]:
        """Return those of the peers that get full messages (PARTIAL-3), in the same order."""
        if topic not in self._choices:
            return peers
        return [peer for peer in peers if not self.gets_parts(peer, topic)]

    def choose(self, chosen: PartialsChosen) -> None:
        topic = chosen.topic
        before = self.use(topic)
        if chosen.application is None:
            self._choices.pop(topic, None)
            self.groups.leave(topic)
        else:
            self._choices[topic] = chosen.use, chosen.application
        shell = self._shell
        if topic in shell.joined and chosen.use is not before:
            for peer in sorted(shell.connected):
                if knows_extensions(shell.connected[peer].protocol):
                    shell.outbox.subscription(peer, topic, True, chosen.use)

    def announced_use(self, peer: ConnectedPeer, topic: TopicId) -> PartialUse:
        return self.use(topic) if knows_extensions(peer.protocol) else PartialUse.NONE

    def receive_use(self, peer: PeerId, topic: TopicId, use: PartialUse) -> None:
        if use is not PartialUse.NONE:
            self._uses.setdefault(peer, {})[topic] = use
        else:
            self.forget_use(peer, topic)

    def forget_use(self, peer: PeerId, topic: TopicId) -> None:
        uses = self._uses.get(peer)
        if uses is not None and uses.pop(topic, None) is not None and not uses:
            del self._uses[peer]

    def receive(self, sender: ConnectedPeer, partial: Partial) -> None:
        is_on, is_chosen = self._features.exchanges_parts(sender.id), partial.topic in self._choices
        reason = refusal(is_on, is_chosen, len(partial.metadata or b""), self._parameters.max_metadata_bytes)
        group = None
        if reason == ACCEPTED:
            group = self.groups.of_peer(partial.topic, partial.group, sender.id)
            reason = self.groups.refusal(partial.topic, sender.id)
        if group is None:
            self._shell.drop(sender.id, partial_kind(partial), 1, Reason(reason))
            return
        notes = group.notes_of(sender.id)
        notes.has_sent = True
        if partial.metadata is not None:
            notes.received = partial.metadata
        self._shell.actions.append(DeliverPartial(partial, sender.id))

    def publish(self, published: PublishPartial) -> None:
        topic = published.topic
        of_group = self.groups.publish if published.peers is None else self.groups.answer
        group = of_group(topic, published.group)
        routed = self._routed(topic)
        candidates = {*routed, *group.peers} if published.peers is None else set(published.peers)
        for peer in sorted(candidates & self._shell.connected.keys()):
            notes, gets = group.peers.get(peer), self.gets_partials(peer, topic)
            is_routed = published.peers is not None or peer in routed
            if is_addressed(is_routed, gets, notes is not None and notes.has_sent, notes is not None):
                self._ask(topic, published.group, group, peer, gossip=False)

    def gossip(self, topic: TopicId, peers: Sequence[PeerId]) -> Sequence[PeerId]:
        """Send partial messages to those of `peers` that request parts (PARTIAL-6). Return the other peers, which get
        IHAVE."""
        if topic not in self._choices:
            return peers
        others: list[PeerId] = []
        own = self.groups.own(topic)
        for peer in peers:
            if not self.gets_parts(peer, topic):
                others.append(peer)
                continue
            for name, group in own:
                if peer not in group.peers:
                    self._ask(topic, name, group, peer, gossip=True)
        return others

    def _ask(self, topic: TopicId, name: bytes, group: Group, peer: PeerId, *, gossip: bool) -> None:
        """Ask the application for the parts and metadata of a group that a peer gets, and send what it returns."""
        notes = group.notes_of(peer)
        requests = self.gets_parts(peer, topic)
        about = PartialPeer(peer, requests, gossip, notes.received, notes.sent, notes.note)
        answer = self._choices[topic][1].parts_for(topic, name, about)
        notes.note = answer.note
        parts = (answer.parts or None) if requests else None
        metadata = answer.metadata or None
        if metadata is not None:
            notes.sent = metadata
        if parts is not None or metadata is not None:
            self._shell.outbox.partial(peer, Partial(topic, name, parts, metadata))

    def promise(self) -> PartialPromise:
        return PartialPromise(
            opened=self.groups.opened,
            opened_by=self.groups.opened_by,
            max_opened=self._parameters.max_peer_groups,
            max_opened_by_peer=self._parameters.max_groups_per_peer,
            between_supporters=self._between_supporters,
        )

    def beat(self) -> None:
        self.groups.beat()
        for topic in sorted(self._choices):
            for name, _ in self.groups.own(topic):
                self._shell.actions.append(RemindOfPartial(topic, name))

    def remove_peer(self, peer: PeerId) -> None:
        self._uses.pop(peer, None)
        self.groups.remove_peer(peer)

    def remembers(self, peer: PeerId) -> bool:
        return peer in self._uses or self.groups.remembers(peer)
