"""What is handed to a witness: each call of its router, written down so that a real router can be given the same.

Notes stand among the rows, before those of the call, and are told from them by their event, which is negative. A call
is one line; an RPC has a line for each part after it, and a part a line for each of its ids. Only a run with
witnesses has any (`bench/witness_replay.py`).
"""

from __future__ import annotations

from typing import Any

from hearsay.core.language.events import EventKind
from hearsay.sim.array.machine.compiling import kernel
from hearsay.sim.array.world.layout import TOPIC, World, arena, messages, words_at
from hearsay.sim.array.world.payload import (
    IHAVE,
    PART_COUNT,
    PART_HOPS,
    PART_IDS,
    PART_KIND,
    PART_MESSAGE,
    PART_TOPIC,
    PART_VIA,
    PRUNE,
    PUBLISH,
    part_place,
)
from hearsay.sim.array.world.record import CALL_NOTE, ID_NOTE, PART_NOTE, note

STARTED, STOPPED = -1, -2
"""Calls beside those of events: the node came up with a new router, or went down with its own."""


@kernel
def note_call(
    w: World, th: int, now: int, node: int, kind: int, remote: int, topic: int, message: int
) -> None:  # fmt: skip
    note(w, th, now, CALL_NOTE, kind, node, remote, topic, message, -1, -1, -1)


@kernel
def note_message(
    w: World, th: int, now: int, node: int, sender: int, message: int, hops: int, via: int
) -> None:  # fmt: skip
    note_call(w, th, now, node, EventKind.RPC_RECEIVED, sender, -1, -1)
    note(w, th, now, PART_NOTE, PUBLISH, node, sender, messages(w)[message, TOPIC], message, hops, 1, via)


@kernel
def note_topic_part(w: World, th: int, now: int, node: int, sender: int, topic: int, kind: int) -> None:
    note_call(w, th, now, node, EventKind.RPC_RECEIVED, sender, -1, -1)
    note(w, th, now, PART_NOTE, kind, node, sender, topic, -1, -1, 1, -1)


@kernel
def note_gossip(w: World, th: int, now: int, node: int, sender: int, ids: Any, count: int) -> None:
    """One IHAVE, whose ids are the first ones of `ids`."""
    note_call(w, th, now, node, EventKind.RPC_RECEIVED, sender, -1, -1)
    note(w, th, now, PART_NOTE, IHAVE, node, sender, messages(w)[ids[0], TOPIC], -1, -1, count, -1)
    for place in range(count):
        note(w, th, now, ID_NOTE, -1, node, -1, -1, ids[place], -1, -1, -1)


@kernel
def note_rpc(w: World, th: int, now: int, node: int, kind: int, remote: int, rpc: int) -> None:
    """An RPC that lies in the arena: received, or one that did not leave."""
    note_call(w, th, now, node, kind, remote, -1, -1)
    for index in range(arena(w)[rpc]):
        part = words_at(w, part_place(rpc, index))
        said = part[PART_KIND]
        note(
            w, th, now, PART_NOTE, said, node, remote, part[PART_TOPIC], part[PART_MESSAGE], part[PART_HOPS],
            part[PART_COUNT], part[PART_VIA],
        )  # fmt: skip
        if part[PART_IDS]:
            for place in range(1 if said == PRUNE else part[PART_COUNT]):
                note(w, th, now, ID_NOTE, -1, node, -1, -1, arena(w)[rpc + part[PART_IDS] + place], -1, -1, -1)
