"""The views of a node in one topic, which are its active and its passive list, and the target sizes of both lists.

The active list has the neighbours, the passive list other known peers. A link joins two neighbours. The parts of a
membership share these objects (`Context`). Rules (HyParView, section 4; episub spec, "Design Parameters for View
Sizes"):

* VIEW-1: Neither list has the node itself, and no peer is in both. The passive list is bounded: in a full list a new
  peer replaces a peer that the node sent in the same shuffle. If the list has no such peer, the new one replaces a
  random peer (HyParView, 4.4).
* VIEW-2: A link is random or near. The two nodes of a link label it independently of each other. `relabel` makes the
  closest links the near ones, and never makes more random links than there were, so that a lost random link is
  noticed and replaced (GoCast, 2.2; the spec's "the neighbors are reordered by RTT and the closest ones are
  considered the near nodes").
* VIEW-3: RTT is smoothed: after the first sample, each new one has a weight of one eighth.
* SKETCH-1: N is the estimated number of nodes. C_rand = log10 N, rounded, at least 1. A = C_rand + `size_constant`.
  C_rand and A are at most `active_limit`. The number of near links is A − C_rand. P = `passive_factor` · A. Until the
  first shuffle, the sizes are those of the parameters.

The estimate uses a k-minimum-values sketch of the node keys (Bar-Yossef and others 2002): every node stores the k
smallest hashes of node keys that it has received. If the k-th smallest of 2⁵⁶ possible values is v, there are about
(k − 1) · 2⁵⁶ / v nodes. SHUFFLE and SHUFFLEREPLY carry sketches, which the receivers merge with their own, so that
after a few rounds all nodes store the same sketch. Each hash has an age in shuffles, and is removed after `_LIFETIME`
of them unless its own node renews it. So the estimate falls when nodes leave. The relative error of N is about 1/√k;
this changes log10 N by less than one.

In a SHUFFLE or SHUFFLEREPLY, a hash and its age are one number, `hash · 256 + age`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from hearsay.core.episub.connections import Agenda, Connections, Task
from hearsay.core.episub.parameters import EpisubParameters, ViewSizes
from hearsay.core.language.actions import OverlayChange, OverlayChanged
from hearsay.core.language.identifiers import Micros, PeerId, TopicId
from hearsay.core.rules.randomness import Purpose, below, extend, key_of, sample, shuffled
from hearsay.core.shell.strategy import Shell

SKETCH_SIZE = 32
_LIFETIME = 30
_AGES = 256
_SPACE = 1 << 56
_SALT = 0x5CA1AB1E


class TargetSizes:
    """C_rand, A and P of one topic: those of the parameters, or computed from the estimated number of nodes.

    `random_links` is C_rand, `active_size` is A, and `passive_size` is P. `key` is the key of the node.
    """

    def __init__(self, parameters: EpisubParameters, key: int) -> None:
        self._parameters = parameters
        self._estimates = parameters.view_sizes is ViewSizes.ESTIMATED
        self._own = extend(_SALT, key) >> 8
        self._ages: dict[int, int] = {self._own: 0}
        self.random_links = parameters.random_links
        self.active_size = parameters.active_size
        self.passive_size = parameters.passive_size

    @property
    def near_links(self) -> int:
        """C_near, the target number of near links."""
        return self.active_size - self.random_links

    def aged_sketch(self) -> tuple[int, ...]:
        """Increase the age of each hash, remove those that are too old, and return the sketch to send. The node calls
        this once for each SHUFFLE of its own. The result is empty with fixed sizes."""
        if not self._estimates:
            return ()
        self._ages = {known: age + 1 for known, age in self._ages.items() if age < _LIFETIME}
        self._ages[self._own] = 0
        self._resize()
        return self.sketch()

    def sketch(self) -> tuple[int, ...]:
        """Return the sketch to send, which is empty with fixed sizes."""
        if not self._estimates:
            return ()
        return tuple(known * _AGES + self._ages[known] for known in sorted(self._ages)[:SKETCH_SIZE])

    def merge(self, sketch: Iterable[int]) -> None:
        """Merge the sketch of another node with the own one, and adapt the sizes. A hash in both gets the lower of
        its two ages. With fixed sizes, do nothing."""
        if not self._estimates:
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
    """Return the integer nearest to log10 of a number. The comparison is between squares, because the square of
    10^(d + ½) is an integer."""
    digits = len(str(number)) - 1
    return digits + (number * number >= 10 ** (2 * digits + 1))


_NEW_SAMPLE_SHARE = 8
UNMEASURED_US: Micros = 1 << 62
"""A value in place of an RTT that was not measured, so that these peers come last in the order of RTT."""


class NeighborListener(Protocol):
    """A listener to changes of the active list (the spec's NeighborUp and NeighborDown)."""

    def neighbor_up(self, peer: PeerId) -> None: ...

    def neighbor_down(self, peer: PeerId, in_good_order: bool) -> None:
        """Handle the end of the link to a neighbour. `in_good_order` is True if the peer stays in the overlay;
        otherwise the peer failed or left."""


@dataclass(slots=True)
class Link:
    """The link to one neighbour, as this node labels it."""

    random: bool
    """True if the link is random, False if it is near (VIEW-2)."""
    rtt_us: Micros | None
    """The smoothed RTT in microseconds; None if no RTT was measured."""


class Views:
    """The active and the passive list of one topic."""

    def __init__(self, shell: Shell, topic: TopicId, target_sizes: TargetSizes, listener: NeighborListener) -> None:
        self._shell = shell
        self._target_sizes = target_sizes
        self._listener = listener
        self.topic = topic
        self.active: dict[PeerId, Link] = {}
        self.passive: dict[PeerId, Micros | None] = {}
        """The passive peers, each with its RTT; None if the RTT was not measured."""

    @property
    def random_links(self) -> int:
        """The number of random links."""
        return sum(link.random for link in self.active.values())

    def neighbours(self, *excluded: PeerId) -> list[PeerId]:
        """Return the neighbours that are not in `excluded`, in ascending order."""
        return sorted(peer for peer in self.active if peer not in excluded)

    def choose(self, purpose: Purpose, candidates: Sequence[PeerId], *words: int) -> PeerId:
        """Return a random one of `candidates`, which must ascend and must not be empty.

        `words` distinguish the draw from other draws with the same purpose, topic and time.
        """
        return candidates[below(self._draw(purpose, *words), len(candidates))]

    def some(self, purpose: Purpose, candidates: Sequence[PeerId], count: int, *words: int) -> list[PeerId]:
        """Return a random sample of `count` candidates, or all of them if there are fewer. `candidates` must ascend;
        the result ascends."""
        return sample(self._draw(purpose, *words), candidates, count)

    def shuffled(self, purpose: Purpose, candidates: Iterable[PeerId], *words: int) -> list[PeerId]:
        """Return `candidates` in a random order that does not depend on the order in which they are given."""
        return shuffled(self._draw(purpose, *words), candidates)

    def add_active(self, peer: PeerId, random: bool) -> None:
        """Make a peer a neighbour. If the peer is in the passive list, remove it there."""
        known = self.passive.get(peer)
        self.remove_passive(peer)
        self.active[peer] = Link(random, known)
        self._shell.actions.append(OverlayChanged(OverlayChange.NEIGHBOR_UP, self.topic, peer))
        self._listener.neighbor_up(peer)

    def remove_active(self, peer: PeerId, remember: bool) -> None:
        """Remove a neighbour. With `remember` the peer is still in the overlay, so add it to the passive list."""
        link = self.active.pop(peer)
        self._shell.actions.append(OverlayChanged(OverlayChange.NEIGHBOR_DOWN, self.topic, peer))
        self._listener.neighbor_down(peer, in_good_order=remember)
        if remember:
            self.add_passive(peer)
            if peer in self.passive:
                self.passive[peer] = link.rtt_us

    def add_passive(self, peer: PeerId, handed_out: list[PeerId] | None = None) -> None:
        """Add a peer to the passive list, unless it is this node or is in one of the two lists already.

        In a full list the peer replaces the last peer of `handed_out` that is still in the passive list. If there is
        none, it replaces a random peer (VIEW-1). `handed_out` are the peers that the node sent in the same shuffle;
        this method removes from `handed_out` the peers that it examines.
        """
        if peer == self._shell.node or peer in self.active or peer in self.passive:
            return
        if len(self.passive) >= self._target_sizes.passive_size:
            self.remove_passive(self._to_replace(peer, handed_out))
        self.passive[peer] = None
        self._shell.actions.append(OverlayChanged(OverlayChange.PASSIVE_ADD, self.topic, peer))

    def remove_passive(self, peer: PeerId) -> bool:
        """Remove a peer from the passive list; return True if it was there."""
        if peer not in self.passive:
            return False
        del self.passive[peer]
        self._shell.actions.append(OverlayChanged(OverlayChange.PASSIVE_REMOVE, self.topic, peer))
        return True

    def trim_passive(self) -> None:
        """Remove random peers from the passive list until it has at most P entries. P may have become smaller."""
        while len(self.passive) > self._target_sizes.passive_size:
            self.remove_passive(self.choose(Purpose.PASSIVE_EVICT, sorted(self.passive), len(self.passive)))

    def measured(self, peer: PeerId, rtt_us: Micros) -> None:
        """Store a measured RTT of a peer in one of the two lists (VIEW-3)."""
        link = self.active.get(peer)
        if link is not None:
            link.rtt_us = _smoothed(link.rtt_us, rtt_us)
        elif peer in self.passive:
            self.passive[peer] = _smoothed(self.passive[peer], rtt_us)

    def relabel(self, random_wanted: int, near_wanted: int) -> None:
        """Label the links with the shortest RTTs as near and all others as random (VIEW-2). Among links with equal
        RTT, those that are near stay near first."""
        keep = min(self.random_links, max(random_wanted, len(self.active) - near_wanted))
        near = len(self.active) - keep
        by_rtt = sorted(self.active, key=lambda peer: (self._rtt(peer), self.active[peer].random, peer))
        for place, peer in enumerate(by_rtt):
            self.active[peer].random = place >= near

    def farthest_near(self) -> PeerId | None:
        """Return the near neighbour with the longest measured RTT; None if no near neighbour was measured."""
        near = [peer for peer, link in self.active.items() if not link.random and link.rtt_us is not None]
        return self.by_rtt(near)[-1] if near else None

    def by_rtt(self, peers: Iterable[PeerId]) -> list[PeerId]:
        """Return peers in ascending order of RTT; those without a measured RTT come last. Peers with equal RTT
        ascend."""
        return sorted(peers, key=lambda peer: (self._rtt(peer), peer))

    def _rtt(self, peer: PeerId) -> Micros:
        link = self.active.get(peer)
        rtt_us = link.rtt_us if link is not None else self.passive.get(peer)
        return UNMEASURED_US if rtt_us is None else rtt_us

    def _to_replace(self, newcomer: PeerId, handed_out: list[PeerId] | None) -> PeerId:
        """Return the peer that a new peer replaces in a full passive list."""
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
    """Sequence numbers of the parts that other nodes forward (JOIN, FORWARDJOIN, LEAVE, SHUFFLE).

    Each number is the time in microseconds, or the last number plus one if that is larger. So the numbers also grow
    when the node restarts.
    """

    def __init__(self) -> None:
        self._last = 0

    def next(self, now: Micros) -> int:
        self._last = max(self._last + 1, now)
        return self._last


@dataclass(slots=True)
class Context:
    """The objects that the parts of one topic's membership share: the `TopicPart`s."""

    shell: Shell
    parameters: EpisubParameters
    topic: TopicId
    views: Views
    target_sizes: TargetSizes
    connections: Connections
    agenda: Agenda
    sequence: SequenceNumbers
    """The sequence numbers of the node, which all its topics share."""

    def next_sequence(self) -> int:
        return self.sequence.next(self.shell.now)

    def reply_due(self) -> Micros:
        """Return the end of a wait for an answer that begins now, and set the alarm EXPIRE for that time, unless it
        is set for an earlier one."""
        due = self.shell.now + self.parameters.reply_timeout_ms * 1000
        self.agenda.set_earliest(Task.EXPIRE, self.topic, due)
        return due


class TopicPart:
    """The base of the parts of one topic's membership. It has the objects that these parts share."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._shell = context.shell
        self._parameters = context.parameters
        self._topic = context.topic
        self._views = context.views
        self._target_sizes = context.target_sizes
        self._connections = context.connections
