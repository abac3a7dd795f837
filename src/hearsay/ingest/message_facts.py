"""What the files of class message tell about each message and about each pair of peers.

Rules:

* Of a message: its publisher and time of publication from its earliest PUBLISH row (ties: the smallest number), its
  topic from there too, or else the smallest topic that its other rows name. Unknown is -1.
* Of an ordered pair: the smallest time from a send of a message to its first receipt (RECV_RPC, or delivery,
  duplicate or reject with that sender). Both clocks are taken as they are, so it may be negative.
* A message lies in one file, so files can be read one by one, in any process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hearsay.trace.folder.arrow import open_trace_file, read_group
from hearsay.trace.language.columns import Columns
from hearsay.trace.language.order import group_ids, order_of
from hearsay.trace.language.schema import NONE, Column, PartKind, TraceEvent

Numbers = NDArray[np.int64]

_MOST = np.iinfo(np.int64).max
_RECEIPTS = (TraceEvent.RECV_RPC, TraceEvent.DELIVER, TraceEvent.DUPLICATE, TraceEvent.REJECT)
_NEEDED = (Column.TIME_US, Column.EVENT, Column.KIND, Column.PEER, Column.REMOTE, Column.TOPIC, Column.MESSAGE)


class MessageFacts(NamedTuple):
    """By message, ascending."""

    message: Numbers
    topic: Numbers
    publisher: Numbers
    published_us: Numbers


@dataclass(frozen=True, slots=True)
class PairDelays:
    """By ordered pair: the smallest delay, and from how many messages."""

    sender: Numbers
    receiver: Numbers
    delay_us: Numbers
    samples: Numbers


def facts_of_file(path: Path) -> tuple[MessageFacts, PairDelays]:
    """What one file of class message tells."""
    columns = _read(path)
    known = columns[Column.MESSAGE] != NONE
    columns = {column: values[known] for column, values in columns.items()}
    return _facts(columns), _delays(columns)


def merged_facts(found: Sequence[MessageFacts], messages: int) -> MessageFacts:
    """The facts of all messages of a run; of a message that spans files, from the file that knows its publication."""
    topic, publisher, published = (np.full(messages, NONE, dtype=np.int64) for _ in range(3))
    for facts in sorted(found, key=lambda each: each.message[:1].tolist()):
        place = facts.message
        earlier = (facts.published_us != NONE) & (
            (published[place] == NONE) | (facts.published_us < published[place])
        )
        topic[place] = np.where(earlier | (topic[place] == NONE), facts.topic, topic[place])
        publisher[place] = np.where(earlier, facts.publisher, publisher[place])
        published[place] = np.where(earlier, facts.published_us, published[place])
    return MessageFacts(np.arange(messages), topic, publisher, published)


def merged_delays(found: Sequence[PairDelays]) -> PairDelays:
    """The smallest delays over all files."""
    return _smallest(
        *(
            np.concatenate([np.empty(0, dtype=np.int64), *(getattr(each, name) for each in found)])
            for name in ("sender", "receiver", "delay_us", "samples")
        )
    )


def _read(path: Path) -> dict[Column, Numbers]:
    file = open_trace_file(path)
    groups: list[Columns] = [read_group(file, group, path) for group in range(file.num_row_groups)]
    return {column: np.concatenate([group[column] for group in groups]).astype(np.int64) for column in _NEEDED}


def _facts(columns: dict[Column, Numbers]) -> MessageFacts:
    messages, places = np.unique(columns[Column.MESSAGE], return_inverse=True)
    topics = columns[Column.TOPIC]
    topic = np.full(len(messages), _MOST)
    named = topics != NONE
    np.minimum.at(topic, places[named], topics[named])
    publisher, published = (np.full(len(messages), NONE, dtype=np.int64) for _ in range(2))
    rows = np.flatnonzero(columns[Column.EVENT] == TraceEvent.PUBLISH)
    order = order_of(
        [columns[column][rows] for column in (Column.MESSAGE, Column.TIME_US, Column.PEER, Column.TOPIC)]
    )
    rows = rows[order][::-1]  # the earliest comes last and stays
    publisher[places[rows]] = columns[Column.PEER][rows]
    published[places[rows]] = columns[Column.TIME_US][rows]
    told = rows[topics[rows] != NONE]
    topic[places[told]] = topics[told]
    topic[topic == _MOST] = NONE
    return MessageFacts(messages, topic, publisher, published)


def _delays(columns: dict[Column, Numbers]) -> PairDelays:
    events, remotes = columns[Column.EVENT], columns[Column.REMOTE]
    between = (remotes != NONE) & (remotes != columns[Column.PEER])
    sent = between & (events == TraceEvent.SEND_RPC) & (columns[Column.KIND] == PartKind.PUBLISH)
    received = between & np.isin(events, _RECEIPTS)
    ends = (Column.PEER, Column.REMOTE)
    sender, receiver = (
        np.concatenate((columns[ends[side]][sent], columns[ends[1 - side]][received])) for side in (0, 1)
    )
    message, time = (
        np.concatenate((columns[column][sent], columns[column][received]))
        for column in (Column.MESSAGE, Column.TIME_US)
    )
    is_receipt = np.concatenate(
        (np.zeros(int(sent.sum()), dtype=np.int64), np.ones(int(received.sum()), dtype=np.int64))
    )
    if not len(message):
        return PairDelays(message, message, message, message)
    order = order_of([message, sender, receiver, is_receipt, time])
    message, sender, receiver, is_receipt, time = (
        values[order] for values in (message, sender, receiver, is_receipt, time)
    )
    same = np.zeros(len(message), dtype=bool)
    same[1:] = (message[1:] == message[:-1]) & (sender[1:] == sender[:-1]) & (receiver[1:] == receiver[:-1])
    starts = np.flatnonzero(~same)
    firsts = np.flatnonzero(same & (is_receipt == 1) & (np.roll(is_receipt, 1) == 0))
    sends = starts[np.searchsorted(starts, firsts, side="right") - 1]
    return _smallest(sender[firsts], receiver[firsts], time[firsts] - time[sends], np.ones_like(firsts))


def _smallest(sender: Numbers, receiver: Numbers, delay_us: Numbers, samples: Numbers) -> PairDelays:
    if not len(sender):
        return PairDelays(sender, receiver, delay_us, samples)
    order, groups = group_ids([sender, receiver])
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    return PairDelays(
        sender[order][starts],
        receiver[order][starts],
        np.minimum.reduceat(delay_us[order], starts),
        np.add.reduceat(samples[order], starts),
    )
