"""Estimates of the differences between the clocks of real nodes.

An import does not change times. A join of runs of real nodes corrects the clocks that are flagged here.

Rules:

* The estimate is that of NTP. Let d(a, b) be the smallest delay of a message from peer a to peer b, where each peer
  reads its own clock. Then the clock of b is ahead of the clock of a by (d(a, b) - d(b, a)) / 2. This estimate is
  wrong by at most half of the round trip d(a, b) + d(b, a).
* The delay of a message from a to b is the time from the first send by a to b until the first receipt by b from a. A
  receipt is a RECV_RPC, a delivery, a duplicate or a reject. The delay may be negative.
* Peers that are linked by delays in both directions form a group. The links with the shortest round trips form a
  spanning tree of the group. Offsets add up along this tree, and so do their uncertainties. Offsets are relative to
  the reference of the group: the peer whose offset is the (lower) median.
* A clock is flagged if its offset is larger than the uncertainty of the offset. Then the clock is wrong: no division
  of the round trips between their two directions explains the offset.
* Delays of the whole trace are used, so the offset of a drifting clock is an average.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hearsay.ingest.records import Numbers
from hearsay.trace.language.rows import Rows, group_ids, order_of
from hearsay.trace.language.schema import NONE, Column, PartKind, TraceEvent

_MOST = np.iinfo(np.int64).max
_RECEIPTS = (TraceEvent.RECV_RPC, TraceEvent.DELIVER, TraceEvent.DUPLICATE, TraceEvent.REJECT)


class MessageFacts(NamedTuple):
    """Columns of facts about messages, in ascending order of their numbers; -1 for an unknown fact."""

    message: Numbers
    topic: Numbers
    publisher: Numbers
    published_us: Numbers


class PairDelays(NamedTuple):
    """Columns with a row for each ordered pair of peers: sender, receiver, and the smallest delay of a message from
    the sender to the receiver.
    """

    sender: Numbers
    receiver: Numbers
    delay_us: Numbers


def message_facts(rows: Rows) -> MessageFacts:
    """Return the facts about all messages in `rows`. Topic, publisher and time are those of the first publication.

    If no publication names the topic, it is the one with the smallest number in the message's rows.
    """
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
    """Return the smallest delays of the messages in `rows`, which must have all rows of each message."""
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
    """Return for each ordered pair of peers the smallest of its delays in `found`."""
    none_yet = PairDelays(*np.empty((3, 0), dtype=np.int64))
    sender, receiver, delay_us = (np.concatenate(arrays) for arrays in zip(none_yet, *found, strict=True))
    if not len(sender):
        return PairDelays(sender, receiver, delay_us)
    order, groups = group_ids([sender, receiver])
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    return PairDelays(sender[order][starts], receiver[order][starts], np.minimum.reduceat(delay_us[order], starts))


@dataclass(frozen=True, slots=True)
class ClockEstimate:
    """The estimate of a peer's clock. Reference, offset and uncertainty are None if the peer is in no group."""

    peer: int
    reference: int | None
    offset_us: int | None
    """By how much the clock of the peer is ahead of that of the reference."""
    uncertainty_us: int | None
    two_way_peers: int
    """Number of other peers to which and from which this peer has delays."""
    smallest_delay_us: int | None
    """Smallest delay of a message to this peer; None without messages. If it is negative, the clock of the sender or
    of the receiver is certainly wrong."""
    flagged: bool


class _Link(NamedTuple):
    """Two peers with delays in both directions. Links are sorted by their round trips."""

    round_trip_us: int
    low: int
    high: int
    ahead_us: int
    """By how much the clock of `high` is ahead of that of `low`."""


def estimate_clocks(delays: PairDelays, peers: Sequence[int]) -> list[ClockEstimate]:
    """Return the estimates of the clocks of these peers, in ascending order of the peers."""
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
    """Return the spanning trees of all groups: the neighbours of each peer, as (neighbour, by how much its clock is
    ahead of the peer's clock, uncertainty).

    Links must be sorted (Kruskal's algorithm).
    """
    connected: dict[int, set[int]] = {}
    tree: dict[int, list[tuple[int, int, int]]] = {}
    for link in links:
        few, many = sorted((connected.setdefault(peer, {peer}) for peer in (link.low, link.high)), key=len)
        if few is many:
            continue
        many |= few
        connected.update(dict.fromkeys(few, many))
        uncertainty = link.round_trip_us // 2 + 1
        tree.setdefault(link.low, []).append((link.high, link.ahead_us, uncertainty))
        tree.setdefault(link.high, []).append((link.low, -link.ahead_us, uncertainty))
    return tree


def _clocks(tree: Mapping[int, Sequence[tuple[int, int, int]]]) -> dict[int, tuple[int, int, int]]:
    """Return for each peer its reference, its offset, and the uncertainty of the offset."""
    clocks: dict[int, tuple[int, int, int]] = {}
    for root in sorted(tree):
        if root in clocks:
            continue
        group = _offsets_from(root, tree)
        ranked = sorted((offset, peer) for peer, (offset, _) in group.items())
        reference = ranked[(len(ranked) - 1) // 2][1]
        for peer, (offset, uncertainty) in _offsets_from(reference, tree).items():
            clocks[peer] = (reference, offset, uncertainty)
    return clocks


def _offsets_from(root: int, tree: Mapping[int, Sequence[tuple[int, int, int]]]) -> dict[int, tuple[int, int]]:
    """Return for each peer in the group of `root` its offset from `root`, and the uncertainty of the offset."""
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
