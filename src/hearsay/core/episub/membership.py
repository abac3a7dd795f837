"""The membership of one topic: its neighbours, and the other peers that are known.

`ManagedOverlay` *has* views, neighbours, a join protocol, upkeep, shuffles and probes, and passes each part of an RPC
and each alarm to one of them. It reports new and lost neighbours to a `NeighborListener` and knows nothing else of
the broadcast tree.

In a `FixedOverlay`, the neighbours are simply the connected peers that are in the topic.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Set
from typing import Protocol

from hearsay.core.episub.agenda import Agenda, Task
from hearsay.core.episub.connections import Connections
from hearsay.core.episub.join_protocol import JoinProtocol
from hearsay.core.episub.neighbours import Neighbours
from hearsay.core.episub.parameters import EpisubParameters, LeaveBy, Overlay
from hearsay.core.episub.upkeep import PassiveProbes, Shuffles, Upkeep
from hearsay.core.episub.views import Context, NeighborListener, TargetSizes, Views
from hearsay.core.episub.views import SequenceNumbers as Sequence
from hearsay.core.language.actions import OverlayChange, OverlayChanged
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
from hearsay.core.shell.peers import ConnectedPeer
from hearsay.core.shell.randomness import Purpose, below
from hearsay.core.shell.strategy import Shell

_LEAVES_REMEMBERED = 1024


class Membership(Protocol):
    """The part of a topic's membership protocol that its router calls."""

    def active(self) -> Set[PeerId]: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def peer_subscribed(self, peer: ConnectedPeer) -> None: ...

    def peer_lost(self, peer: PeerId) -> None: ...

    def claimed_as_neighbour(self, peer: PeerId) -> None: ...


class FixedOverlay:
    """The neighbours are all connected peers that are in the topic; connections are not managed."""

    def __init__(self, shell: Shell, topic: TopicId, listener: NeighborListener) -> None:
        self._shell = shell
        self._topic = topic
        self._listener = listener
        self._active: set[PeerId] = set()

    def active(self) -> set[PeerId]:
        return self._active

    def start(self) -> None:
        for peer in self._shell.peers.in_topic(self._topic).native:
            self._up(peer)

    def stop(self) -> None:
        for peer in sorted(self._active):
            self.peer_lost(peer)

    def peer_subscribed(self, peer: ConnectedPeer) -> None:
        self._up(peer.id)

    def peer_lost(self, peer: PeerId) -> None:
        if peer in self._active:
            self._active.remove(peer)
            self._shell.actions.append(OverlayChanged(OverlayChange.NEIGHBOR_DOWN, self._topic, peer))
            self._listener.neighbor_down(self._topic, peer, in_good_order=False)

    def claimed_as_neighbour(self, peer: PeerId) -> None:
        """Do nothing: the two peers share one connection, so they soon agree on whether they are neighbours."""

    def _up(self, peer: PeerId) -> None:
        if peer not in self._active:
            self._active.add(peer)
            self._shell.actions.append(OverlayChanged(OverlayChange.NEIGHBOR_UP, self._topic, peer))
            self._listener.neighbor_up(self._topic, peer)


