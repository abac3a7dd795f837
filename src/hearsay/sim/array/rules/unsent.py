"""What did not leave, and is said again, as it stands then (`core.shell`, `core.mesh.mesh`).

Layout: a bit of a slot's flags for the topic, UNANNOUNCED or UNSENT; the node's header has the bits that any slot
has.
"""

from __future__ import annotations

from hearsay.core.language.events import EventKind
from hearsay.sim.array.machine.compiling import kernel
from hearsay.sim.array.rules.mesh import end_slot, first_slot, has_mesh, say_link
from hearsay.sim.array.travel.outbox import is_addressed, put_subscription
from hearsay.sim.array.world.layout import (
    ANNOUNCE_AGAIN,
    JOINED,
    OWED,
    STARTS,
    TOPICS,
    UNANNOUNCED,
    UNSENT,
    WAITS_TO_ANNOUNCE,
    World,
    arena,
    flags,
    members,
    nodes32,
    words_at,
)
from hearsay.sim.array.world.neighbours import parameter
from hearsay.sim.array.world.payload import (
    GRAFT,
    PART_KIND,
    PART_TOPIC,
    PRUNE,
    SUBSCRIBE,
    UNSUBSCRIBE,
    part_place,
)
from hearsay.sim.array.world.queue import push

_TIMER = int(EventKind.TIMER_FIRED)
SAID_AGAIN = UNANNOUNCED | UNSENT


@kernel
def note_unsent(w: World, th: int, now: int, node: int, slot: int, rpc: int) -> None:
    """An RPC did not leave: subscriptions and mesh links will be said again, messages and gossip are lost."""
    owed = 0
    for index in range(arena(w)[rpc]):
        part = words_at(w, part_place(rpc, index))
        kind = part[PART_KIND]
        bit = 0
        if kind == SUBSCRIBE or kind == UNSUBSCRIBE:
            bit = UNANNOUNCED
        elif (kind == GRAFT or kind == PRUNE) and has_mesh(w, node):
            bit = UNSENT
        if bit:
            flags(w)[slot, part[PART_TOPIC]] |= bit
            owed |= bit
    nodes32(w)[node, OWED] |= owed
    if owed & UNANNOUNCED:
        _wait_to_announce(w, th, now, node)


@kernel
def _wait_to_announce(w: World, th: int, now: int, node: int) -> None:
    """Until the next heartbeat, or, in a router that has none, for a timer."""
    header = nodes32(w)[node]
    if not has_mesh(w, node) and not header[OWED] & WAITS_TO_ANNOUNCE:
        header[OWED] |= WAITS_TO_ANNOUNCE
        push(w, th, now + parameter(w, node, ANNOUNCE_AGAIN), node, _TIMER, -1, header[STARTS], 0, -1, 0)


@kernel
def say_again(w: World, th: int, now: int, node: int, to_all: bool) -> None:
    """How it stands now, to all to whom it was not said, or to those of them who get mail anyway.

    Rules: SHELL-5, MESH-4.
    """
    table = flags(w)
    left = 0
    for slot in range(first_slot(w, node), end_slot(w, node)):
        owed = 0
        for topic in range(w[TOPICS]):
            owed |= table[slot, topic] & SAID_AGAIN
        if not owed:
            continue
        if not to_all and not is_addressed(w, th, slot):
            left |= owed
            continue
        for topic in range(w[TOPICS]):
            flag = table[slot, topic]
            table[slot, topic] = flag & ~SAID_AGAIN
            if flag & UNANNOUNCED:
                put_subscription(w, th, slot, topic, members(w)[node, topic] & JOINED != 0)
            if flag & UNSENT:
                say_link(w, th, now, node, slot, topic)
    nodes32(w)[node, OWED] = nodes32(w)[node, OWED] & ~SAID_AGAIN | left
