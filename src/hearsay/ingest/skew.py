"""Estimates of the differences between clocks of real nodes. Wrong clocks are flagged.

An import does not change times; when runs of real nodes are joined, flagged clocks are corrected.

Rules:

* As in NTP: if d(a, b) is the smallest delay seen from a to b, each by its own clock, then b is ahead of a by
  (d(a, b) - d(b, a)) / 2. This estimate is wrong by at most half of the round trip d(a, b) + d(b, a).
* Peers with delays in both directions form groups. Within a group offsets add up along the tree of the shortest
  round trips; so do their uncertainties. A group's reference is the peer whose offset is the (lower) median.
* A clock is flagged when its offset is larger than its uncertainty: no division of the round trips between
  the directions explains the offset, so the clock is off.
* Delays of the whole trace count, so the offset of a drifting clock is an average.
* The delay of an ordered pair is the smallest time from a send of a message to its first receipt (RECV_RPC, or
  delivery, duplicate or reject with that sender), so it may be negative. `pair_delays` gets all rows of a message.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hearsay.trace.language.order import group_ids, order_of
from hearsay.trace.language.rows import Rows
from hearsay.trace.language.schema import NONE, Column, PartKind, TraceEvent

Numbers: TypeAlias = NDArray[np.int64]

_MOST = np.iinfo(np.int64).max
_RECEIPTS = (TraceEvent.RECV_RPC, TraceEvent.DELIVER, TraceEvent.DUPLICATE, TraceEvent.REJECT)


class MessageFacts(NamedTuple):
    """Columns of facts about messages, in ascending order of the messages; -1 for an unknown fact."""

    message: Numbers
    topic: Numbers
    publisher: Numbers
    published_us: Numbers


class PairDelays(NamedTuple):
    """Columns: the ordered pairs of peers, and the smallest delay of each."""

    sender: Numbers
    receiver: Numbers
    delay_us: Numbers


def message_facts(rows: Rows) -> MessageFacts:
    rows = rows[rows[:, Column.MESSAGE] != NONE]
    messages, places = np.unique(rows[:, Column.MESSAGE], return_inverse=True)
    topics = rows[:, Column.TOPIC]
    topic = np.full(len(messages), _MOST)
    named = topics != NONE
    np.minimum.at(topic, places[named], topics[named])
    publisher, published = (np.full(len(messages), NONE, dtype=np.int64) for _ in range(2))
    found = np.flatnonzero(rows[:, Column.EVENT] == TraceEvent.PUBLISH)
    keys = (Column.MESSAGE, Column.TIME_US, Column.PEER, Column.TOPIC)
    found = found[order_of([rows[found, column] for column in keys])][::-1]  # the earliest row is assigned last
    publisher[places[found]] = rows[found, Column.PEER]
    published[places[found]] = rows[found, Column.TIME_US]
    found = found[topics[found] != NONE]
    topic[places[found]] = topics[found]
    topic[topic == _MOST] = NONE
    return MessageFacts(messages, topic, publisher, published)


def pair_delays(rows: Rows) -> PairDelays:
    events, remotes = rows[:, Column.EVENT], rows[:, Column.REMOTE]
    between = (rows[:, Column.MESSAGE] != NONE) & (remotes != NONE) & (remotes != rows[:, Column.PEER])
    sent = rows[between & (events == TraceEvent.SEND_RPC) & (rows[:, Column.KIND] == PartKind.PUBLISH)]
    received = rows[between & np.isin(events, _RECEIPTS)]
    there, back = (Column.MESSAGE, Column.PEER, Column.REMOTE), (Column.MESSAGE, Column.REMOTE, Column.PEER)
    ends = np.concatenate((sent[:, there], received[:, back]))
    if not len(ends):
        return merged_delays([])
    time = np.concatenate((sent[:, Column.TIME_US], received[:, Column.TIME_US]))
    is_receipt = np.repeat([0, 1], [len(sent), len(received)])
    order = order_of([*ends.T, is_receipt, time])
    ends, time, is_receipt = ends[order], time[order], is_receipt[order]
    same = np.zeros(len(ends), dtype=bool)
    same[1:] = (ends[1:] == ends[:-1]).all(axis=1)
    starts = np.flatnonzero(~same)
    firsts = np.flatnonzero(same & (is_receipt == 1) & (np.roll(is_receipt, 1) == 0))
    sends = starts[np.searchsorted(starts, firsts, side="right") - 1]
    return merged_delays([PairDelays(ends[firsts, 1], ends[firsts, 2], time[firsts] - time[sends])])


def merged_delays(found: Sequence[PairDelays]) -> PairDelays:
    """Return the smallest delay of each ordered pair over all given delays."""
    sender, receiver, delay_us = (
        np.concatenate([np.empty(0, dtype=np.int64), *arrays]) for arrays in zip(*found, strict=True)
    ) if found else [np.empty(0, dtype=np.int64)] * 3  # fmt: skip
    if not len(sender):
        return PairDelays(sender, receiver, delay_us)
    order, groups = group_ids([sender, receiver])
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    return PairDelays(sender[order][starts], receiver[order][starts], np.minimum.reduceat(delay_us[order], starts))


@dataclass(frozen=True, slots=True)
class ClockEstimate:
    """The estimate of a peer's clock. Without delays in both directions, offset and uncertainty are None."""

    peer: int
    reference: int | None
    offset_us: int | None
    uncertainty_us: int | None
    pairs: int
    """Number of peers with delays in both directions."""
    smallest_delay_us: int | None
    """Smallest delay to this peer; if it is negative, a clock is certainly off."""
    flagged: bool


class _Link(NamedTuple):
    """Delays of a pair in both directions. Links sort by round trip."""

    round_trip_us: int
    low: int
    high: int
    ahead_us: int
    """By how much the clock of `high` is ahead of that of `low`."""


def estimate_clocks(delays: PairDelays, peers: Sequence[int]) -> list[ClockEstimate]:
    """Return the estimates for these peers, in ascending order."""
    columns = (column.tolist() for column in delays)
    smallest = {(sender, receiver): delay for sender, receiver, delay in zip(*columns, strict=True)}
    links = _links(smallest)
    pairs = Counter(peer for link in links for peer in (link.low, link.high))
    arriving: dict[int, int] = {}
    for (_, receiver), delay in smallest.items():
        arriving[receiver] = min(delay, arriving.get(receiver, delay))
    clocks = _clocks(_tree(links))
    estimates: list[ClockEstimate] = []
    for peer in sorted(peers):
        reference, offset, uncertainty = clocks.get(peer, (None, None, None))
        flagged = offset is not None and uncertainty is not None and abs(offset) > uncertainty
        estimates.append(
            ClockEstimate(peer, reference, offset, uncertainty, pairs[peer], arriving.get(peer), flagged)
        )
    return estimates


def _links(smallest: Mapping[tuple[int, int], int]) -> list[_Link]:
    links: list[_Link] = []
    for (low, high), there in smallest.items():
        back = smallest.get((high, low))
        if low < high and back is not None:
            links.append(_Link(max(there + back, 0), low, high, (there - back) // 2))
    return sorted(links)


def _tree(links: Sequence[_Link]) -> dict[int, list[tuple[int, int, int]]]:
    """Return each peer's neighbours in the tree: (peer, by how much it is ahead, uncertainty)."""
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
    """Return (reference, offset, uncertainty) by peer."""
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
    """Return (offset, uncertainty) relative to `root`, for each peer that the tree connects with it."""
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