class ManagedOverlay:
    """HyParView's active and passive list, with the changes of the episub spec or as published."""

    def __init__(
        self,
        shell: Shell,
        parameters: EpisubParameters,
        topic: TopicId,
        connections: Connections,
        agenda: Agenda,
        sequence: Sequence,
        listener: NeighborListener,
    ) -> None:
        target_sizes = TargetSizes(parameters, shell.key)
        views = Views(shell, topic, target_sizes.passive_size, listener)
        self._shell = shell
        self._parameters = parameters
        self._agenda = agenda
        self._context = Context(shell, parameters, topic, views, target_sizes, connections, agenda, sequence)
        self.topic = topic
        self.views = views
        self.target_sizes = target_sizes
        self.upkeep = Upkeep(self._context)
        self.neighbours = Neighbours(self._context, self.upkeep.refused)
        self.join_protocol = JoinProtocol(self._context, self.neighbours)
        self.upkeep.attach(self.neighbours, self.join_protocol)
        self.shuffles = Shuffles(self._context)
        self.passive_probes = PassiveProbes(self._context)
        self._leaves: OrderedDict[tuple[PeerId, int], None] = OrderedDict()
        self._unsaid: set[PeerId] = set()
        """Peers to which a DISCONNECT could not be sent."""

    def active(self) -> Set[PeerId]:
        return self.views.active.keys()

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
        """Leave the overlay."""
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
        parameters = self._parameters
        match task:
            case Task.EXPIRE:
                self._expire()
            case Task.STABILISE:
                self._next(task, parameters.stabilise_min_ms, parameters.stabilise_max_ms)
                self._say_again()
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
        """Handle a control part of this topic; IHAVE, GRAFT and PRUNE go to the tree instead."""
        match part:
            case GetNodes():
                self.join_protocol.on_get_nodes(sender)
            case Nodes():
                self.join_protocol.on_nodes(sender, part)
                self._measure_the_nearest()
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
        self.views.measured(peer, rtt_us)
        self.neighbours.measured(peer, rtt_us)

    def peer_subscribed(self, peer: ConnectedPeer) -> None:
        """Do nothing: peers become neighbours by agreement, not by a subscription."""

    def peer_lost(self, peer: PeerId) -> None:
        """Handle a peer whose connection broke, or that left the topic."""
        self._unsaid.discard(peer)
        self.join_protocol.lost(peer)
        if self.neighbours.lost(peer):
            self.upkeep.grow()

    def silent(self, peer: PeerId) -> None:
        """Handle a peer that left a ping unanswered: it has failed, though it is connected."""
        self.views.remove_passive(peer)
        if peer in self.views.active:
            self._shell.outbox.episub(peer, Disconnect(self.topic, refused=False))
        self.peer_lost(peer)

    def claimed_as_neighbour(self, peer: PeerId) -> None:
        self.neighbours.claimed_as_neighbour(peer)

    def send_failed(self, peer: PeerId, rpc: Rpc) -> None:
        """Drop a link whose ACCEPT could not be sent; repeat a DISCONNECT in the next round of stabilisation."""
        if rpc.control is None:
            return
        for part in rpc.control.episub:
            if isinstance(part, Neighbor) and part.topic == self.topic and part.role is Role.ACCEPT:
                if peer in self.views.active:
                    self.neighbours.drop(peer, remember=True)
                    self._unsaid.add(peer)
            elif isinstance(part, Disconnect | EpisubLeave) and part.topic == self.topic:
                self._unsaid.add(peer)

    def _say_again(self) -> None:
        for peer in sorted(self._unsaid):
            if peer in self._shell.connected and peer not in self.views.active:
                self._shell.outbox.episub(peer, Disconnect(self.topic, refused=False))
        self._unsaid.clear()

    def _on_leave(self, sender: PeerId, part: EpisubLeave) -> None:
        """Handle a LEAVE. Drop the leaver from the passive list, and end the link if the leaver itself sent it."""
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
        """Replace a neighbour that ended its link: now if random links are scarce, otherwise in the next round."""
        scarce = self.views.random_links < self.target_sizes.random_links
        if scarce or self._parameters.overlay is Overlay.HYPARVIEW:
            self.upkeep.grow()

    def _measure_the_nearest(self) -> None:
        """Measure some passive peers after an answer to GETNODES: the spec fills the active list with the nearest."""
        if len(self.views.active) < self.target_sizes.active_size and self._parameters.overlay is Overlay.EPISUB:
            self.passive_probes.round(2 * self.target_sizes.near_links)

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
        """Set an alarm after a random time between two bounds."""
        draw = self._shell.draw(Purpose.PERIOD, self.topic, task, self._shell.now)
        span_us = max(1, (high_ms - low_ms) * 1000)
        self._agenda.set(task, self.topic, self._shell.now + max(1, low_ms * 1000 + below(draw, span_us)))
