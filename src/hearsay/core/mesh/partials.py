"""Partial messages: parts of a message, exchanged before any peer has all of them (gossipsub v1.3's first extension).

The application chooses the content for each peer (`PartialApplication`), and the router chooses the peers. The state
per topic, group and peer is kept for a few heartbeats, within bounds.

* PARTIAL-1: SUBSCRIBE announces to a peer of 1.3 the router's use of partial messages in the topic. It is sent again
  when the use changes. A router that requests parts also supports them; UNSUBSCRIBE ends the use.
* PARTIAL-2: Two routers exchange partial messages if both have announced the extension (EXT-3), one requests parts in
  the topic and the other at least supports them. A router that requests parts gets parts. A router that only supports
  them gets metadata; with `supporters_told`, also from routers that only support parts.
* PARTIAL-3: A peer that requests parts gets no full messages from a router that supports parts, except those that it
  requests by IWANT. A router that requests parts accepts full messages, too.
* PARTIAL-4: A peer that supports parts gets no IDONTWANT from a router that requests them.
* PARTIAL-5: A partial publish goes to the peers of the mesh or the fan-out that use partial messages, and to all
  peers that sent something of the group, whatever their use in the topic. Each copy is an RPC of its own, after all
  others.
* PARTIAL-6: In the heartbeat, peers that are drawn for gossip and request parts get no IHAVE. Instead, the
  application chooses what they get of each group in which it has published, once per peer and group. This is done
  even if there are no ids for an IHAVE.
* PARTIAL-7: Received parts go to the application, if it chose the topic and partial messages are on with the sender.
* PARTIAL-8: A group is remembered for `partial_group_heartbeats` after the application published in it, or after a
  peer opened it (go 3, rust 5). A peer's later metadata replaces the earlier; a message without metadata changes
  nothing. If a partial message could not be sent, the router forgets what it sent to this peer in the group. State of
  a peer ends with its connection, and a topic's groups when the topic is left.
* PARTIAL-9: Peers open at most `max_peer_groups` groups in a topic, and one peer `max_groups_per_peer` (go 255, 8). A
  group that the application publishes to all does not count; a group in which it only answers peers does. Messages
  with metadata beyond `max_metadata_bytes` are dropped (rust). A topic has at most `MAX_GROUPS` groups, and the
  oldest is removed first: peers can start groups in which the application then publishes.
* PARTIAL-10: In each heartbeat the application is reminded of the remembered groups in which it has published. It may
  then ask other peers for missing parts.
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


class PeerNotes:
    """State of one peer in one group."""

    __slots__ = ("note", "received", "sent", "spoke")

    def __init__(self) -> None:
        self.received: bytes | None = None
        self.sent: bytes | None = None
        self.note: object = None
        self.spoke = False
        """True if the peer has sent something of the group."""


class Group:
    """State of one group, which is one message in parts."""

    __slots__ = ("beats_left", "is_own", "is_peers", "opener", "peers")

    def __init__(self, beats: int, opener: PeerId | None) -> None:
        self.beats_left = beats
        self.is_own = opener is None
        """True if the application has published in the group."""
        self.is_peers = opener is not None
        """True if a peer opened the group and the application has not published it to all peers."""
        self.opener = opener
        """The peer that opened the group; None after it disconnects or the application publishes to all peers."""
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
        """Return a group that is published to all peers. From now on it does not count as opened by a peer."""
        group = self.answer(topic, name)
        group.is_peers, group.opener = False, None
        return group

    def answer(self, topic: TopicId, name: bytes) -> Group:
        """Return a group in which the application answers peers. It still counts as opened by its peer."""
        group = self._topics.get(topic, {}).get(name) or self._add(topic, name, None)
        group.is_own, group.beats_left = True, self._beats
        return group

    def of_peer(self, topic: TopicId, name: bytes, peer: PeerId) -> Group | None:
        """Return the group of a peer's message; None if the peer may not open it."""
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
        return group_refusal(self.opened(topic), self._max, self.opened_by(topic, peer), self._max_of_one)

    def opened(self, topic: TopicId) -> int:
        """Return the number of groups of a topic that peers have opened."""
        return sum(group.is_peers for group in self._topics.get(topic, {}).values())

    def opened_by(self, topic: TopicId, peer: PeerId) -> int:
        return sum(group.opener == peer for group in self._topics.get(topic, {}).values())

    def not_sent(self, topic: TopicId, name: bytes, peer: PeerId) -> None:
        group = self._topics.get(topic, {}).get(name)
        notes = None if group is None else group.peers.get(peer)
        if group is None or notes is None:
            return
        notes.sent = notes.note = None
        if not notes.spoke:
            del group.peers[peer]

    def own(self, topic: TopicId) -> list[tuple[bytes, Group]]:
        """Return the groups in which the application published, ascending."""
        return sorted((name, group) for name, group in self._topics.get(topic, {}).items() if group.is_own)

    def topics(self) -> Iterator[TopicId]:
        return iter(self._topics)

    def beat(self) -> None:
        """Count a heartbeat. Remove old groups, and groups without own publish whose peers have all disconnected."""
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


