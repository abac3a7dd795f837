"""Episub: a broadcast tree for each topic, over neighbours that the router itself chooses and dials.

The router follows the episub spec (vyzo, 2018), which combines Plumtree (broadcast), HyParView (membership) and
GoCast (proximity).

An `Episub` has the connections of the node and, for each joined topic, a membership and a tree. It passes events to
these parts. Peers that speak only floodsub get every message of their topics (FLOOD-2). A message that the
application publishes in a topic that is not joined goes to the connected peers that are in the topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import replace

from hearsay.core.episub.connections import Agenda, Connections, Task
from hearsay.core.episub.membership import FixedOverlay, ManagedOverlay, Membership
from hearsay.core.episub.parameters import Broadcast, EpisubParameters, Overlay, ViewSizes
from hearsay.core.episub.tree import Tree
from hearsay.core.episub.views import SequenceNumbers, TargetSizes
from hearsay.core.language.actions import Reason, Via, fast_init
from hearsay.core.language.episub_parts import (
    Disconnect,
    EpisubGraft,
    EpisubIHave,
    EpisubLeave,
    EpisubPart,
    EpisubPrune,
    GetTopics,
    Topics,
)
from hearsay.core.language.events import ContactsFound, DialFailed, RoundTripMeasured
from hearsay.core.language.identifiers import MessageId, PeerId, TopicId
from hearsay.core.language.rpc import EPISUB, FLOODSUB, Message, Rpc
from hearsay.core.language.sizes import part_kind
from hearsay.core.shell.guarantees import OverlayPromise, OverlayState, Peering, Promises
from hearsay.core.shell.peers import ConnectedPeer
from hearsay.core.shell.strategy import Dialling, Shell, Strategy

_overlay_state = fast_init(OverlayState)


class Episub(Strategy):
    """The router of episub. With `overlay = "connections"` it does not dial; otherwise it chooses its connections."""

    protocols = (EPISUB, FLOODSUB)
    native_protocols = (EPISUB,)
    parameters: EpisubParameters  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, parameters: EpisubParameters | None = None) -> None:
        super().__init__(parameters or EpisubParameters())
        self.copies = self
        if self.parameters.overlay is not Overlay.CONNECTIONS:
            self.dialling = Dialling.BY_ROUTER
        is_hyparview = self.parameters.overlay is Overlay.HYPARVIEW
        self._active_limit = self.parameters.active_size if is_hyparview else self.parameters.active_limit
        self.trees: dict[TopicId, Tree] = {}
        self.memberships: dict[TopicId, Membership] = {}

    def attach(self, shell: Shell) -> None:
        super().attach(shell)
        self._agenda = Agenda(shell)
        self._sequence = SequenceNumbers()
        self.connections = Connections(shell, self.parameters, self._agenda, self._silent)

    # Topics.

    def joined(self, topic: TopicId) -> None:
        shell, parameters = self.shell, self.parameters
        tree = self.trees[topic] = Tree(shell, parameters, topic, self._agenda)
        if parameters.overlay is Overlay.CONNECTIONS:
            membership: Membership = FixedOverlay(shell, topic, TargetSizes(parameters, shell.key), tree)
        else:
            membership = ManagedOverlay(
                shell, parameters, topic, self.connections, self._agenda, self._sequence, tree
            )
        self.memberships[topic] = tree.membership = membership
        membership.start()

    def left(self, topic: TopicId) -> None:
        self.trees.pop(topic).stop()
        self.memberships.pop(topic).stop()

    # Connections.

    def peer_added(self, peer: ConnectedPeer) -> None:
        if self.dialling is Dialling.BY_ROUTER:
            self.connections.connected(peer)
        for topic in sorted(peer.topics):
            self.peer_subscribed(peer, topic)

    def peer_removed(self, peer: ConnectedPeer) -> None:
        self.connections.losing(peer.id)
        self.connections.lost(peer.id)
        for topic in sorted(self.memberships):
            self.memberships[topic].peer_lost(peer.id)
            self.trees[topic].peer_removed(peer.id)
        self.connections.losing(None)

    def stream_opened(self, peer: PeerId) -> None:
        """In each topic in which the peer is a neighbour, announce recent messages again. Also send ACCEPT again,
        unless the neighbours are all connected peers."""
        for topic, membership in sorted(self.memberships.items()):
            if peer in membership.views.active:
                if isinstance(membership, ManagedOverlay):
                    membership.neighbours.accept(peer, membership.views.active[peer].random)
                self.trees[topic].announce_again(peer)

    def peer_subscribed(self, peer: ConnectedPeer, topic: TopicId) -> None:
        self.connections.subscribed(peer.id, topic)
        if topic in self.memberships and peer.native:
            self.memberships[topic].peer_subscribed(peer.id)

    def peer_unsubscribed(self, peer: ConnectedPeer, topic: TopicId) -> None:
        if topic in self.memberships:
            self.memberships[topic].peer_lost(peer.id)

    def discovery(self, event: DialFailed | RoundTripMeasured | ContactsFound) -> None:
        match event:
            case DialFailed():
                self.connections.dial_failed(event.peer)
            case RoundTripMeasured():
                self.connections.measured(event.peer)
                for membership in self._managed():
                    membership.measured(event.peer, event.round_trip_us)
            case ContactsFound():
                membership = self.memberships.get(event.topic)
                if isinstance(membership, ManagedOverlay):
                    membership.join_protocol.contacts_found(event.peers)

    # Messages.

    def reaches(self, topic: TopicId) -> bool:
        tree = self.trees.get(topic)
        if tree is None or self.dialling is Dialling.BY_DRIVER:
            return super().reaches(topic)
        return len(tree.eager) > 0 or len(self.shell.peers.in_topic(topic).flood) > 0

    def publish(self, message: Message) -> None:
        tree = self.trees.get(message.topic)
        if tree is not None:
            tree.publish(message)
        else:
            peers = self.shell.peers.in_topic(message.topic).native.ordered
            self.shell.outbox.forward(peers, message, Via.FANOUT, None)
        self.flood(message, None)

    def accepted(self, message: Message, received_from: PeerId) -> None:
        tree = self.trees.get(message.topic)
        if tree is not None:
            tree.accepted(message, received_from)
        self.flood(replace(message, hops=None), received_from)

    def first_copy(self, message: Message, received_from: PeerId) -> None:
        pass

    def duplicate(self, message: Message, received_from: PeerId) -> None:
        tree = self.trees.get(message.topic)
        if tree is not None and self.shell.connected[received_from].native:
            tree.duplicate(received_from)

    # Control and time.

    def on_episub(self, sender: ConnectedPeer, part: EpisubPart) -> None:
        match part:
            case GetTopics():
                self.shell.outbox.episub(sender.id, Topics(tuple(sorted(self.shell.joined))))
            case Topics():
                for membership in self._managed():
                    membership.passive_probes.on_topics(sender.id, part)
            case EpisubIHave() | EpisubGraft() | EpisubPrune():
                self._on_tree_part(sender, part)
            case _:
                membership = self.memberships.get(part.topic)
                if not sender.native:
                    self.shell.drop(sender.id, part_kind(part), 1, Reason.UNSUPPORTED)
                elif not isinstance(membership, ManagedOverlay):
                    self.shell.drop(sender.id, part_kind(part), 1, Reason.NOT_SUBSCRIBED)
                elif part.topic not in sender.topics and not isinstance(part, EpisubLeave | Disconnect):
                    self.shell.drop(sender.id, part_kind(part), 1, Reason.NOT_A_SUBSCRIBER)
                else:
                    membership.handle(sender.id, part)

    def timer_fired(self) -> None:
        for task, topic in self._agenda.ringing(self.shell.now):
            if task is Task.SWEEP:
                self.connections.sweep()
            elif task is Task.FLUSH:
                for name in sorted(self.trees):
                    self.trees[name].flush()
            elif task is Task.MISSING:
                for name in sorted(self.trees):
                    self.trees[name].touch_missing()
                if any(len(tree.missing) for tree in self.trees.values()):
                    self._agenda.set(task, None, self.shell.now + self.parameters.missing_tick_ms * 1000)
            elif topic is not None:
                membership = self.memberships.get(topic)
                if isinstance(membership, ManagedOverlay):
                    membership.ring(task)

    def send_failed(self, peer: PeerId, rpc: Rpc) -> None:
        for membership in self._managed():
            membership.send_failed(peer, rpc)

    # Inspection.

    def peerings(self) -> Iterable[tuple[TopicId, PeerId, Peering]]:
        for topic in sorted(self.trees):
            for peer in self.trees[topic].eager:
                yield topic, peer, Peering.FULL_MESSAGE

    def holds(self, message_id: MessageId) -> bool:
        return any(message_id in tree.kept for tree in self.trees.values())

    def held_messages(self) -> Iterable[Message]:
        for topic in sorted(self.trees):
            yield from self.trees[topic].kept.messages(self.shell.now)

    def remembers(self, peer: PeerId) -> bool:
        """Return whether a peer is in an active list, in the state of a tree, or has an idle connection or an
        unanswered ping."""
        listed = any(peer in membership.views.active for membership in self.memberships.values())
        in_trees = any(tree.remembers(peer) for tree in self.trees.values())
        return listed or in_trees or self.connections.mentions(peer)

    def overlays(self) -> Mapping[TopicId, OverlayState]:
        return {topic: self._overlay(membership, self.trees[topic]) for topic, membership in self.memberships.items()}

    def promises(self) -> Promises:
        parameters = self.parameters
        overlay = OverlayPromise(
            one_tree=parameters.broadcast is not Broadcast.FLOOD,
            only_tried_leave=parameters.view_sizes is not ViewSizes.ESTIMATED,
            ping_answer_us=2 * parameters.reply_timeout_ms * 1000,
            recovery_us=(parameters.graft_attempts + 2) * parameters.missing_tick_ms * 1000,
        )
        return Promises(overlay=overlay)

    def other_state(self) -> Iterable[PeerId]:
        """Yield the passive and the lazy peers of all topics. A peer comes once for each list that has it."""
        for tree in self.trees.values():
            yield from tree.lazy
        for membership in self._managed():
            yield from membership.views.passive

    def _overlay(self, membership: Membership, tree: Tree) -> OverlayState:
        passive: Set[PeerId] = frozenset()
        active_limit, passive_limit = None, None
        if isinstance(membership, ManagedOverlay):
            passive = membership.views.passive.keys()
            active_limit = self._active_limit
            passive_limit = membership.target_sizes.passive_size
        parameters = self.parameters
        bounded = (
            ("announcements", len(tree.queue), parameters.max_ids_per_part),
            ("missing messages", len(tree.missing), parameters.max_missing),
            ("kept messages", len(tree.kept), parameters.max_cached_messages),
        )
        eager, lazy = tree.eager.members, tree.lazy.members
        active = membership.views.active.keys()
        return _overlay_state(active, passive, eager, lazy, active_limit, passive_limit, bounded)

    def _silent(self, peer: PeerId) -> None:
        """Report to all memberships that a peer did not answer a ping in time (DIAL-4)."""
        for membership in self._managed():
            membership.silent(peer)

    def _managed(self) -> Iterable[ManagedOverlay]:
        """Return the memberships that choose their neighbours, topics ascending."""
        memberships = (self.memberships[topic] for topic in sorted(self.memberships))
        return (each for each in memberships if isinstance(each, ManagedOverlay))

    def _on_tree_part(self, sender: ConnectedPeer, part: EpisubIHave | EpisubGraft | EpisubPrune) -> None:
        tree = self.trees.get(part.topic)
        if tree is None or not sender.native:
            reason = Reason.NOT_SUBSCRIBED if tree is None else Reason.UNSUPPORTED
            self.shell.drop(sender.id, part_kind(part), 1, reason)
            return
        match part:
            case EpisubIHave():
                tree.on_ihave(sender.id, part)
            case EpisubGraft():
                tree.on_graft(sender.id, part)
            case EpisubPrune():
                tree.on_prune(sender.id)
