"""Passive view management: SHUFFLE walks that exchange parts of the passive lists (HyParView 4.4; episub spec).

Rules:

* SHUFFLE-1: Now and then a node sends its own id, k_a neighbours and k_p passive nodes to a random neighbour. The
  walk goes on while the TTL is above 0 and the receiver has another neighbour; where it ends, the receiver opens a
  connection to the origin, answers with as many random passive nodes, and takes the others in. If it cannot connect,
  it does not take part at all.
* SHUFFLE-2: New entries take the place of those that were sent.
* SHUFFLE-3: Without an answer in time the shuffle is tried again with half the TTL, until at 0 the neighbour itself
  answers over the link there is; so a node behind a NAT can shuffle.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hearsay.core.episub.context import Context
from hearsay.core.language.episub_parts import Shuffle, ShuffleReply
from hearsay.core.language.identifiers import Micros, PeerId
from hearsay.core.shell.randomness import Purpose, key_of


@dataclass(frozen=True, slots=True)
class _Open:
    """A shuffle of our own that is not answered yet."""

    sequence: int
    sent: tuple[PeerId, ...]
    ttl: int
    due: Micros


class Shuffles:
    __slots__ = ("_connections", "_context", "_open", "_parameters", "_shell", "_target_sizes", "_topic", "_views")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._shell = context.shell
        self._parameters = context.parameters
        self._topic = context.topic
        self._views = context.views
        self._target_sizes = context.target_sizes
        self._connections = context.connections
        self._open: _Open | None = None

    def round(self) -> None:
        self._start(self._parameters.shuffle_ttl)

    def expire(self) -> None:
        if self._open is not None and self._open.due <= self._shell.now:
            ttl = self._open.ttl
            self._open = None
            if ttl > 0:
                self._start(ttl // 2)

    def dues(self) -> Iterator[Micros]:
        """When `expire` has something to do."""
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
        self._take(part.peers, mine.sent)
        self._merge(part.sketch)

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
        part = Shuffle(self._topic, self._shell.node, sent, ttl, sequence, self._target_sizes.sketch())
        self._follow_size()
        self._shell.outbox.episub(target, part)

    def _exchange(self, part: Shuffle) -> None:
        """This is where the walk ends."""
        views = self._views
        peers = self._within_limit(part.peers)
        candidates = [peer for peer in sorted(views.passive) if peer != part.peer]
        answer = views.some(Purpose.SHUFFLE_REPLY, candidates, len(peers) + 1, key_of(part.peer), part.sequence)
        reply = ShuffleReply(self._topic, tuple(answer), part.sequence, self._target_sizes.shown())
        self._shell.outbox.episub(part.peer, reply)
        self._take((*peers, part.peer), tuple(answer))
        self._merge(part.sketch)

    def _take(self, peers: tuple[PeerId, ...], sent: tuple[PeerId, ...]) -> None:
        handed_out = list(sent)
        for peer in sorted(set(self._within_limit(peers))):
            self._views.add_passive(peer, handed_out)

    def _merge(self, sketch: tuple[int, ...]) -> None:
        self._target_sizes.merge(sketch)
        self._follow_size()

    def _follow_size(self) -> None:
        if self._views.passive_size != self._target_sizes.passive_size:
            self._views.passive_size = self._target_sizes.passive_size
            self._views.trim_passive()

    def _within_limit(self, peers: tuple[PeerId, ...]) -> tuple[PeerId, ...]:
        return peers[: self._parameters.max_peers_per_part]