@dataclass(frozen=True, slots=True)
class _Choice:
    use: PartialUse
    application: PartialApplication


class Partials:
    """Partial messages of one router: the uses of them by topic and peer, the groups, and their exchange."""

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
        self._tells_all = parameters.supporters_told is SupportersTold.BY_ALL
        self.groups = Groups(parameters)
        self._choices: dict[TopicId, _Choice] = {}
        self._uses: dict[PeerId, dict[TopicId, PartialUse]] = {}
        """Uses that peers announced, by peer and topic."""

    def has(self, topic: TopicId) -> bool:
        return topic in self._choices

    def use(self, topic: TopicId) -> PartialUse:
        choice = self._choices.get(topic)
        return PartialUse.NONE if choice is None else choice.use

    def use_of(self, peer: PeerId, topic: TopicId) -> PartialUse:
        """Return a peer's use in a topic; NONE if the extension is not on with the peer (EXT-3)."""
        use = self._uses.get(peer, {}).get(topic, PartialUse.NONE)
        return use if self._features.exchanges_parts(peer) else PartialUse.NONE

    def _uses_of_both(self, peer: PeerId, topic: TopicId) -> tuple[int, int]:
        """Return how this router and a peer use partial messages, as numbers; both are 0 without an application."""
        if topic not in self._choices:
            return 0, 0
        return _NUMBERS[self.use(topic)], _NUMBERS[self.use_of(peer, topic)]

    def gets_parts(self, peer: PeerId, topic: TopicId) -> bool:
        """Return whether a peer gets parts in place of full messages."""
        return self._uses_of_both(peer, topic)[1] == REQUESTS

    def spares(self, peer: PeerId, topic: TopicId) -> bool:
        """Return whether a peer needs no IDONTWANT (PARTIAL-4)."""
        return needs_no_idontwant(*self._uses_of_both(peer, topic))

    def gets_partials(self, peer: PeerId, topic: TopicId) -> bool:
        """Return whether a peer in the topic gets partial messages, perhaps only metadata (PARTIAL-2)."""
        return gets_partials(*self._uses_of_both(peer, topic), self._tells_all)

    def without(self, peers: Sequence[PeerId], topic: TopicId) -> Sequence[PeerId]:
        """Return the peers that get full messages (PARTIAL-3)."""
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
            self._choices[topic] = _Choice(chosen.use, chosen.application)
        shell = self._shell
        if topic in shell.joined and chosen.use is not before:
            for peer in sorted(shell.connected):
                if knows_extensions(shell.connected[peer].protocol):
                    shell.outbox.subscription(peer, topic, True, chosen.use)

    def said_to(self, peer: ConnectedPeer, topic: TopicId) -> PartialUse:
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
        notes.spoke = True
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
            if is_addressed(is_routed, gets, notes is not None and notes.spoke, notes is not None):
                self._ask(topic, published.group, group, peer, gossip=False)

    def gossip(self, topic: TopicId, peers: Sequence[PeerId]) -> Sequence[PeerId]:
        """Send partial gossip to peers that request parts; return the other peers, which get IHAVE."""
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
        notes = group.notes_of(peer)
        requests = self.gets_parts(peer, topic)
        about = PartialPeer(peer, requests, gossip, notes.received, notes.sent, notes.note)
        answer = self._choices[topic].application.parts_for(topic, name, about)
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
            most=self._parameters.max_peer_groups,
            most_of_one=self._parameters.max_groups_per_peer,
            tells_supporters=self._tells_all,
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
