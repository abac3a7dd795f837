"""The state that the parts of one topic's membership share: the active and the passive list, and their sizes.

Rules (HyParView, section 4; episub spec, "Design Parameters for View Sizes"):

* VIEW-1: Neither list has the node itself, and they share no peer. The passive list is bounded: in a full list a new
  peer replaces a peer that the node sent in the same shuffle, or else a random one (HyParView, 4.4).
* VIEW-2: A link is random or near. Each of its two nodes has its own label for it. `relabel` makes the closest links
  the near ones, and never makes more random links than there were, so that a lost random link is noticed and replaced
  (GoCast, 2.2; the spec's "the neighbors are reordered by RTT and the closest ones are considered the near nodes").
* VIEW-3: RTT is smoothed: each new sample counts for an eighth.
* SKETCH-1: N is the estimated number of nodes. C_rand = log10 N, at least 1. A = C_rand + `size_constant`, which is
  the number of near links. P = `passive_factor` · A.

The estimate is a k-minimum-values sketch of the node keys (Bar-Yossef and others 2002): every node keeps the
smallest hashes of the node keys it received; if the k-th smallest of 2⁶⁴ possible values is v, there are about
(k − 1) · 2⁶⁴ / v nodes. Sketches travel with SHUFFLE and SHUFFLEREPLY and are merged, so that after a few rounds all
nodes hold the same one. An entry that its node does not renew is removed after `_LIFETIME` shuffle periods, so the
estimate falls when nodes leave. The relative error is about 1/√k, which log10 shrinks to a fraction of one neighbour.

A hash and its age travel as one number, `hash · 256 + age`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from hearsay.core.episub.agenda import Agenda, Task
from hearsay.core.episub.connections import Connections
from hearsay.core.episub.parameters import EpisubParameters, ViewSizes
from hearsay.core.language.actions import OverlayChange, OverlayChanged
from hearsay.core.language.identifiers import Micros, PeerId, TopicId
from hearsay.core.rules.mixing import extend
from hearsay.core.shell.randomness import Purpose, below, key_of, sample, shuffled
from hearsay.core.shell.strategy import Shell

SKETCH_SIZE = 32
_LIFETIME = 30
_AGES = 256
_SPACE = 1 << 56
_SALT = 0x5CA1AB1E


class TargetSizes:
    """C_rand, A and P of one topic at one node: given, or computed from the estimated number of nodes."""

    def __init__(self, parameters: EpisubParameters, key: int) -> None:
        self._parameters = parameters
        self._own = extend(_SALT, key) >> 8
        self._ages: dict[int, int] = {self._own: 0}
        self.random_links = parameters.random_links
        self.active_size = parameters.active_size
        self.passive_size = parameters.passive_size

    @property
    def estimating(self) -> bool:
        return self._parameters.view_sizes is ViewSizes.ESTIMATED

    @property
    def near_links(self) -> int:
        return self.active_size - self.random_links

    def enough(self, links: int) -> bool:
        """Return whether a node with this number of links may replace one by a better one."""
        return links > self.random_links

    def sketch(self) -> tuple[int, ...]:
        """Increase the ages of the entries by one, and return the sketch to send; called once per shuffle period."""
        if not self.estimating:
            return ()
        self._ages = {known: age + 1 for known, age in self._ages.items() if age < _LIFETIME}
        self._ages[self._own] = 0
        self._resize()
        return self.shown()

    def shown(self) -> tuple[int, ...]:
        """Return the sketch without ageing it."""
        if not self.estimating:
            return ()
        return tuple(known * _AGES + self._ages[known] for known in sorted(self._ages)[:SKETCH_SIZE])

    def merge(self, sketch: Iterable[int]) -> None:
        """Merge the sketch of another node. An entry in both keeps the lower of its two ages."""
        if not self.estimating:
            return
        for entry in list(sketch)[:SKETCH_SIZE]:
            known, age = divmod(entry, _AGES)
            if 0 <= known < _SPACE and age <= _LIFETIME:
                self._ages[known] = min(age, self._ages.get(known, _LIFETIME))
        self._ages = {known: self._ages[known] for known in sorted(self._ages)[:SKETCH_SIZE]}
        self._resize()

    @property
    def estimate(self) -> int:
        """The estimated number of nodes, this one included."""
        if len(self._ages) < SKETCH_SIZE:
            return len(self._ages)
        return (SKETCH_SIZE - 1) * _SPACE // max(1, sorted(self._ages)[SKETCH_SIZE - 1])

    def _resize(self) -> None:
        parameters = self._parameters
        self.random_links = min(max(1, _rounded_log10(max(1, self.estimate))), parameters.active_limit)
        self.active_size = min(self.random_links + parameters.size_constant, parameters.active_limit)
        self.passive_size = parameters.passive_factor * self.active_size


def _rounded_log10(number: int) -> int:
    """Return log10 to the nearest integer. Squares are compared, because the square of 10^(d + ½) is an integer."""
    digits = len(str(number)) - 1
    return digits + (number * number >= 10 ** (2 * digits + 1))


_NEW_SAMPLE_SHARE = 8
UNMEASURED_US: Micros = 1 << 62
"""Stands for the RTT of peers without a measured one, so that they come last in order of RTT."""


class NeighborListener(Protocol):
    """Listener to changes of the active list (the spec's NeighborUp and NeighborDown)."""

    def neighbor_up(self, topic: TopicId, peer: PeerId) -> None: ...

    def neighbor_down(self, topic: TopicId, peer: PeerId, in_good_order: bool) -> None:
        """Handle a lost neighbour. `in_good_order`: it remains in the overlay; otherwise it failed or left."""
        ...


class Link:
    """One active neighbour."""

    __slots__ = ("random", "rtt_us")

    def __init__(self, random: bool, rtt_us: Micros | None) -> None:
        self.random = random
        self.rtt_us = rtt_us


class Views:
    def __init__(self, shell: Shell, topic: TopicId, passive_size: int, listener: NeighborListener) -> None:
        self._shell = shell
        self._listener = listener
        self.topic = topic
        self.passive_size = passive_size
        self.active: dict[PeerId, Link] = {}
        self.passive: dict[PeerId, Micros | None] = {}
        """Passive peers with their RTT, None if it was not measured."""

    @property
    def random_links(self) -> int:
        return sum(link.random for link in self.active.values())

    def neighbours(self, *others_than: PeerId) -> list[PeerId]:
        """Return the active list without `others_than`, in ascending order."""
        return sorted(peer for peer in self.active if peer not in others_than)

    def choose(self, purpose: Purpose, candidates: Sequence[PeerId], *words: int) -> PeerId:
        """Draw one of `candidates`, which are ascending and not empty.

        `words` distinguish the draw from others of this purpose at the same time.
        """
        return candidates[below(self._draw(purpose, *words), len(candidates))]

    def some(self, purpose: Purpose, candidates: Sequence[PeerId], count: int, *words: int) -> list[PeerId]:
        """Draw `count` of `candidates`, which are ascending."""
        return sample(self._draw(purpose, *words), candidates, count)

    def shuffled(self, purpose: Purpose, candidates: Iterable[PeerId], *words: int) -> list[PeerId]:
        """Return `candidates` in a random order that does not depend on their order."""
        return shuffled(self._draw(purpose, *words), candidates)

    def add_active(self, peer: PeerId, random: bool) -> None:
        known = self.passive.get(peer)
        self.remove_passive(peer)
        self.active[peer] = Link(random, known)
        self._shell.actions.append(OverlayChanged(OverlayChange.NEIGHBOR_UP, self.topic, peer))
        self._listener.neighbor_up(self.topic, peer)

    def remove_active(self, peer: PeerId, remember: bool) -> None:
        """Remove a neighbour. With `remember` it counts as still in the overlay and is added to the passive list."""
        link = self.active.pop(peer)
        self._shell.actions.append(OverlayChanged(OverlayChange.NEIGHBOR_DOWN, self.topic, peer))
        self._listener.neighbor_down(self.topic, peer, in_good_order=remember)
        if remember:
            self.add_passive(peer)
            if peer in self.passive:
                self.passive[peer] = link.rtt_us

    def add_passive(self, peer: PeerId, handed_out: list[PeerId] | None = None) -> None:
        """Add a peer, unless it is in a list already. In a full list it replaces one of `handed_out` first (VIEW-1).

        `handed_out` are the peers sent in the same shuffle; those that are tried are removed from it.
        """
        if peer == self._shell.node or peer in self.active or peer in self.passive:
            return
        if len(self.passive) >= self.passive_size:
            self.remove_passive(self._victim(peer, handed_out))
        self.passive[peer] = None
        self._shell.actions.append(OverlayChanged(OverlayChange.PASSIVE_ADDED, self.topic, peer))

    def remove_passive(self, peer: PeerId) -> bool:
        """Remove a passive entry; return True if there was one."""
        if peer not in self.passive:
            return False
        del self.passive[peer]
        self._shell.actions.append(OverlayChanged(OverlayChange.PASSIVE_REMOVED, self.topic, peer))
        return True

    def trim_passive(self) -> None:
        """Trim the passive list to its size, after the size has changed."""
        while len(self.passive) > self.passive_size:
            self.remove_passive(self.choose(Purpose.PASSIVE_EVICT, sorted(self.passive), len(self.passive)))

    def measured(self, peer: PeerId, rtt_us: Micros) -> None:
        link = self.active.get(peer)
        if link is not None:
            link.rtt_us = _smoothed(link.rtt_us, rtt_us)
        elif peer in self.passive:
            self.passive[peer] = _smoothed(self.passive[peer], rtt_us)

    def relabel(self, random_wanted: int, near_wanted: int) -> None:
        """Make the closest links the near ones (VIEW-2). At equal or unknown RTT, links that are near stay near."""
        keep = min(self.random_links, max(random_wanted, len(self.active) - near_wanted))
        near = len(self.active) - keep
        by_rtt = sorted(self.active, key=lambda peer: (self._rtt(peer), self.active[peer].random, peer))
        for place, peer in enumerate(by_rtt):
            self.active[peer].random = place >= near

    def farthest_near(self) -> PeerId | None:
        """Return the farthest near neighbour with a known RTT, None if there is none."""
        near = [peer for peer, link in self.active.items() if not link.random and link.rtt_us is not None]
        return self.by_rtt(near)[-1] if near else None

    def by_rtt(self, peers: Iterable[PeerId]) -> list[PeerId]:
        """Return peers in the order of RTT, the nearest first and those without a measured RTT last."""
        return sorted(peers, key=lambda peer: (self._rtt(peer), peer))

    def _rtt(self, peer: PeerId) -> Micros:
        link = self.active.get(peer)
        rtt_us = link.rtt_us if link is not None else self.passive.get(peer)
        return UNMEASURED_US if rtt_us is None else rtt_us

    def _victim(self, newcomer: PeerId, handed_out: list[PeerId] | None) -> PeerId:
        while handed_out:
            peer = handed_out.pop()
            if peer in self.passive:
                return peer
        return self.choose(Purpose.PASSIVE_EVICT, sorted(self.passive), key_of(newcomer))

    def _draw(self, purpose: Purpose, *words: int) -> int:
        return self._shell.draw(purpose, self.topic, self._shell.now, *words)


def _smoothed(before_us: Micros | None, sample_us: Micros) -> Micros:
    return sample_us if before_us is None else before_us + (sample_us - before_us) // _NEW_SAMPLE_SHARE


class SequenceNumbers:
    """Sequence numbers of the parts that one node sends on walks.

    Each is the time in microseconds, but at least one more than the last, so that they grow even over a restart.
    """

    def __init__(self) -> None:
        self._last = 0

    def next(self, now: Micros) -> int:
        self._last = max(self._last + 1, now)
        return self._last


@dataclass(slots=True)
class Context:
    shell: Shell
    parameters: EpisubParameters
    topic: TopicId
    views: Views
    target_sizes: TargetSizes
    connections: Connections
    agenda: Agenda
    sequence: SequenceNumbers
    """Shared by all topics of the node."""

    def next_sequence(self) -> int:
        return self.sequence.next(self.shell.now)

    def reply_due(self) -> Micros:
        """Return the end of the wait for an answer, and set an alarm for it."""
        due = self.shell.now + self.parameters.reply_timeout_ms * 1000
        self.agenda.set_earliest(Task.EXPIRE, self.topic, due)
        return due


class TopicPart:
    """A part of one topic's membership, with the state that all these parts share."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._shell = context.shell
        self._parameters = context.parameters
        self._topic = context.topic
        self._views = context.views
        self._target_sizes = context.target_sizes
        self._connections = context.connections
