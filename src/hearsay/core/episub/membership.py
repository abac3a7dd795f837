"""The membership of a node in one topic: the node's neighbours, and other known peers of the topic.

A `ManagedOverlay` chooses its neighbours. It has views, neighbours, a join protocol, upkeep, shuffles and probes, and
passes each received part and each alarm to one of these. The views report new and lost neighbours to the broadcast
tree, which is their `NeighborListener`.

In a `FixedOverlay`, the neighbours are all connected peers that speak episub and are in the topic.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict

from hearsay.core.episub.connections import Agenda, Connections, Task
from hearsay.core.episub.join_protocol import JoinProtocol
from hearsay.core.episub.neighbours import Neighbours
from hearsay.core.episub.parameters import EpisubParameters, LeaveBy, Overlay
from hearsay.core.episub.upkeep import PassiveProbes, Shuffles, Upkeep
from hearsay.core.episub.views import Context, NeighborListener, SequenceNumbers, TargetSizes, Views
from hearsay.core.language.episub_parts import (
    Disconnect,
    EpisubJoin,
    EpisubLeave,
    EpisubPart,
    ForwardJoin,
    GetNodes,
    Neighbor,
    Nodes,
    Role,
    Shuffle,
    ShuffleReply,
)
from hearsay.core.language.identifiers import Micros, PeerId, TopicId
from hearsay.core.language.rpc import Rpc
from hearsay.core.rules.randomness import Purpose, below
from hearsay.core.shell.strategy import Shell

_LEAVES_REMEMBERED = 1024


class Membership(ABC):
    """The membership of a node in one topic, as its router calls it."""

    views: Views

    @abstractmethod
    def start(self) -> None:
        """Begin to find neighbours."""

    @abstractmethod
    def stop(self) -> None:
        """Leave the overlay, and remove all neighbours."""

    def peer_subscribed(self, peer: PeerId) -> None:
        """Handle a SUBSCRIBE of a connected peer that speaks episub. By default do nothing, since two nodes agree on
        becoming neighbours (NEIGHBOR-3)."""

    @abstractmethod
    def peer_lost(self, peer: PeerId) -> None:
        """Handle a peer that disconnected or left the topic."""

    def claimed_as_neighbour(self, peer: PeerId) -> None:
        """Answer a peer that treats this node as its neighbour but is no neighbour of this node (NEIGHBOR-4).

        By default do nothing: in a fixed overlay, the next SUBSCRIBE or UNSUBSCRIBE corrects the error.
        """


class FixedOverlay(Membership):
    """A membership without choices: all connected peers that speak episub and are in the topic are neighbours."""

    def __init__(self, shell: Shell, topic: TopicId, target_sizes: TargetSizes, listener: NeighborListener) -> None:
        self._shell = shell
        self.views = Views(shell, topic, target_sizes, listener)

    def start(self) -> None:
        for peer in self._shell.peers.in_topic(self.views.topic).native:
            self.peer_subscribed(peer)

    def stop(self) -> None:
        for peer in self.views.neighbours():
            self.peer_lost(peer)

    def peer_subscribed(self, peer: PeerId) -> None:
        if peer not in self.views.active:
            self.views.add_active(peer, random=False)

    def peer_lost(self, peer: PeerId) -> None:
        if peer in self.views.active:
            self.views.remove_active(peer, remember=False)


class ManagedOverlay(Membership):
    """A membership with HyParView's active and passive list, as published or with the changes of the episub spec."""

    def __init__(
        self,
        shell: Shell,
        parameters: EpisubParameters,
        topic: TopicId,
        connections: Connections,
        agenda: Agenda,
        sequence: SequenceNumbers,
        listener: NeighborListener,
    ) -> None:
        self._shell = shell
        self._parameters = parameters
        self._agenda = agenda
        self.topic = topic
        self.target_sizes = TargetSizes(parameters, shell.key)
        self.views = Views(shell, topic, self.target_sizes, listener)
        self._context = Context(
            shell, parameters, topic, self.views, self.target_sizes, connections, agenda, sequence
        )
        self.upkeep = Upkeep(self._context)
        self.neighbours = Neighbours(self._context, self.upkeep.refused)
        self.join_protocol = JoinProtocol(self._context, self.neighbours)
        self.upkeep.attach(self.neighbours, self.join_protocol)
        self.shuffles = Shuffles(self._context)
        self.passive_probes = PassiveProbes(self._context)
        self._leaves: OrderedDict[tuple[PeerId, int], None] = OrderedDict()
        """The source and the sequence number of each LEAVE that was handled, the oldest first."""
        self._unsent: set[PeerId] = set()
        """Peers that will get a DISCONNECT in the next round of stabilisation, because an ACCEPT, DISCONNECT or LEAVE
        to them could not be sent."""

    def start(self) -> None:
        self.join_protocol.find_contacts()
        parameters = self._parameters
        self._next(Task.STABILISE, parameters.stabilise_min_ms, parameters.stabilise_max_ms)
        self._next(Task.SHUFFLE, 0, parameters.shuffle_interval_ms)
        if parameters.overlay is Overlay.EPISUB and parameters.probe_count > 0:
            self._next(Task.PROBE, 0, parameters.probe_interval_ms)
        if parameters.contacts_interval_ms:
            self._next(Task.CONTACTS, parameters.contacts_interval_ms // 2, parameters.contacts_interval_ms)

    def stop(self) -> None:
        goodbye: EpisubPart = Disconnect(self.topic, refused=False)
        if self._parameters.leave_by is LeaveBy.LEAVE:
            sequence = self._context.next_sequence()
            goodbye = EpisubLeave(self.topic, self._shell.node, self._parameters.leave_ttl, sequence)
        for peer in self.views.neighbours():
            self.neighbours.drop(peer, remember=False)
            self._shell.outbox.episub(peer, goodbye)
        for peer in sorted(self.views.passive):
            self.views.remove_passive(peer)
        self.neighbours.stop()
        self.join_protocol.stop()
        self._context.connections.forget_topic(self.topic)
        self._agenda.clear_topic(self.topic)

    def ring(self, task: Task) -> None:
        """Handle an alarm of this topic."""
        parameters = self._parameters
        match task:
            case Task.EXPIRE:
                self._expire()
            case Task.STABILISE:
                self._next(task, parameters.stabilise_min_ms, parameters.stabilise_max_ms)
                self._repeat_unsent()
                self.upkeep.round()
            case Task.SHUFFLE:
                interval_ms = parameters.shuffle_interval_ms
                self._next(task, interval_ms * 3 // 4, interval_ms * 5 // 4)
                self.shuffles.round()
            case Task.PROBE:
                interval_ms = parameters.probe_interval_ms
                self._next(task, interval_ms * 3 // 4, interval_ms * 5 // 4)
                self.passive_probes.round(parameters.probe_count)
            case Task.CONTACTS:
                interval_ms = parameters.contacts_interval_ms
                self._next(task, interval_ms * 3 // 4, interval_ms * 5 // 4)
                self.join_protocol.find_contacts()
            case _:
                raise AssertionError(f"{task} is not an alarm of the membership")

    def handle(self, sender: PeerId, part: EpisubPart) -> None:
        """Handle a control part about the membership of this topic: any part except GETTOPICS, TOPICS, IHAVE, GRAFT
        and PRUNE."""
        match part:
            case GetNodes():
                self.join_protocol.on_get_nodes(sender)
            case Nodes():
                self.join_protocol.on_nodes(sender, part)
                sizes = self.target_sizes
                if len(self.views.active) < sizes.active_size and self._parameters.overlay is Overlay.EPISUB:
                    self.passive_probes.round(2 * sizes.near_links)  # the spec fills the list with the nearest peers
            case EpisubJoin():
                self.join_protocol.on_join(sender, part)
            case ForwardJoin():
                self.join_protocol.on_forward_join(sender, part)
            case Neighbor():
                before = len(self.views.active)
                self.neighbours.on_neighbor(sender, part)
                if part.role is Role.REPLY:
                    self.upkeep.on_reply(sender, part)
                elif part.role is Role.ACCEPT and len(self.views.active) > before:
                    self.join_protocol.accepted()
            case Disconnect():
                was_neighbour = sender in self.views.active
                self.neighbours.on_disconnect(sender, part)
                if was_neighbour and not part.refused:
                    self._after_a_loss()
            case EpisubLeave():
                self._on_leave(sender, part)
            case Shuffle():
                self.shuffles.on_shuffle(sender, part)
            case ShuffleReply():
                self.shuffles.on_shuffle_reply(part)
            case _:
                raise AssertionError(f"{type(part).__name__} is not a part for the membership")

    def measured(self, peer: PeerId, rtt_us: Micros) -> None:
        """Handle a measured RTT of a peer."""
        self.views.measured(peer, rtt_us)
        self.neighbours.measured(peer, rtt_us)

    def peer_lost(self, peer: PeerId) -> None:
        self._unsent.discard(peer)
        self.join_protocol.lost(peer)
        if self.neighbours.lost(peer):
            self.upkeep.grow()

    def silent(self, peer: PeerId) -> None:
        """Remove a peer that did not answer a ping in time from both lists: the peer has failed, even if it is still
        connected."""
        self.views.remove_passive(peer)
        if peer in self.views.active:
            self._shell.outbox.episub(peer, Disconnect(self.topic, refused=False))
        self.peer_lost(peer)

    def claimed_as_neighbour(self, peer: PeerId) -> None:
        self.neighbours.claimed_as_neighbour(peer)

    def send_failed(self, peer: PeerId, rpc: Rpc) -> None:
        """Handle an RPC that could not be sent to a peer. If it has an ACCEPT for a neighbour, end the link. If it
        has such an ACCEPT, a DISCONNECT or a LEAVE, the peer gets a DISCONNECT in the next round of stabilisation."""
        if rpc.control is None:
            return
        for part in rpc.control.episub:
            if isinstance(part, Neighbor) and part.topic == self.topic and part.role is Role.ACCEPT:
                if peer in self.views.active:
                    self.neighbours.drop(peer, remember=True)
                    self._unsent.add(peer)
            elif isinstance(part, Disconnect | EpisubLeave) and part.topic == self.topic:
                self._unsent.add(peer)

    def _repeat_unsent(self) -> None:
        for peer in sorted(self._unsent):
            if peer in self._shell.connected and peer not in self.views.active:
                self._shell.outbox.episub(peer, Disconnect(self.topic, refused=False))
        self._unsent.clear()

    def _on_leave(self, sender: PeerId, part: EpisubLeave) -> None:
        """Handle a LEAVE. Remove its source, the node that leaves, from the passive list. If the source itself sent
        this LEAVE, end the link to the source. Pass the LEAVE on if it removed an entry, came from the source, or has
        a TTL above 0."""
        known = (part.source, part.sequence)
        if part.source == self._shell.node or known in self._leaves:
            return
        self._leaves[known] = None
        if len(self._leaves) > _LEAVES_REMEMBERED:
            self._leaves.popitem(last=False)
        removed = self.views.remove_passive(part.source)
        if sender == part.source:
            removed = True  # an UNSUBSCRIBE in the same RPC may have removed the leaver already
            if sender in self.views.active:
                self.neighbours.drop(sender, remember=False)
                self._after_a_loss()
        ttl = max(0, min(part.ttl, self._parameters.leave_ttl))
        if removed or ttl > 0:
            onward = EpisubLeave(self.topic, part.source, max(0, ttl - 1), part.sequence)
            for peer in self.views.neighbours(part.source, sender):
                self._shell.outbox.episub(peer, onward)

    def _after_a_loss(self) -> None:
        """Handle that a neighbour ended its link. With HyParView, or if there are fewer than C_rand random links, ask
        for new links at once. Otherwise the next round of stabilisation replaces the link."""
        scarce = self.views.random_links < self.target_sizes.random_links
        if scarce or self._parameters.overlay is Overlay.HYPARVIEW:
            self.upkeep.grow()

    def _expire(self) -> None:
        self.neighbours.expire()
        self.join_protocol.expire()
        self.shuffles.expire()
        if not self.views.active:
            self.upkeep.grow()
        dues = [*self.neighbours.dues(), *self.join_protocol.dues(), *self.shuffles.dues()]
        if dues:
            self._agenda.set_earliest(Task.EXPIRE, self.topic, max(min(dues), self._shell.now + 1))

    def _next(self, task: Task, low_ms: int, high_ms: int) -> None:
        """Set the alarm of a task to a random time, from `low_ms` to `high_ms` milliseconds from now."""
        draw = self._shell.draw(Purpose.PERIOD, self.topic, task, self._shell.now)
        span_us = max(1, (high_ms - low_ms) * 1000)
        self._agenda.set(task, self.topic, self._shell.now + max(1, low_ms * 1000 + below(draw, span_us)))
