"""What rows of class message tell about each message and about each pair of peers.

Rules:

* Of a message: its publisher and time of publication from its earliest PUBLISH row (ties: the smallest number), its
  topic from there too, or else the smallest topic that its other rows name. Unknown is -1.
* Of an ordered pair: the smallest time from a send of a message to its first receipt (RECV_RPC, or delivery,
  duplicate or reject with that sender). Both clocks are taken as they are, so it may be negative.
* All rows of a message are given together.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    """By message, ascending."""

    message: Numbers
    topic: Numbers
    publisher: Numbers
    published_us: Numbers


class PairDelays(NamedTuple):
    """By ordered pair: the smallest delay."""

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
    found = found[order_of([rows[found, column] for column in keys])][::-1]  # the earliest comes last and stays
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
    """The smallest of these delays."""
    sender, receiver, delay_us = (
        np.concatenate([np.empty(0, dtype=np.int64), *arrays]) for arrays in zip(*found, strict=True)
    ) if found else [np.empty(0, dtype=np.int64)] * 3  # fmt: skip
    if not len(sender):
        return PairDelays(sender, receiver, delay_us)
    order, groups = group_ids([sender, receiver])
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    return PairDelays(sender[order][starts], receiver[order][starts], np.minimum.reduceat(delay_us[order], starts))
