"""Joining the overlay: contacts, GETNODES, and the random walks of JOIN and FORWARDJOIN.

A random walk is the path of a part that each node passes on to a random neighbour; the part's TTL bounds its length.
The joiner is the node that joins. Rules (episub spec, "Joining the Overlay"; with overlay = hyparview, HyParView
4.2):

* JOIN-1: Contacts are peers that discovery finds. The node asks contacts for nodes (GETNODES). A contact that
  answers, and the nodes in the answer, are the first entries of the passive list. If no contact answers, the node
  asks discovery again.
* JOIN-2: A node in the overlay also asks discovery from time to time, and adds the contacts to the passive list. So
  two partitions can merge again after their nodes have removed each other from their lists. The spec has no other
  rule for that.
* JOIN-3: JOIN goes to C_rand random nodes of the passive list. A node that gets a JOIN accepts it if the node has
  room, if the TTL is 0, or if there is no other neighbour to which the node could pass the JOIN on. In addition, it
  must be possible to open a connection to the joiner. Otherwise the node passes the JOIN on with a TTL lower by one.
  In the spec, a node opens the connection before it decides. Here the node does so only if it would accept the JOIN,
  which has the same result with fewer connections.
* JOIN-4: A node that accepts sends the joiner a NEIGHBOR, and a random neighbour a FORWARDJOIN. The nodes on the walk
  of the FORWARDJOIN add the joiner to their passive lists.
* JOIN-5: A JOIN that is not answered in time, perhaps because it could not be sent, is sent to another node with a
  TTL lower by one. At TTL 0 the receiver accepts over the existing connection, for joiners behind a NAT.
* JOIN-6: HyParView: one JOIN goes to one contact, which always accepts and sends FORWARDJOIN to all its neighbours.
  The last node of such a walk makes the joiner a neighbour; the node at TTL PRWL adds the joiner to its passive list.
  Since a contact never refuses a JOIN, it may drop the link to another node for the joiner, and that node then joins
  again. To bound such chains, a node answers at most `CONTACTS` NODES with a JOIN at first, and then at most one per
  round of stabilisation. JOINs in place of unanswered ones (JOIN-5) do not count.
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
from hearsay.core.rules.randomness import Purpose, key_of

CONTACTS = 3
"""The maximum number of contacts that the node asks for nodes after one answer of discovery. With HyParView, also the
maximum number of NODES that are answered with a JOIN before the first round of stabilisation."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A JOIN of this node that is not answered yet: its TTL, and the end of the wait."""

    ttl: int
    due: Micros


