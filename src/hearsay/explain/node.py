"""One node: the path of its first copy, and the outcome of every copy to it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from hearsay.core.language.rpc import PartKind
from hearsay.explain import causes
from hearsay.explain.causes import Cause
from hearsay.explain.copies import Copy, Fate
from hearsay.explain.message import Message
from hearsay.explain.path import Path, path_to
from hearsay.explain.requests import ON_REQUEST, Requests
from hearsay.explain.rows import PairEvents, select_rows
from hearsay.pipeline.input.run_facts import RunFacts
from hearsay.trace.language.schema import NONE, Column, TraceEvent

FIRST = Cause("the first copy", None)
DUPLICATE = Cause("a duplicate", None)
UNKNOWN = Cause("arrived; the trace does not show what the node did with it", None)
_DROP_DELAY_US = 100_000
"""Longest time between a receive and its drop at a real node."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A copy with its outcome."""

    copy: Copy
    outcome: Cause

    @property
    def is_first(self) -> bool:
        return self.outcome is FIRST

    @property
    def failed(self) -> bool:
        """Return whether the copy was lost, rejected or never sent."""
        return self.outcome not in (FIRST, DUPLICATE, UNKNOWN)


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """Why a node got the message when it did."""

    node: int
    path: Path
    copies: tuple[Sent, ...]
    """All copies to the node, also those that were not sent, in order of time."""
    deliveries: int
    """Number of deliveries; more than one if the node forgot the message in between."""
    joined_us: int | None
    """When the node joined the topic, if that was after the publication and before the delivery."""


def explain_node(message: Message, node: int) -> NodeAnswer | None:
    """Explain a delivery; return None if the node never got the message."""
    history = message.history
    there = history.deliveries.of(node)
    if not there:
        return None
    (path,) = requested_paths(message, [there.start])
    there_copies = history.copies.arrived_us[history.copies.to(node)]
    unread = unread_rpcs(message.run, [node], history.start_us(), int(there_copies.max(initial=0)))
    first = path.hops[-1].copy if path.hops else None
    copies = sent_to(message, node, unread, first, path.delivered_us)
    return NodeAnswer(node, path, copies, len(there), _joined_us(message, node, path.delivered_us))


def _joined_us(message: Message, node: int, delivered_us: int) -> int | None:
    members = message.members
    since = members.since_us[(members.node == node) & (members.since_us <= delivered_us)]
    joined_us = int(since.max()) if len(since) else None
    return joined_us if joined_us is not None and joined_us > message.history.start_us() else None


def requested_paths(message: Message, places: Sequence[int]) -> list[Path]:
    """Return the paths of deliveries, with the requests for copies that were sent on request."""
    history = message.history
    paths = [path_to(history, place, message.model) for place in places]
    pairs = {(hop.sender, hop.receiver) for path in paths for hop in path.hops if is_on_request(hop.copy)}
    if not pairs:
        return paths
    until_us = max(path.delivered_us for path in paths)
    requests = Requests(message.run, pairs, message.members, history.start_us(), until_us)
    return [path_to(history, place, message.model, requests) for place in places]


def is_on_request(copy: Copy | None) -> bool:
    return copy is not None and copy.via in ON_REQUEST


def unread_rpcs(run: RunFacts, nodes: Collection[int], from_us: int, until_us: int) -> PairEvents:
    """Return the reasons of nodes to drop RPCs unread, by node and sender: these were graylisted or gated.

    Such a row has no message. It belongs to the copy that came from the same sender at the same time. Real nodes read
    their clock twice, so a slightly later drop counts too.
    """
    columns = (Column.PEER, Column.REMOTE, Column.TIME_US, Column.REASON)
    wanted = list(nodes)
    rows = select_rows(
        run, "message", (*columns, Column.EVENT, Column.KIND, Column.MESSAGE),
        lambda rows: (rows[Column.EVENT] == TraceEvent.REJECT) & (rows[Column.KIND] == PartKind.PUBLISH)
        & np.isin(rows[Column.PEER], wanted),
        from_us, until_us + _DROP_DELAY_US, message=NONE,
    )  # fmt: skip
    return PairEvents.sorted(*(rows[column] for column in columns))


def sent_to(
    message: Message, node: int, unread: PairEvents, first: Copy | None = None, delivered_us: int | None = None
) -> tuple[Sent, ...]:
    """Return all copies to a node with their outcomes. `first` is the copy that it delivered."""
    copies = message.history.copies
    there = copies.to(node)
    had_us = delivered_us if first is None or first.arrived_us is None else first.arrived_us
    sent = (copies.at(place) for place in range(there.start, there.stop))
    return tuple(Sent(copy, FIRST if copy == first else _outcome(message, copy, had_us, unread)) for copy in sent)


def _outcome(message: Message, copy: Copy, had_us: int | None, unread: PairEvents) -> Cause:
    if copy.fate is not Fate.ARRIVED or copy.arrived_us is None:
        return causes.OF_FATE[copy.fate]
    rejects, model = message.history.rejects, message.model
    there = rejects.between(copy.receiver, copy.sender)
    after_us = rejects.time_us[there] - copy.arrived_us
    fits = after_us >= 0
    if model is not None and not model.service_us:
        fits = np.isin(after_us, (0, model.validation_us))
    refused = rejects.value[there][fits]
    if not len(refused):
        there = unread.between(copy.receiver, copy.sender)
        after_us = unread.time_us[there] - copy.arrived_us
        longest_us = 0 if message.run.simulated else _DROP_DELAY_US
        refused = unread.value[there][(after_us >= 0) & (after_us <= longest_us)]
    if len(refused):
        return causes.of_reason(int(refused[0]))
    return DUPLICATE if had_us is not None and copy.arrived_us >= had_us else UNKNOWN
