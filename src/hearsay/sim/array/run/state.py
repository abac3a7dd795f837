"""Samples of the state a node keeps: entries and bytes of the guide's table (`Router.state_size`)."""

from __future__ import annotations

from hearsay.core.language.sizes import SIMULATED_PEER_BYTES
from hearsay.sim.array.machine.compiling import kernel, shared
from hearsay.sim.array.rules.mesh import end_slot, first_slot
from hearsay.sim.array.world.knowledge import column, is_cached, was_seen
from hearsay.sim.array.world.layout import (
    CONNECTED,
    FANOUT,
    FIRST_MESSAGE,
    IN_FANOUT,
    IN_MESH,
    JOINED,
    MESSAGE_BYTES,
    NEWEST,
    NODES,
    SUBSCRIBED,
    TOPIC_LENGTH,
    TOPICS,
    UP,
    World,
    flags,
    members,
    messages,
    nodes32,
    topics,
)
from hearsay.sim.array.world.record import row
from hearsay.trace.language import event_rows

state_row = shared(event_rows.state_row)
_PEER = SIMULATED_PEER_BYTES
_SEEN_BYTES = SIMULATED_PEER_BYTES + 8


@kernel
def sample_state(w: World, th: int, now: int) -> None:
    """A row for every node that is up."""
    for node in range(w[NODES]):
        if nodes32(w)[node, UP]:
            _sample(w, th, now, node)


@kernel
def _sample(w: World, th: int, now: int, node: int) -> None:
    count = 0
    size = 0
    for topic in range(w[TOPICS]):
        length = topics(w)[topic, TOPIC_LENGTH]
        if members(w)[node, topic] & JOINED:
            count += 1
            size += length
        for slot in range(first_slot(w, node), end_slot(w, node)):
            flag = flags(w)[slot, topic]
            if flag & SUBSCRIBED:
                count += 1
                size += length
            if flag & IN_MESH:
                count += 1
                size += length + _PEER
            if flag & IN_FANOUT and members(w)[node, topic] & FANOUT:
                count += 1
                size += length + _PEER
    for slot in range(first_slot(w, node), end_slot(w, node)):
        if flags(w)[slot, 0] & CONNECTED:
            count += 1
            size += _PEER
    for message in range(w[FIRST_MESSAGE], w[NEWEST]):
        if was_seen(w, now, node, message):
            count += 1
            size += _SEEN_BYTES
        if is_cached(w, node, column(w, message)):
            count += 1
            size += messages(w)[message, MESSAGE_BYTES]
    row(w, th, state_row(now, node, size, count))
