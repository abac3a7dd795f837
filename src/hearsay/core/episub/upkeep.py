"""Upkeep of the views: links are added, dropped and replaced by nearer ones; passive entries are shuffled and probed.

"Closer by alpha" is defined in `neighbours.py`; random and near links, C_rand and A in `views.py`. The time between
two rounds of stabilisation is random, from `stabilise_min_ms` to `stabilise_max_ms`. Rules (episub spec, "Active
View Management", "Passive View Management"; HyParView 4.3, 4.4):

* UPKEEP-1: A node with fewer than A links asks passive nodes for links: random nodes until there are C_rand random
  links, then the nearest nodes. After a refusal or failure the node asks another one. In one round the node asks no
  peer twice, and asks at most twice as many peers for near links as links are missing. HyParView asks only random
  nodes.
* UPKEEP-2: If no peer is left to ask, a node without links, or with an empty passive list, asks discovery again.
  Without this rule, the first few nodes, whose lists have only each other, would stay separate from the overlay. With
  HyParView a node with a single link also asks discovery: if all lists are full, every node refuses a request of a
  node that has a link, so two nodes that are linked only with each other can enter the overlay only by a JOIN. Any
  other node with a passive list shorter than A asks a neighbour for nodes.
* UPKEEP-3: A node with more than A links (not in HyParView) asks the neighbours for their active lists. When all have
  answered, or at the next round, the node first drops random links to neighbours that have more than C_rand random
  links, the farthest first. If there still are too many links, the node drops links to neighbours that are linked
  with another of its neighbours, except random links if there are at most C_rand. A peer that did not answer by the
  next round is pinged; a peer that does not answer the ping has failed (the spec: the timers "also serve as failure
  detectors").
* UPKEEP-4: A node with A links or more (not in HyParView), fewer than C_rand of them random, asks a random passive
  node for a random link. If that node accepts, the farthest near link is dropped.
* UPKEEP-5: Each round pings some neighbours, unless C_near is 0. A node with A links or more (not in HyParView), at
  least C_rand of them random, relabels its links by RTT. If the closest measured passive node is closer by alpha than
  the farthest measured near neighbour, the node asks that passive node for a near link. If the passive node accepts,
  the farthest near link is dropped.
* SHUFFLE-1: From time to time a node, the origin, sends its own id, k_a neighbours and k_p passive nodes to a random
  neighbour. The walk goes on while the TTL is above 0 and the receiver has another neighbour. The last receiver opens
  a connection to the origin, answers with at most as many random passive nodes as it received, and adds the received
  nodes to its passive list. If the last receiver cannot connect, it ignores the shuffle.
* SHUFFLE-2: In a full passive list, new entries replace the entries that were sent (VIEW-1).
* SHUFFLE-3: If there is no answer in time, the origin shuffles again with half the TTL. At TTL 0 the neighbour itself
  answers over the existing link; so a node behind a NAT can shuffle.
* PROBE-1: A node probes some random passive nodes: it connects to each of them, asks for its topics and pings it. A
  passive node that cannot be reached, does not answer the ping, or is not in the topic, is removed. A passive node
  that cannot be probed because too many dials are under way stays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hearsay.core.episub.join_protocol import JoinProtocol
from hearsay.core.episub.neighbours import Neighbours
from hearsay.core.episub.parameters import Overlay
from hearsay.core.episub.views import UNMEASURED_US, Context, TopicPart
from hearsay.core.language.episub_parts import GetTopics, Neighbor, Role, Shuffle, ShuffleReply, Topics
from hearsay.core.language.identifiers import Micros, PeerId
from hearsay.core.rules.randomness import Purpose, key_of


@dataclass(frozen=True, slots=True)
class _Open:
    """A SHUFFLE of this node that is not answered yet. `sent` are the passive nodes in it, `due` is the end of the
    wait."""

    sequence: int
    sent: tuple[PeerId, ...]
    ttl: int
    due: Micros


class Shuffles(TopicPart):
    """The SHUFFLEs of this node, and the answers to those of other nodes."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._open: _Open | None = None

    def round(self) -> None:
        """Send a SHUFFLE with the full TTL."""
        self._start(self._parameters.shuffle_ttl)

    def expire(self) -> None:
        """If the last SHUFFLE was not answered in time and its TTL is above 0, send another one with half the TTL
        (SHUFFLE-3)."""
        if self._open is not None and self._open.due <= self._shell.now:
            ttl = self._open.ttl
            self._open = None
            if ttl > 0:
                self._start(ttl // 2)

    def dues(self) -> Iterator[Micros]:
        """Yield the end of the present wait, if there is one: at this time `expire` must be called."""
        if self._open is not None:
            yield self._open.due

    def on_shuffle(self, sender: PeerId, part: Shuffle) -> None:
        ttl = max(0, min(part.ttl, self._parameters.shuffle_ttl))
        if part.peer == self._shell.node:
            return
        onward = self._views.neighbours(part.peer, sender)
        if ttl > 0 and onward:
            target = self._views.choose(Purpose.SHUFFLE_WALK, onward, key_of(part.peer), part.sequence)
            peers = self._within_limit(part.peers)
            passed_on = Shuffle(self._topic, part.peer, peers, ttl - 1, part.sequence, part.sketch)
            self._shell.outbox.episub(target, passed_on)
        else:
            self._connections.meet(part.peer, self._topic, lambda: self._exchange(part), lambda: None)

    def on_shuffle_reply(self, part: ShuffleReply) -> None:
        mine = self._open
        if mine is None or part.sequence != mine.sequence:
            return
        self._open = None
        self._merge(part.peers, mine.sent, part.sketch)

    def _start(self, ttl: int) -> None:
        views = self._views
        neighbours = views.neighbours()
        if not neighbours:
            return
        sequence = self._context.next_sequence()
        target = views.choose(Purpose.SHUFFLE, neighbours, ttl)
        active = views.some(Purpose.SHUFFLE_ACTIVE, views.neighbours(target), self._parameters.shuffle_active, ttl)
        passive = views.some(Purpose.SHUFFLE_PASSIVE, sorted(views.passive), self._parameters.shuffle_passive, ttl)
        sent = tuple(sorted((*active, *passive)))
        self._open = _Open(sequence, tuple(passive), ttl, self._context.reply_due())
        part = Shuffle(self._topic, self._shell.node, sent, ttl, sequence, self._target_sizes.aged_sketch())
        self._views.trim_passive()
        self._shell.outbox.episub(target, part)

    def _exchange(self, part: Shuffle) -> None:
        """Answer a SHUFFLE whose walk ends here, and use its content (SHUFFLE-1)."""
        views = self._views
        peers = self._within_limit(part.peers)
        candidates = [peer for peer in sorted(views.passive) if peer != part.peer]
        answer = views.some(Purpose.SHUFFLE_REPLY, candidates, len(peers) + 1, key_of(part.peer), part.sequence)
        reply = ShuffleReply(self._topic, tuple(answer), part.sequence, self._target_sizes.sketch())
        self._shell.outbox.episub(part.peer, reply)
        self._merge((*peers, part.peer), tuple(answer), part.sketch)

    def _merge(self, peers: tuple[PeerId, ...], sent: tuple[PeerId, ...], sketch: tuple[int, ...]) -> None:
        """Add the peers in a SHUFFLE or SHUFFLEREPLY of another node to the passive list, and merge its sketch.
        `sent` are the peers that this node sent in the same shuffle (SHUFFLE-2)."""
        handed_out = list(sent)
        for peer in sorted(set(self._within_limit(peers))):
            self._views.add_passive(peer, handed_out)
        self._target_sizes.merge(sketch)
        self._views.trim_passive()

    def _within_limit(self, peers: tuple[PeerId, ...]) -> tuple[PeerId, ...]:
        return peers[: self._parameters.max_peers_per_part]


class PassiveProbes(TopicPart):
    """Probes of the passive list (PROBE-1)."""

    def round(self, count: int) -> None:
        """Probe `count` random passive peers, or all if there are fewer."""
        views = self._views
        for peer in views.some(Purpose.PROBE, sorted(views.passive), count):
            self._connections.meet(
                peer, views.topic, lambda peer=peer: self._examine(peer), lambda peer=peer: views.remove_passive(peer)
            )

    def on_topics(self, sender: PeerId, part: Topics) -> None:
        """Remove the sender from the passive list if it is not in the topic."""
        if self._views.topic not in part.topics:
            self._views.remove_passive(sender)

    def _examine(self, peer: PeerId) -> None:
        self._shell.outbox.episub(peer, GetTopics())
        self._connections.ping(peer)


_PINGS_PER_ROUND = 2


class Upkeep(TopicPart):
    """Upkeep of the active list (UPKEEP-1 to UPKEEP-5)."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._tried: set[PeerId] = set()
        """Peers that were asked for a link in this round."""
        self._asks_left = 0
        """The number of peers that may still be asked for a near link in this round."""
        self._replies: dict[PeerId, Neighbor] | None = None
        """The REPLYs that neighbours have sent since they were asked for their active lists; None if they were not
        asked, or if the replies have been used."""

    def attach(self, neighbours: Neighbours, join_protocol: JoinProtocol) -> None:
        """Set the parts that are constructed after this object. The constructor of `Neighbours` needs `refused`."""
        self._neighbours = neighbours
        self._join_protocol = join_protocol

    def round(self) -> None:
        """Do a round of stabilisation (UPKEEP-1 to UPKEEP-5)."""
        self._tried.clear()
        self._join_protocol.new_round()
        self._asks_left = 2 * max(0, self._target_sizes.active_size - len(self._views.active))
        if self._replies is not None:
            for peer in self._views.neighbours(*self._replies):
                self._connections.ping(peer)
            self._shrink()
        if len(self._views.active) < self._target_sizes.active_size:
            self.grow()
        elif self._parameters.overlay is Overlay.EPISUB:
            if len(self._views.active) > self._target_sizes.active_size:
                self._replies = {}
                for peer in self._views.neighbours():
                    self._neighbours.send_neighbor_part(peer, Role.QUERY, random=False)
            if self._views.random_links < self._target_sizes.random_links:
                self._regain_random()
            else:
                self._optimise()
        self._measure()

    def grow(self) -> None:
        """Ask for as many links as are missing (UPKEEP-1). If no peer is left to ask, look for more peers
        (UPKEEP-2)."""
        views = self._views
        short = self._target_sizes.active_size - len(views.active) - len(self._neighbours.requests)
        if short <= 0:
            return
        asked_random = sum(request.random for request in self._neighbours.requests.values())
        short_random = self._target_sizes.random_links - views.random_links - asked_random
        short_random -= self._join_protocol.attempts
        candidates = [
            peer
            for peer in sorted(views.passive)
            if peer not in self._tried and peer not in self._neighbours.requests
        ]
        if not candidates:
            self._look_around()
            return
        if self._parameters.overlay is Overlay.HYPARVIEW:
            short_random = short
        random = views.shuffled(Purpose.GROW, candidates)[: min(short, max(0, short_random))]
        chosen = [(peer, True) for peer in random]
        if len(chosen) < short and short_random < short:
            rest = views.by_rtt(views.shuffled(Purpose.GROW_NEAR, set(candidates) - set(random)))
            near = min(short - len(chosen), max(0, self._asks_left))
            self._asks_left -= near
            chosen += [(peer, False) for peer in rest[:near]]
        for peer, is_random in chosen:
            self._tried.add(peer)
            self._neighbours.request(peer, is_random)

    def refused(self, peer: PeerId) -> None:
        """Ask another peer, after a link request to this one was refused or failed."""
        self._tried.add(peer)
        self.grow()

    def on_reply(self, sender: PeerId, part: Neighbor) -> None:
        """Store the active list of a neighbour. When all lists are there, drop links (UPKEEP-3)."""
        if self._replies is None or sender not in self._views.active:
            return
        self._replies[sender] = part
        if len(self._replies) >= len(self._views.active):
            self._shrink()

    def _look_around(self) -> None:
        """If this node must join or has no passive peers, ask discovery for contacts. If it has few passive peers,
        ask a random neighbour for nodes (UPKEEP-2)."""
        if self._join_protocol.must_join or not self._views.passive:
            self._join_protocol.find_contacts()
        elif len(self._views.passive) < self._target_sizes.active_size:
            neighbours = self._views.neighbours()
            self._join_protocol.ask_for_nodes(self._views.choose(Purpose.NODES, neighbours))

    def _shrink(self) -> None:
        """Drop links in the two steps of UPKEEP-3, until there are A or no other link may be dropped. Links to
        neighbours without a REPLY stay."""
        replies = {peer: part for peer, part in (self._replies or {}).items() if peer in self._views.active}
        self._replies = None
        views = self._views
        wanted = self._target_sizes.random_links
        for peer in reversed(views.by_rtt(replies)):
            if len(views.active) <= self._target_sizes.active_size or views.random_links <= wanted:
                break
            if views.active[peer].random and replies[peer].random_links > wanted:
                self._neighbours.evict(peer)
        for peer in reversed(views.by_rtt(replies)):
            if len(views.active) <= self._target_sizes.active_size:
                return
            spare = not views.active[peer].random if peer in views.active else False
            if spare or (peer in views.active and views.random_links > wanted):
                linked = [other for other in replies[peer].peers if other in views.active and other != peer]
                if linked:
                    self._neighbours.evict(peer)

    def _regain_random(self) -> None:
        """Ask a random passive node for a random link in place of the farthest near link (UPKEEP-4)."""
        views = self._views
        near = [peer for peer in views.by_rtt(views.active) if not views.active[peer].random]
        if near and views.passive and not self._neighbours.requests:
            peer = views.choose(Purpose.GROW, sorted(views.passive))
            self._neighbours.request(peer, random=True, replaces=near[-1])

    def _optimise(self) -> None:
        """Relabel the links. If the closest passive node is close enough, ask it for a near link in place of the
        farthest one (UPKEEP-5)."""
        views = self._views
        views.relabel(self._target_sizes.random_links, self._target_sizes.near_links)
        farthest = views.farthest_near()
        measured = [peer for peer, rtt_us in views.passive.items() if rtt_us is not None]
        if farthest is None or not measured or self._neighbours.requests:
            return
        closest = views.by_rtt(measured)[0]
        rtt_us = views.passive[closest]
        if self._neighbours.closer(UNMEASURED_US if rtt_us is None else rtt_us, farthest):
            self._neighbours.request(closest, random=False, replaces=farthest)

    def _measure(self) -> None:
        """Ping some neighbours whose RTT was not measured or, if there are none, random neighbours. Do nothing if
        C_near is 0."""
        if not self._target_sizes.near_links:
            return
        active = self._views.active
        unmeasured = sorted(peer for peer, link in active.items() if link.rtt_us is None)
        some = self._views.some(Purpose.PING, sorted(active), _PINGS_PER_ROUND)
        for peer in (unmeasured or some)[: 2 * _PINGS_PER_ROUND]:
            self._connections.ping(peer)
