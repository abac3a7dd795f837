"""Joining the overlay: contacts, GETNODES, JOIN walks and FORWARDJOIN.

Rules (episub spec, "Joining the Overlay"; with overlay = hyparview, HyParView 4.2):

* JOIN-1: Contacts come from discovery. A contact is asked for nodes (GETNODES). The contact and the nodes of its
  answer are the first entries of the passive list. If no contact answers, discovery is asked again.
* JOIN-2: A node in the overlay also asks discovery from time to time, and adds the answer to the passive list. So two
  partitions that have expired each other's entries can merge again. The spec names no other way.
* JOIN-3: JOIN goes to C_rand random nodes of the passive list. A node that gets a JOIN accepts it if the node has
  room or the TTL is 0, and a connection to the joiner can be opened; otherwise it forwards the JOIN with a smaller
  TTL. In the spec, a node opens the connection before it decides. Here it does so only if it would accept the JOIN,
  which has the same result with fewer connections.
* JOIN-4: A node that accepts sends the joiner a NEIGHBOR, and a random neighbour a FORWARDJOIN. The nodes on the walk
  of the FORWARDJOIN add the joiner to their passive lists.
* JOIN-5: A JOIN that is not answered, or not sent because too many dials are under way, is sent to another node with
  a TTL lower by one. At TTL 0 the receiver accepts over the existing connection, for joiners behind a NAT.
* JOIN-6: HyParView: one JOIN goes to one contact, which always accepts and sends FORWARDJOIN to all its neighbours.
  The last node of this walk makes the joiner a neighbour; the node at TTL PRWL adds it to the passive list. Such a
  JOIN is never refused, so the contact may drop another node's link for it, and that node joins again in turn. To
  bound such chains, a node sends JOIN to its first contacts, and after that once per round of stabilisation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hearsay.core.episub.neighbours import Neighbours
from hearsay.core.episub.parameters import Overlay
from hearsay.core.episub.views import Context, TopicPart
from hearsay.core.language.actions import FindContacts
from hearsay.core.language.episub_parts import EpisubJoin, ForwardJoin, GetNodes, Nodes
from hearsay.core.language.identifiers import Micros, PeerId
from hearsay.core.shell.randomness import Purpose, key_of

CONTACTS = 3
"""Maximum number of contacts that are asked for nodes after one answer of discovery."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    ttl: int
    due: Micros


