"""Functions that make the rows of frequent events. Written by `tools/row_functions.py`, not by hand.

They are made from `schema.FORMS`, run by recorders and compiled for kernels, so that an event has the same columns
wherever it is written. `schema.py` makes the rows of all other events.
"""

from __future__ import annotations

from typing import TypeAlias

Codes: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
"""A row's 13 integers, in the order of `schema.Column`."""
Part: TypeAlias = tuple[int, int, int, int, int, int, int]
"""A part of an RPC: kind, topic, message, hops, bytes, count, via."""


def publish_row(time_us: int, peer: int, topic: int, message: int, hops: int, size: int) -> Codes:
    return time_us, 0, -1, peer, -1, topic, message, hops, size, -1, -1, -1, -1


def deliver_row(time_us: int, peer: int, remote: int, topic: int, message: int, hops: int, via: int) -> Codes:
    return time_us, 1, -1, peer, remote, topic, message, hops, -1, -1, via, -1, -1


def duplicate_row(time_us: int, peer: int, remote: int, topic: int, message: int, hops: int, via: int) -> Codes:
    return time_us, 2, -1, peer, remote, topic, message, hops, -1, -1, via, -1, -1


def reject_row(
    time_us: int, kind: int, peer: int, remote: int, topic: int, message: int, count: int, reason: int
) -> Codes:
    return time_us, 3, kind, peer, remote, topic, message, -1, -1, count, -1, -1, reason


def add_peer_row(time_us: int, peer: int, remote: int) -> Codes:
    return time_us, 4, -1, peer, remote, -1, -1, -1, -1, -1, -1, -1, -1


def remove_peer_row(time_us: int, peer: int, remote: int) -> Codes:
    return time_us, 5, -1, peer, remote, -1, -1, -1, -1, -1, -1, -1, -1


def recv_rpc_row(time_us: int, peer: int, remote: int, part: Part) -> Codes:
    kind, topic, message, hops, size, count, via = part
    return time_us, 6, kind, peer, remote, topic, message, hops, size, count, via, -1, -1


def send_rpc_row(time_us: int, peer: int, remote: int, part: Part, delay_us: int) -> Codes:
    kind, topic, message, hops, size, count, via = part
    return time_us, 7, kind, peer, remote, topic, message, hops, size, count, via, delay_us, -1


def drop_rpc_row(time_us: int, peer: int, remote: int, part: Part, reason: int) -> Codes:
    kind, topic, message, hops, size, count, via = part
    return time_us, 8, kind, peer, remote, topic, message, hops, size, count, via, -1, reason


def join_row(time_us: int, peer: int, topic: int) -> Codes:
    return time_us, 9, -1, peer, -1, topic, -1, -1, -1, -1, -1, -1, -1


def leave_row(time_us: int, peer: int, topic: int) -> Codes:
    return time_us, 10, -1, peer, -1, topic, -1, -1, -1, -1, -1, -1, -1


def graft_row(time_us: int, peer: int, remote: int, topic: int) -> Codes:
    return time_us, 11, -1, peer, remote, topic, -1, -1, -1, -1, -1, -1, -1


def prune_row(time_us: int, peer: int, remote: int, topic: int) -> Codes:
    return time_us, 12, -1, peer, remote, topic, -1, -1, -1, -1, -1, -1, -1


def node_up_row(time_us: int, peer: int) -> Codes:
    return time_us, 13, -1, peer, -1, -1, -1, -1, -1, -1, -1, -1, -1


def node_down_row(time_us: int, peer: int, reason: int) -> Codes:
    return time_us, 14, -1, peer, -1, -1, -1, -1, -1, -1, -1, -1, reason


def state_row(time_us: int, peer: int, size: int, count: int) -> Codes:
    return time_us, 15, -1, peer, -1, -1, -1, -1, size, count, -1, -1, -1


def neighbor_up_row(time_us: int, peer: int, remote: int, topic: int) -> Codes:
    return time_us, 16, -1, peer, remote, topic, -1, -1, -1, -1, -1, -1, -1


def neighbor_down_row(time_us: int, peer: int, remote: int, topic: int) -> Codes:
    return time_us, 17, -1, peer, remote, topic, -1, -1, -1, -1, -1, -1, -1


def passive_add_row(time_us: int, peer: int, remote: int, topic: int) -> Codes:
    return time_us, 18, -1, peer, remote, topic, -1, -1, -1, -1, -1, -1, -1


def passive_remove_row(time_us: int, peer: int, remote: int, topic: int) -> Codes:
    return time_us, 19, -1, peer, remote, topic, -1, -1, -1, -1, -1, -1, -1


def eager_row(time_us: int, peer: int, remote: int, topic: int) -> Codes:
    return time_us, 20, -1, peer, remote, topic, -1, -1, -1, -1, -1, -1, -1


def lazy_row(time_us: int, peer: int, remote: int, topic: int) -> Codes:
    return time_us, 21, -1, peer, remote, topic, -1, -1, -1, -1, -1, -1, -1


def dial_row(time_us: int, peer: int, remote: int, topic: int) -> Codes:
    return time_us, 33, -1, peer, remote, topic, -1, -1, -1, -1, -1, -1, -1
