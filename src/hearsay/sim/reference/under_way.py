"""What is still under way when a run ends: who watched it may not blame routers for what they have not heard yet."""

from __future__ import annotations

from collections.abc import Iterable

from hearsay.core.language.events import EventKind
from hearsay.sim.reference.event_queue import Entry

_NEWS_OF_CONNECTIONS = (EventKind.SEND_FAILED, EventKind.PEER_DISCONNECTED, EventKind.PEER_CONNECTED)


def control_under_way(waiting: Iterable[Entry]) -> set[tuple[int, int]]:
    """Pairs of sender and receiver with a GRAFT or PRUNE between them, or that wait to be handled."""
    pairs: set[tuple[int, int]] = set()
    for _, node, kind, source, _, _, event, _ in waiting:
        if kind == EventKind.RPC_RECEIVED:
            control = event.rpc.control
            if control is not None and (control.graft or control.prune):
                pairs.add((source, node))
        elif kind == EventKind.SEND_FAILED:
            pairs.add((node, source))
    return pairs


def episub_under_way(waiting: Iterable[Entry]) -> set[tuple[int, int]]:
    """Pairs of sender and receiver with a part of episub's, or news of a connection, between them."""
    pairs: set[tuple[int, int]] = set()
    for _, node, kind, source, _, _, event, _ in waiting:
        if kind == EventKind.RPC_RECEIVED:
            control = event.rpc.control
            if control is not None and control.episub:
                pairs.add((source, node))
        elif kind in _NEWS_OF_CONNECTIONS:
            pairs.add((node, source))
    return pairs
