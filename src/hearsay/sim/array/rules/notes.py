"""The calls of a witness's router, noted so that a real router can repeat them.

A witness is a node that a checked run compares with a real router. Notes are rows with a negative event, before the
rows of the call. A call is one row; if it is an RPC, a row for each part follows, and after the row of a part a row
for each of its ids. In place of ids, a PRUNE has its backoff and the peers that it names, and a partial message has
its content. The row of a partial message has the hops of the message at the sender. The row of a connection has 1 in
place of a message if the node dialled. Only a run with witnesses has notes (`sim/witnesses.py`).
"""

from __future__ import annotations

from typing import Any

from hearsay.core.language.events import EventKind
from hearsay.sim.array.travel.parts import hops_from
from hearsay.sim.array.world.layout import (
    APPLICATION,
    PART_WORDS,
    TOPIC,
    TOPICS,
    World,
    arena,
    members,
    messages,
    words_at,
)
from hearsay.sim.array.world.payload import (
    IDONTWANT,
    IHAVE,
    PART_IDS,
    PARTIAL,
    SUBSCRIBE,
    Part,
    make_part,
    message_part,
    part_at,
    part_place,
    topic_part,
    words_behind,
)
from hearsay.sim.array.world.record import CALL_NOTE, ID_NOTE, PART_NOTE, note, with_checks

STARTED, STOPPED = -1, -2
"""Calls that are no events: the node started with a new router, or went down with its own."""


@with_checks
def note_call(
    w: World, th: int, now: int, node: int, kind: int, remote: int, topic: int, message: int
) -> None:  # fmt: skip
    note(w, th, now, CALL_NOTE, node, remote, make_part(kind, topic, message, -1, -1, -1, -1))


@with_checks
def note_start(w: World, th: int, now: int, node: int) -> None:
    """Note that a node starts, with the topics of its application."""
    note_call(w, th, now, node, STARTED, -1, -1, -1)
    for topic in range(w[TOPICS]):
        if members(w)[node, topic] & APPLICATION:
            note(w, th, now, PART_NOTE, node, -1, topic_part(SUBSCRIBE, topic, -1, 1))


@with_checks
def note_connection(w: World, th: int, now: int, node: int, peer: int, dialled: int) -> None:
    """Note a connection; for routers without a hello, with the topics of the peer."""
    note_call(w, th, now, node, EventKind.PEER_CONNECTED, peer, -1, dialled)
    for topic in range(w[TOPICS]):
        if members(w)[peer, topic] & APPLICATION:
            note(w, th, now, PART_NOTE, node, peer, topic_part(SUBSCRIBE, topic, -1, 1))


@with_checks
def _note_part(w: World, th: int, now: int, node: int, sender: int, part: Part) -> None:
    note_call(w, th, now, node, EventKind.RPC_RECEIVED, sender, -1, -1)
    note(w, th, now, PART_NOTE, node, sender, part)


@with_checks
def _note_id(w: World, th: int, now: int, node: int, message: int) -> None:
    note(w, th, now, ID_NOTE, node, -1, make_part(-1, -1, message, -1, -1, -1, -1))


@with_checks
def note_message(
    w: World, th: int, now: int, node: int, sender: int, message: int, hops: int, via: int
) -> None:  # fmt: skip
    _note_part(w, th, now, node, sender, message_part(w, message, hops, via))


@with_checks
def note_topic_part(w: World, th: int, now: int, node: int, sender: int, topic: int, kind: int) -> None:
    _note_part(w, th, now, node, sender, topic_part(kind, topic, -1, 1))


@with_checks
def note_unwanted(w: World, th: int, now: int, node: int, sender: int, message: int) -> None:
    _note_part(w, th, now, node, sender, topic_part(IDONTWANT, -1, -1, 1))
    _note_id(w, th, now, node, message)


@with_checks
def note_gossip(w: World, th: int, now: int, node: int, sender: int, ids: Any, count: int) -> None:
    """Note one IHAVE with the first `count` of `ids`."""
    _note_part(w, th, now, node, sender, topic_part(IHAVE, messages(w)[ids[0], TOPIC], -1, count))
    for place in range(count):
        _note_id(w, th, now, node, ids[place])


@with_checks
def note_contacts(w: World, th: int, now: int, node: int, topic: int, contacts: Any, count: int) -> None:
    note_call(w, th, now, node, EventKind.CONTACTS_FOUND, -1, topic, -1)
    note(w, th, now, PART_NOTE, node, -1, topic_part(-1, topic, -1, count))
    for place in range(count):
        _note_id(w, th, now, node, contacts[place])


@with_checks
def note_unsent_message(w: World, th: int, now: int, node: int, remote: int, message: int) -> None:
    note_call(w, th, now, node, EventKind.SEND_FAILED, remote, -1, -1)
    note(w, th, now, PART_NOTE, node, remote, message_part(w, message, 1, -1))


@with_checks
def note_rpc(w: World, th: int, now: int, node: int, kind: int, remote: int, rpc: int) -> None:
    """Note an RPC in the arena: received, or one that could not be sent."""
    note_call(w, th, now, node, kind, remote, -1, -1)
    for index in range(arena(w)[rpc]):
        part = part_at(w, rpc, index)
        if w[PART_WORDS] and part.kind >= PARTIAL:
            hops = hops_from(w, remote, arena(w)[rpc + words_at(w, part_place(rpc, index))[PART_IDS] + 1]) - 1
            part = make_part(part.kind, part.topic, -1, hops, -1, 1, -1)
        note(w, th, now, PART_NOTE, node, remote, part)
        ids = words_at(w, part_place(rpc, index))[PART_IDS]
        if ids:
            for place in range(words_behind(w, rpc, index)):
                _note_id(w, th, now, node, arena(w)[rpc + ids + place])