class JoinProtocol(TopicPart):
    def __init__(self, context: Context, neighbours: Neighbours) -> None:
        super().__init__(context)
        self._neighbours = neighbours
        self._looking_until: Micros = 0
        """The end of the wait for discovery's answer."""
        self._asked: dict[PeerId, Micros] = {}
        """Peers that were asked for nodes, with the end of the wait. Answers of other peers are ignored."""
        self._attempts: dict[PeerId, _Attempt] = {}
        self._joins_left = CONTACTS
        """HyParView's JOINs that may be sent before the next round."""

    @property
    def attempts(self) -> int:
        """The number of JOINs without an answer; each may still lead to a random link."""
        return len(self._attempts)

    @property
    def alone(self) -> bool:
        """Return whether this node must join: it has no link, or in HyParView fewer than two."""
        return len(self._views.active) < (2 if self._parameters.overlay is Overlay.HYPARVIEW else 1)

    @property
    def under_way(self) -> bool:
        return bool(self._attempts or self._asked) or self._shell.now < self._looking_until

    def new_round(self) -> None:
        """Begin a round of stabilisation: one more JOIN of HyParView may be sent."""
        self._joins_left = 1

    def find_contacts(self) -> None:
        """Ask discovery for contacts, unless its answer is awaited or a join is under way."""
        if not self.under_way:
            self._looking_until = self._context.reply_due()
            self._shell.actions.append(FindContacts(self._topic, 2 * CONTACTS))

    def contacts_found(self, peers: tuple[PeerId, ...]) -> None:
        self._looking_until = 0
        others = sorted(set(peers[: self._parameters.max_peers_per_part]) - {self._shell.node})
        if not self.alone:
            for peer in others:
                self._views.add_passive(peer)
            return
        for peer in self._views.some(Purpose.CONTACT, others, CONTACTS):
            self.ask_for_nodes(peer)

    def ask_for_nodes(self, peer: PeerId) -> None:
        if peer in self._asked:
            return
        self._asked[peer] = self._context.reply_due()
        self._connections.hold(peer, (self._topic, "nodes"))
        met = self._connections.meet(
            peer,
            self._topic,
            lambda: self._shell.outbox.episub(peer, GetNodes(self._topic)),
            lambda: self.lost(peer),
        )
        if not met:
            self._release(peer)

    def on_get_nodes(self, sender: PeerId) -> None:
        """Answer with passive nodes, as in the spec, and with neighbours if these are few."""
        views = self._views
        limit = min(self._parameters.max_peers_per_part, self._target_sizes.passive_size)
        passive = [peer for peer in sorted(views.passive) if peer != sender]
        shown = views.some(Purpose.NODES, passive, limit, key_of(sender))
        shown += views.neighbours(sender)[: limit - len(shown)]
        self._shell.outbox.episub(sender, Nodes(self._topic, tuple(sorted(shown)), self._parameters.join_ttl))

    def on_nodes(self, sender: PeerId, part: Nodes) -> None:
        if sender not in self._asked:
            return
        for peer in sorted(set(part.peers[: self._parameters.max_peers_per_part])):
            self._views.add_passive(peer)
        self._views.add_passive(sender)
        ttl = max(0, min(part.ttl, self._parameters.join_ttl))
        if self._parameters.overlay is Overlay.HYPARVIEW:
            wanted = self.alone and not self._attempts and sender not in self._views.active
            if wanted and self._joins_left:
                self._joins_left -= 1
                self._join_at(sender, ttl)
        else:
            wanted = self._target_sizes.random_links - len(self._views.active) - len(self._attempts)
            others = [peer for peer in sorted(self._views.passive) if peer not in self._attempts]
            for peer in self._views.some(Purpose.JOIN_AT, others, wanted):
                self._join_at(peer, ttl)
        self._release(sender)

    def accepted(self) -> None:
        """Stop waiting for one JOIN, since a neighbour was added; for all JOINs if there are enough random links."""
        if self._attempts:
            del self._attempts[min(self._attempts, key=lambda peer: (self._attempts[peer].due, key_of(peer)))]
        if self._views.random_links >= self._target_sizes.random_links:
            self._attempts.clear()

    def expire(self) -> None:
        """Send JOINs without an answer to other nodes, with a lower TTL; give up contacts that did not answer."""
        now = self._shell.now
        overdue = sorted(peer for peer, attempt in self._attempts.items() if attempt.due <= now)
        failed = [self._attempts.pop(peer) for peer in overdue]
        for peer, attempt in zip(overdue, failed, strict=True):
            self._join_elsewhere(peer, attempt.ttl)
        for peer in sorted(peer for peer, due in self._asked.items() if due <= now):
            self._release(peer)

    def dues(self) -> Iterator[Micros]:
        """Yield the times at which `expire` must be called."""
        yield from self._asked.values()
        yield from (attempt.due for attempt in self._attempts.values())
        if self._looking_until > self._shell.now:
            yield self._looking_until

    def lost(self, peer: PeerId) -> None:
        """Handle a contact, or the first node of a JOIN's walk, that cannot be reached."""
        self._release(peer)
        attempt = self._attempts.pop(peer, None)
        if attempt is not None:
            self._join_elsewhere(peer, attempt.ttl)

    def on_join(self, sender: PeerId, part: EpisubJoin) -> None:
        part = EpisubJoin(self._topic, part.peer, max(0, min(part.ttl, self._parameters.join_ttl)), part.sequence)
        if part.peer == self._shell.node:
            return
        if self._parameters.overlay is Overlay.HYPARVIEW:
            if part.peer == sender:
                self._take_in(part)
            return
        onward = self._views.neighbours(part.peer, sender)
        room = len(self._views.active) < self._target_sizes.active_size and part.peer not in self._views.active
        if room or part.ttl == 0 or not onward:
            met = self._connections.meet(
                part.peer, self._topic, lambda: self._take_in(part), lambda: self._pass_on(sender, part)
            )
            if met:
                return
        self._pass_on(sender, part)

    def on_forward_join(self, sender: PeerId, part: ForwardJoin) -> None:
        ttl = max(0, min(part.ttl, self._parameters.join_ttl))
        joiner = part.peer
        if joiner == self._shell.node:
            return
        onward = self._views.neighbours(joiner, sender)
        if self._parameters.overlay is Overlay.HYPARVIEW:
            if (ttl == 0 or not onward) and joiner not in self._views.active:
                met = self._connections.meet(
                    joiner,
                    self._topic,
                    lambda: self._neighbours.take_in(joiner, random=True),
                    lambda: self._views.add_passive(joiner),
                )
                if not met:
                    self._views.add_passive(joiner)
                return
            if ttl == self._parameters.passive_ttl:
                self._views.add_passive(joiner)
        else:
            self._views.add_passive(joiner)
        if ttl > 0 and onward:
            target = self._views.choose(Purpose.FORWARD_JOIN, onward, key_of(joiner), part.sequence)
            self._shell.outbox.episub(target, ForwardJoin(self._topic, joiner, ttl - 1, part.sequence))

    def stop(self) -> None:
        for peer in sorted(self._asked):
            self._release(peer)
        self._attempts.clear()

    def _join_at(self, peer: PeerId, ttl: int) -> None:
        self._attempts[peer] = _Attempt(ttl, self._context.reply_due())
        part = EpisubJoin(self._topic, self._shell.node, ttl, self._context.next_sequence())
        self._connections.meet(
            peer, self._topic, lambda: self._shell.outbox.episub(peer, part), lambda: self._start_is_gone(peer)
        )

    def _start_is_gone(self, peer: PeerId) -> None:
        self._views.remove_passive(peer)
        self.lost(peer)

    def _join_elsewhere(self, failed: PeerId, ttl: int) -> None:
        short = self._views.random_links + len(self._attempts) < self._target_sizes.random_links
        others = [peer for peer in sorted(self._views.passive) if peer != failed and peer not in self._attempts]
        if short and others and ttl > 0:
            self._join_at(self._views.choose(Purpose.JOIN_AT, others, key_of(failed), ttl), ttl - 1)

    def _take_in(self, part: EpisubJoin) -> None:
        joiner = part.peer
        if not self._neighbours.take_in(joiner, random=True):
            return
        others = self._views.neighbours(joiner)
        ttl = self._parameters.join_ttl
        if self._parameters.overlay is not Overlay.HYPARVIEW and others:
            others = [self._views.choose(Purpose.FORWARD_JOIN, others, key_of(joiner), part.sequence)]
        for peer in others:
            self._shell.outbox.episub(peer, ForwardJoin(self._topic, joiner, ttl, part.sequence))

    def _pass_on(self, sender: PeerId, part: EpisubJoin) -> None:
        onward = self._views.neighbours(part.peer, sender)
        if part.ttl > 0 and onward:
            target = self._views.choose(Purpose.JOIN_WALK, onward, key_of(part.peer), part.sequence)
            self._shell.outbox.episub(target, EpisubJoin(self._topic, part.peer, part.ttl - 1, part.sequence))

    def _release(self, peer: PeerId) -> None:
        if peer in self._asked:
            del self._asked[peer]
            self._connections.release(peer, (self._topic, "nodes"))
