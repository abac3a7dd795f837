"""Alarms that are due, by time, task and topic (`core.episub.agenda.Agenda.ringing`)."""

from __future__ import annotations

from hearsay.sim.array.episub.alarms import NEVER, has_overlay, with_episub, with_overlay
from hearsay.sim.array.episub.overlay import ring_overlay, sweep
from hearsay.sim.array.episub.upkeep import flush_all, touch_all
from hearsay.sim.array.world.layout import (
    CONTACTS_DUE,
    EXPIRE_DUE,
    FLUSH_DUE,
    MISSING_DUE,
    SWEEP_DUE,
    TOPICS,
    World,
    alarms,
    meetings,
    overlays,
    topic_keys,
)

_MISSING, _FLUSH, _SWEEP, _NOTHING = 5, 6, 7, 8
"""Tasks of the node. Their numbers, those of `core.episub.agenda.Task`, follow those of topics."""


@with_episub
def ring(w: World, th: int, now: int, node: int) -> None:
    """Handle the alarms of a node that are due, ordered by time, then by task."""
    line = alarms(w)[node]
    while True:
        task = _NOTHING
        due = now + 1
        if line[MISSING_DUE] != NEVER and line[MISSING_DUE] < due:
            task = _MISSING
            due = line[MISSING_DUE]
        if line[FLUSH_DUE] != NEVER and line[FLUSH_DUE] < due:
            task = _FLUSH
            due = line[FLUSH_DUE]
        if has_overlay(w, node):
            if meetings(w)[node, SWEEP_DUE] != NEVER and meetings(w)[node, SWEEP_DUE] < due:
                task = _SWEEP
                due = meetings(w)[node, SWEEP_DUE]
            topic = _topic_to_ring(w, node, min(due, now))
            if topic >= 0:
                ring_overlay(w, th, now, node, topic, _first_alarm(w, node, topic))
                continue
        if task == _NOTHING:
            return
        if task == _MISSING:
            touch_all(w, th, now, node)
        elif task == _FLUSH:
            flush_all(w, th, now, node)
        else:
            sweep(w, th, now, node)


@with_overlay
def _first_alarm(w: World, node: int, topic: int) -> int:
    """Return the alarm of a topic that rings first, -1 if none is set."""
    line = overlays(w)[node, topic]
    first = -1
    for alarm in range(EXPIRE_DUE, CONTACTS_DUE + 1):
        if line[alarm] != NEVER and (first < 0 or line[alarm] < line[first]):
            first = alarm
    return first


@with_overlay
def _topic_to_ring(w: World, node: int, due: int) -> int:
    """Return the topic with the first alarm, by time, task and key of the topic; -1 if none is due by `due`."""
    found = -1
    best = -1
    for topic in range(w[TOPICS]):
        alarm = _first_alarm(w, node, topic)
        if alarm < 0 or overlays(w)[node, topic, alarm] > due:
            continue
        if found >= 0:
            time = overlays(w)[node, topic, alarm]
            other = overlays(w)[node, found, best]
            if time > other or (time == other and alarm > best):
                continue
            if time == other and alarm == best and topic_keys(w)[topic] > topic_keys(w)[found]:
                continue
        found = topic
        best = alarm
    return found
