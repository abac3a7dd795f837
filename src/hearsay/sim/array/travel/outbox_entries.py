"""The outbox's entries, a line per part: slot, key, value, place of the ids.

The key is class, topic and message, so that sorting by slot and key is the order in which parts stand in RPCs.
"""

from __future__ import annotations

from typing import Any

from hearsay.sim.array.machine.compiling import kernel
from hearsay.sim.array.world.payload import (
    CONTROL,
    IHAVE,
    IWANT,
    MESH_CONTROL,
)

SLOT, KEY, VALUE, IDS = range(4)
CLASS_SHIFT, TOPIC_SHIFT = 58, 29
ID_MASK = (1 << 29) - 1
SUBSCRIPTION_CLASS, MESSAGE_CLASS = range(2)
IHAVE_CLASS, IWANT_CLASS, MESH_CLASS = (2 + CONTROL.index(kind) for kind in (IHAVE, IWANT, MESH_CONTROL[0]))


@kernel
def sort_entries(entries: Any, count: int) -> None:
    """By slot and key, stable: runs of a few by insertion, then merged with the room behind the entries."""
    run = 16
    for start in range(0, count, run):
        _sort_run(entries, start, min(start + run, count))
    while run < count:
        for start in range(0, count, 2 * run):
            middle = min(start + run, count)
            _merge(entries, start, middle, min(middle + run, count), count)
        run *= 2


@kernel
def _is_after(entries: Any, a: int, b: int) -> bool:
    if entries[a, SLOT] != entries[b, SLOT]:
        return entries[a, SLOT] > entries[b, SLOT]
    return entries[a, KEY] > entries[b, KEY]


@kernel
def _merge(entries: Any, start: int, middle: int, end: int, spare: int) -> None:
    if middle >= end or not _is_after(entries, middle - 1, middle):
        return
    for place in range(start, end):
        for field in range(4):
            entries[spare + place, field] = entries[place, field]
    left = spare + start
    right = spare + middle
    for place in range(start, end):
        if right >= spare + end or (left < spare + middle and not _is_after(entries, left, right)):
            taken = left
            left += 1
        else:
            taken = right
            right += 1
        for field in range(4):
            entries[place, field] = entries[taken, field]


@kernel
def _sort_run(entries: Any, start: int, end: int) -> None:
    for place in range(start + 1, end):
        slot, key, value, ids = entries[place, 0], entries[place, 1], entries[place, 2], entries[place, 3]
        at = place
        while at > start and (
            entries[at - 1, SLOT] > slot or (entries[at - 1, SLOT] == slot and entries[at - 1, KEY] > key)
        ):
            for field in range(4):
                entries[at, field] = entries[at - 1, field]
            at -= 1
        entries[at, 0] = slot
        entries[at, 1] = key
        entries[at, 2] = value
        entries[at, 3] = ids