class JoinProtocol(TopicPart):
    """The joins of this node, and what this node does in the joins of other nodes."""

    def __init__(self, context: Context, neighbours: Neighbours) -> None:
        super().__init__(context)
        self._neighbours = neighbours
        self._looking_until: Micros = 0
        """The end of the wait for discovery's answer; 0 after an answer."""
        self._asked: dict[PeerId, Micros] = {}
        """The peers that were asked for nodes, each with the end of the wait. A NODES of any other peer is
        ignored."""
        self._attempts: dict[PeerId, _Attempt] = {}
        """The unanswered JOINs of this node, by the first node of their walk."""
        self._joins_left = CONTACTS
        """With HyParView, the number of NODES that may be answered with a JOIN before the next round of
        stabilisation."""

    @property
    def attempts(self) -> int:
        """The number of unanswered JOINs. Each of them may still lead to a random link."""
        return len(self._attempts)

    @property
    def must_join(self) -> bool:
        """True if this node has no link or, with HyParView, fewer than two."""
        return len(self._views.active) < (2 if self._parameters.overlay is Overlay.HYPARVIEW else 1)

    @property
    def is_waiting(self) -> bool:
        """True if the node waits for discovery, for a NODES, or for an answer to a JOIN."""
        return bool(self._attempts or self._asked) or self._shell.now < self._looking_until

    def new_round(self) -> None:
        """Begin a round of stabilisation. With HyParView, at most one NODES is answered with a JOIN before the next
        round."""
        self._joins_left = 1

    def find_contacts(self) -> None:
        """Ask discovery for contacts, unless `is_waiting` is True."""
        if not self.is_waiting:
            self._looking_until = self._context.reply_due()
            self._shell.actions.append(FindContacts(self._topic, 2 * CONTACTS))

    def contacts_found(self, peers: tuple[PeerId, ...]) -> None:
        """Handle discovery's answer: ask some of the contacts for nodes if this node must join, otherwise add all of
        them to the passive list (JOIN-1, JOIN-2)."""
        self._looking_until = 0
        others = sorted(set(peers[: self._parameters.max_peers_per_part]) - {self._shell.node})
        if not self.must_join:
            for peer in others:
                self._views.add_passive(peer)
            return
        for peer in self._views.some(Purpose.CONTACT, others, CONTACTS):
            self.ask_for_nodes(peer)

    def ask_for_nodes(self, peer: PeerId) -> None:
        """Send GETNODES to a peer; dial the peer if necessary. Do nothing while an answer of the peer is awaited."""
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
        """Answer with random passive peers, as in the spec. If there are few, add neighbours."""
        views = self._views
        limit = min(self._parameters.max_peers_per_part, self._target_sizes.passive_size)
        passive = [peer for peer in sorted(views.passive) if peer != sender]
        chosen = views.some(Purpose.NODES, passive, limit, key_of(sender))
        chosen += views.neighbours(sender)[: limit - len(chosen)]
        self._shell.outbox.episub(sender, Nodes(self._topic, tuple(sorted(chosen)), self._parameters.join_ttl))

    def on_nodes(self, sender: PeerId, part: Nodes) -> None:
        """Add the peers and the sender of a requested NODES to the passive list. Send JOINs if links are missing."""
        if sender not in self._asked:
            return
        for peer in sorted(set(part.peers[: self._parameters.max_peers_per_part])):
            self._views.add_passive(peer)
        self._views.add_passive(sender)
        ttl = max(0, min(part.ttl, self._parameters.join_ttl))
        if self._parameters.overlay is Overlay.HYPARVIEW:
            wanted = self.must_join and not self._attempts and sender not in self._views.active
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
        """Handle an ACCEPT that made a neighbour: stop waiting for the answer to the oldest JOIN. If there are C_rand
        random links, stop waiting for the answers to all JOINs."""
        if self._attempts:
            del self._attempts[min(self._attempts, key=lambda peer: (self._attempts[peer].due, key_of(peer)))]
        if self._views.random_links >= self._target_sizes.random_links:
            self._attempts.clear()

    def expire(self) -> None:
        """Send each JOIN that was not answered in time to another node, with a lower TTL (JOIN-5). Stop waiting for
        NODES of peers that did not answer in time."""
        now = self._shell.now
        overdue = sorted(peer for peer, attempt in self._attempts.items() if attempt.due <= now)
        failed = [self._attempts.pop(peer) for peer in overdue]
        for peer, attempt in zip(overdue, failed, strict=True):
            self._join_elsewhere(peer, attempt.ttl)
        for peer in sorted(peer for peer, due in self._asked.items() if due <= now):
            self._release(peer)

    def dues(self) -> Iterator[Micros]:
        """Yield the ends of the present waits: at each of these times, `expire` must be called."""
        yield from self._asked.values()
        yield from (attempt.due for attempt in self._attempts.values())
        if self._looking_until > self._shell.now:
            yield self._looking_until

    def lost(self, peer: PeerId) -> None:
        """Handle a peer that cannot be reached: do not wait for its NODES, and send a JOIN that went to it to another
        node."""
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
                self._accept(part)
            return
        onward = self._views.neighbours(part.peer, sender)
        room = len(self._views.active) < self._target_sizes.active_size and part.peer not in self._views.active
        if room or part.ttl == 0 or not onward:
            met = self._connections.meet(
                part.peer, self._topic, lambda: self._accept(part), lambda: self._pass_on(sender, part)
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
                    lambda: self._neighbours.accept(joiner, random=True),
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
            peer, self._topic, lambda: self._shell.outbox.episub(peer, part), lambda: self._unreachable(peer)
        )

    def _unreachable(self, peer: PeerId) -> None:
        self._views.remove_passive(peer)
        self.lost(peer)

    def _join_elsewhere(self, failed: PeerId, ttl: int) -> None:
        """If links are missing and the TTL is above 0, send the JOIN that `failed` did not answer to another node,
        with a TTL lower by one (JOIN-5)."""
        short = self._views.random_links + len(self._attempts) < self._target_sizes.random_links
        others = [peer for peer in sorted(self._views.passive) if peer != failed and peer not in self._attempts]
        if short and others and ttl > 0:
            self._join_at(self._views.choose(Purpose.JOIN_AT, others, key_of(failed), ttl), ttl - 1)

    def _accept(self, part: EpisubJoin) -> None:
        """Make the joiner a neighbour, and send FORWARDJOIN (JOIN-4, JOIN-6). Do nothing if there is no room."""
        joiner = part.peer
        if not self._neighbours.accept(joiner, random=True):
            return
        others = self._views.neighbours(joiner)
        ttl = self._parameters.join_ttl
        if self._parameters.overlay is not Overlay.HYPARVIEW and others:
            others = [self._views.choose(Purpose.FORWARD_JOIN, others, key_of(joiner), part.sequence)]
        for peer in others:
            self._shell.outbox.episub(peer, ForwardJoin(self._topic, joiner, ttl, part.sequence))

    def _pass_on(self, sender: PeerId, part: EpisubJoin) -> None:
        """Send a JOIN that came from `sender` to a random other neighbour, unless its TTL is 0 (JOIN-3)."""
        onward = self._views.neighbours(part.peer, sender)
        if part.ttl > 0 and onward:
            target = self._views.choose(Purpose.JOIN_WALK, onward, key_of(part.peer), part.sequence)
            self._shell.outbox.episub(target, EpisubJoin(self._topic, part.peer, part.ttl - 1, part.sequence))

    def _release(self, peer: PeerId) -> None:
        if peer in self._asked:
            del self._asked[peer]
            self._connections.release(peer, (self._topic, "nodes"))
