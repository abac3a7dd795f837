"""How far the clocks of real nodes are apart: estimated, reported and flagged.

An import leaves times as they are; when runs of real nodes are joined, flagged clocks are put right.

Rules:

* As NTP does: if d(a, b) is the smallest delay seen from a to b, each by its own clock, then b is ahead of a by
  (d(a, b) - d(b, a)) / 2, and wrong by at most half of their sum, the round trip.
* Peers with delays in both directions form groups. Within a group offsets add up along the tree of the shortest
  round trips; so do their uncertainties. A group's reference is the peer whose offset is the (lower) median.
* A clock is flagged when its offset is larger than its uncertainty: no way of sharing the round trips out between
  the directions explains it, so it is off.
* Delays at the trace's first and last hour alike count, so a clock that drifts shows as an average.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hearsay.ingest.message_facts import PairDelays


@dataclass(frozen=True, slots=True)
class ClockEstimate:
    """What is known of a peer's clock. Without delays in both directions, offset and uncertainty are None."""

    peer: int
    reference: int | None
    offset_us: int | None
    uncertainty_us: int | None
    pairs: int
    """With how many peers there are delays in both directions."""
    smallest_delay_us: int | None
    """To this peer from any other; below zero, a clock is off for sure."""
    flagged: bool


@dataclass(frozen=True, slots=True)
class _Link:
    round_trip_us: int
    low: int
    high: int
    ahead_us: int
    """By how much `high` is ahead of `low`."""


def estimate_clocks(delays: PairDelays, peers: Sequence[int]) -> list[ClockEstimate]:
    """The clocks of these peers, ascending."""
    smallest = {
        (sender, receiver): delay
        for sender, receiver, delay in zip(
            delays.sender.tolist(), delays.receiver.tolist(), delays.delay_us.tolist(), strict=True
        )
    }
    links = _links(smallest)
    pairs: dict[int, int] = {}
    for link in links:
        for peer in (link.low, link.high):
            pairs[peer] = pairs.get(peer, 0) + 1
    arriving: dict[int, int] = {}
    for (_, receiver), delay in smallest.items():
        arriving[receiver] = min(delay, arriving.get(receiver, delay))
    clocks = _clocks(_tree(links))
    estimates: list[ClockEstimate] = []
    for peer in sorted(peers):
        reference, offset, uncertainty = clocks.get(peer, (None, None, None))
        flagged = offset is not None and uncertainty is not None and abs(offset) > uncertainty
        estimates.append(
            ClockEstimate(peer, reference, offset, uncertainty, pairs.get(peer, 0), arriving.get(peer), flagged)
        )
    return estimates


def _links(smallest: Mapping[tuple[int, int], int]) -> list[_Link]:
    links: list[_Link] = []
    for (low, high), there in smallest.items():
        back = smallest.get((high, low))
        if low < high and back is not None:
            links.append(_Link(max(there + back, 0), low, high, (there - back) // 2))
    return sorted(links, key=lambda link: (link.round_trip_us, link.low, link.high))


def _tree(links: Sequence[_Link]) -> dict[int, list[tuple[int, int, int]]]:
    """By peer its neighbours in the tree: (peer, by how much it is ahead, uncertainty)."""
    leader: dict[int, int] = {}
    tree: dict[int, list[tuple[int, int, int]]] = {}

    def find(peer: int) -> int:
        while leader.setdefault(peer, peer) != peer:
            leader[peer] = leader[leader[peer]]
            peer = leader[peer]
        return peer

    for link in links:
        low, high = find(link.low), find(link.high)
        if low == high:
            continue
        leader[max(low, high)] = min(low, high)
        uncertainty = link.round_trip_us // 2 + 1
        tree.setdefault(link.low, []).append((link.high, link.ahead_us, uncertainty))
        tree.setdefault(link.high, []).append((link.low, -link.ahead_us, uncertainty))
    return tree


def _clocks(tree: Mapping[int, Sequence[tuple[int, int, int]]]) -> dict[int, tuple[int, int, int]]:
    """(reference, offset, uncertainty) by peer."""
    clocks: dict[int, tuple[int, int, int]] = {}
    for root in sorted(tree):
        if root in clocks:
            continue
        group = _from(root, tree)
        ranked = sorted((offset, peer) for peer, (offset, _) in group.items())
        reference = ranked[(len(ranked) - 1) // 2][1]
        for peer, (offset, uncertainty) in _from(reference, tree).items():
            clocks[peer] = (reference, offset, uncertainty)
    return clocks


def _from(root: int, tree: Mapping[int, Sequence[tuple[int, int, int]]]) -> dict[int, tuple[int, int]]:
    reached = {root: (0, 0)}
    waiting = [root]
    while waiting:
        peer = waiting.pop()
        offset, uncertainty = reached[peer]
        for other, ahead, more in tree[peer]:
            if other not in reached:
                reached[other] = (offset + ahead, uncertainty + more)
                waiting.append(other)
    return reached
