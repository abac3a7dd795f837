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
_EVENTS = (TraceEvent.SEND_RPC, TraceEvent.DROP_RPC)


def last_parts(run: RunFacts, books: Books) -> Mapping[int, Copy]:
    """By the place of the delivery; of deliveries that no copy of the whole message explains."""
    deliveries = books.deliveries
    whole = set(zip(books.copies.sender.tolist(), books.copies.receiver.tolist(), strict=True))
    ends = list(zip(deliveries.remote.tolist(), deliveries.node.tolist(), strict=True))
    wanted: dict[tuple[int, int], int] = {}
    for place, pair in enumerate(ends):
        if pair[0] != NONE and pair not in whole:
            wanted.setdefault(pair, place)
    if not wanted:
        return {}
    arrived: dict[int, list[Copy]] = {}
    lost: set[tuple[int, int, int]] = set()
    start_us, end_us = books.start_us(), int(deliveries.time_us.max())
    receivers = np.array([receiver for _, receiver in wanted])
    for file in run.files("rpc"):
        if file.min_time_us > end_us or file.max_time_us < start_us:
            continue
        for rows in rows_between(str(run.path / file.name), start_us, end_us, _COLUMNS):
            mine = (rows[Column.KIND] == PartKind.PARTIAL) & (rows[Column.TOPIC] == books.topic)
            mine &= np.isin(rows[Column.EVENT], _EVENTS) & np.isin(rows[Column.REMOTE], receivers)
            columns = (Column.EVENT, Column.PEER, Column.REMOTE, Column.TIME_US, Column.DELAY_US, Column.BYTES)
            for event, sender, receiver, time_us, delay_us, size in zip(
                *(rows[column][mine].tolist() for column in columns), strict=True
            ):
                place = wanted.get((sender, receiver))
                if place is None:
                    continue
                if event == TraceEvent.DROP_RPC:
                    lost.add((sender, receiver, time_us))
                elif delay_us != NONE and time_us + delay_us <= deliveries.time_us[place]:
                    hops = int(deliveries.hops[place])
                    part = Copy(
                        sender, receiver, time_us, time_us + delay_us, Fate.ARRIVED, NONE, hops, size, in_parts=True
                    )
                    arrived.setdefault(place, []).append(part)
    return {place: last for place, parts in arrived.items() if (last := _last(parts, lost)) is not None}


def _last(parts: list[Copy], lost: set[tuple[int, int, int]]) -> Copy | None:
    came = [part for part in parts if (part.sender, part.receiver, part.arrived_us) not in lost]
    return max(came, key=lambda part: (part.arrived_us or 0, part.sent_us or 0), default=None)
