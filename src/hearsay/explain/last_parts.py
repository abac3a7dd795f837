"""The part that made a message whole at a node, where messages go in parts: its row names no message.

A delivery names the peer whose part came last. In a simulation that part arrived at the time of the delivery, or
before it where nodes have service times; it is the last of that peer that had arrived by then.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hearsay.core.language.rpc import PartKind
from hearsay.explain.books import Books, Copy, Fate
from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.pipeline.kernels.columns import rows_between
from hearsay.trace.language.schema import NONE, Column, TraceEvent

_COLUMNS = (
    Column.TIME_US, Column.EVENT, Column.KIND, Column.PEER, Column.REMOTE, Column.TOPIC, Column.BYTES,
    Column.DELAY_US,
)  # fmt: skip


def last_parts(run: RunFacts, books: Books) -> Mapping[int, Copy]:
    """By the place of the delivery; of deliveries that no copy of the whole message explains."""
    deliveries = books.deliveries
    whole = set(zip(books.copies.sender.tolist(), books.copies.receiver.tolist(), strict=True))
    ends = list(zip(deliveries.remote.tolist(), deliveries.node.tolist(), strict=True))
    wanted: dict[tuple[int, int], int] = {}
    for place, pair in enumerate(ends):
        if pair[0] != NONE and pair not in whole:
            wanted.setdefault(pair, place)
    found: dict[int, Copy] = {}
    if not wanted:
        return found
    start_us, end_us = books.start_us(), int(deliveries.time_us.max())
    receivers = np.array([receiver for _, receiver in wanted])
    for file in run.files("rpc"):
        if file.min_time_us > end_us or file.max_time_us < start_us:
            continue
        for rows in rows_between(str(run.path / file.name), start_us, end_us, _COLUMNS):
            mine = (rows[Column.EVENT] == TraceEvent.SEND_RPC) & (rows[Column.KIND] == PartKind.PARTIAL)
            mine &= (rows[Column.TOPIC] == books.topic) & (rows[Column.DELAY_US] != NONE)
            mine &= np.isin(rows[Column.REMOTE], receivers)
            columns = (Column.PEER, Column.REMOTE, Column.TIME_US, Column.DELAY_US, Column.BYTES)
            for sender, receiver, sent_us, delay_us, size in zip(
                *(rows[column][mine].tolist() for column in columns), strict=True
            ):
                place = wanted.get((sender, receiver))
                if place is None or sent_us + delay_us > deliveries.time_us[place]:
                    continue
                before = found.get(place)
                if before is None or (before.arrived_us or 0) <= sent_us + delay_us:
                    hops = int(deliveries.hops[place])
                    found[place] = Copy(
                        sender, receiver, sent_us, sent_us + delay_us, Fate.ARRIVED, NONE, hops, size, in_parts=True
                    )
    return found
