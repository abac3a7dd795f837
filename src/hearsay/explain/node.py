"""One node: the path of its first copy, and the outcome of every copy to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hearsay.explain import causes
from hearsay.explain.causes import Cause
from hearsay.explain.copies import Copy, Fate
from hearsay.explain.message import Message
from hearsay.explain.path import Path, path_to
from hearsay.explain.requests import ON_REQUEST, requests_between
from hearsay.explain.trace_rows import RefusedRpcs

FIRST = Cause("the first copy", None)
DUPLICATE = Cause("a duplicate", None)
UNKNOWN = Cause("arrived; the trace does not show what the node did with it", None)


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
    copies = message.history.copies.to(node)
    sent = [history.copies.at(place) for place in range(copies.start, copies.stop)]
    last_us = max((copy.arrived_us or 0 for copy in sent), default=0)
    unread = RefusedRpcs(message.run, [node], history.start_us(), last_us)
    first = path.hops[-1].copy if path.hops else None
    found = tuple(outcomes(message, sent, first, path.delivered_us, unread))
    return NodeAnswer(node, path, found, len(there), _joined_us(message, node, path.delivered_us))


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
    requests = requests_between(message.run, pairs, message.members, history.start_us(), until_us)
    return [path_to(history, place, message.model, requests) for place in places]


def is_on_request(copy: Copy | None) -> bool:
    return copy is not None and copy.via in ON_REQUEST


def outcomes(
    message: Message, sent: list[Copy], first: Copy | None, delivered_us: int | None, unread: RefusedRpcs
) -> list[Sent]:
    """Return the outcome of each copy to a node. `first` is the copy that it delivered."""
    return [Sent(copy, _outcome(message, copy, first, delivered_us, unread)) for copy in sent]


def _outcome(
    message: Message, copy: Copy, first: Copy | None, delivered_us: int | None, unread: RefusedRpcs
) -> Cause:
    if copy == first:
        return FIRST
    if copy.fate is not Fate.ARRIVED:
        return causes.of_fate(copy.fate)
    refusal = _refusal(message, copy)
    if refusal is not None:
        return causes.of_reason(refusal)
    dropped_unread = unread.reason_of(copy)
    if dropped_unread is not None:
        return causes.of_reason(dropped_unread)
    begun_us = None if first is None else first.arrived_us
    had_us = begun_us if begun_us is not None else delivered_us
    return DUPLICATE if had_us is not None and copy.arrived_us is not None and copy.arrived_us >= had_us else UNKNOWN


def _refusal(message: Message, copy: Copy) -> int | None:
    """Return the reason in the row that rejects this copy; None without one."""
    rejects = message.history.rejects
    there = rejects.of(copy.receiver)
    times, remotes = rejects.time_us[there.start : there.stop], rejects.remote[there.start : there.stop]
    if copy.arrived_us is None or not len(times):
        return None
    mine = remotes == copy.sender
    if message.model is not None and not message.model.service_us:
        found = np.flatnonzero(
            mine & np.isin(times, (copy.arrived_us, copy.arrived_us + message.model.validation_us))
        )
    else:
        found = np.flatnonzero(mine & (times >= copy.arrived_us))
    return int(rejects.reason[there.start + int(found[0])]) if len(found) else None
