"""Received parts about the overlay of a topic, each passed to the kernel for its kind (`core.episub.membership`)."""

from __future__ import annotations

from hearsay.core.language.actions import Reason
from hearsay.sim.array.episub import growth
from hearsay.sim.array.episub.alarms import has_overlay
from hearsay.sim.array.episub.joining import join_accepted, on_forward_join, on_get_nodes, on_join, on_nodes
from hearsay.sim.array.episub.links import drop_link, is_hyparview, on_neighbor, request_fails
from hearsay.sim.array.episub.overlay_parts import (
    DISCONNECT,
    FORWARDJOIN,
    GETNODES,
    GETTOPICS,
    JOIN,
    LEAVE,
    NEIGHBOR,
    NODES,
    REPLY,
    SHUFFLE,
    SHUFFLEREPLY,
    TOPICS_PART,
    begin_part,
    bounded,
    number,
    peer_at,
    send_numbers,
    send_part,
    write_peer,
)
from hearsay.sim.array.episub.shuffles import on_shuffle, on_shuffle_reply, on_topics, probe
from hearsay.sim.array.episub.tables import NONE, with_overlay
from hearsay.sim.array.episub.views import is_active, neighbours, random_links, remove_passive
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.layout import (
    ACTIVE_COUNT,
    JOINED,
    LEAVE_TTL,
    LEAVES,
    LEAVES_COUNT,
    SIZE_ACTIVE,
    SIZE_RANDOM,
    SUBSCRIBED,
    TOPICS,
    World,
    candidates,
    flags,
    members,
    overlays,
    peers,
    pool,
    words_at,
)
from hearsay.sim.array.world.lists import FIRST, NEXT, SECOND
from hearsay.sim.array.world.payload import PART_IDS, PART_KIND, PART_TOPIC
from hearsay.sim.array.world.record import ignored
from hearsay.sim.array.world.slots import is_in, parameter

_LEAVES_REMEMBERED = 1024


@with_overlay
def on_overlay_part(w: World, th: int, now: int, node: int, slot: int, rpc: int, part_at: int) -> None:
    """Handle a part about the overlay; `part_at` is its index in the arena."""
    part = words_at(w, part_at)
    kind = part[PART_KIND]
    topic = part[PART_TOPIC]
    at = rpc + part[PART_IDS]
    sender = peers(w)[slot]
    if kind == GETTOPICS:
        start = begin_part(w, th)
        for joined in range(w[TOPICS]):
            if members(w)[node, joined] & JOINED:
                write_peer(w, th, start, joined)
        send_part(w, th, node, sender, TOPICS_PART, 0, start)
    elif kind == TOPICS_PART:
        for joined in range(w[TOPICS]):
            if members(w)[node, joined] & JOINED and has_overlay(w, node):
                on_topics(w, th, now, node, joined, sender, at)
    elif not has_overlay(w, node) or not is_in(w, node, topic):
        ignored(w, th, now, node, sender, kind, 1, Reason.NOT_SUBSCRIBED)
    elif not flags(w)[slot, topic] & SUBSCRIBED and kind != LEAVE and kind != DISCONNECT:
        ignored(w, th, now, node, sender, kind, 1, Reason.NOT_A_SUBSCRIBER)
    elif kind == GETNODES:
        on_get_nodes(w, th, now, node, topic, sender)
    elif kind == NODES:
        on_nodes(w, th, now, node, topic, sender, at)
        _measure_the_nearest(w, th, now, node, topic)
    elif kind == JOIN:
        on_join(w, th, now, node, topic, sender, at)
    elif kind == FORWARDJOIN:
        on_forward_join(w, th, now, node, topic, sender, at)
    elif kind == NEIGHBOR:
        if on_neighbor(w, th, now, node, topic, sender, at):
            join_accepted(w, node, topic)
        if number(w, at, 0) == REPLY:
            growth.on_reply(w, th, now, node, topic, sender, at)
    elif kind == DISCONNECT:
        _on_disconnect(w, th, now, node, topic, sender, number(w, at, 0) != 0)
    elif kind == LEAVE:
        _on_leave(w, th, now, node, topic, sender, at)
    elif kind == SHUFFLE:
        on_shuffle(w, th, now, node, topic, sender, at, rpc)
    elif kind == SHUFFLEREPLY:
        on_shuffle_reply(w, th, now, node, topic, at)


@with_overlay
def _measure_the_nearest(w: World, th: int, now: int, node: int, topic: int) -> None:
    line = overlays(w)[node, topic]
    if line[ACTIVE_COUNT] < line[SIZE_ACTIVE] and not is_hyparview(w, node):
        probe(w, th, now, node, topic, 2 * (line[SIZE_ACTIVE] - line[SIZE_RANDOM]))


@with_overlay
def _on_disconnect(w: World, th: int, now: int, node: int, topic: int, sender: int, refused: bool) -> None:
    if refused:
        if request_fails(w, th, now, node, topic, sender, False):
            growth.refused(w, th, now, node, topic, sender)
    elif is_active(w, node, topic, sender):
        drop_link(w, th, now, node, topic, sender, True)
        _after_a_loss(w, th, now, node, topic)


@with_overlay
def _after_a_loss(w: World, th: int, now: int, node: int, topic: int) -> None:
    """Look for a new neighbour at once if random links are missing; else the next round of upkeep does."""
    if is_hyparview(w, node) or random_links(w, node, topic) < overlays(w)[node, topic, SIZE_RANDOM]:
        growth.grow(w, th, now, node, topic)


@with_overlay
def _on_leave(w: World, th: int, now: int, node: int, topic: int, sender: int, at: int) -> None:
    """Handle a LEAVE: forget its source, and pass it on. Only a LEAVE sent by its source itself also ends a link."""
    source = peer_at(w, at, LEAVE, 0)
    sequence = number(w, at, 1)
    if source == node or _is_known_leave(w, node, topic, source, sequence):
        return
    _note_leave(w, node, topic, source, sequence)
    removed = remove_passive(w, th, now, node, topic, source)
    if sender == source:
        removed = True
        if is_active(w, node, topic, sender):
            drop_link(w, th, now, node, topic, sender, False)
            _after_a_loss(w, th, now, node, topic)
    ttl = bounded(number(w, at, 0), parameter(w, node, LEAVE_TTL))
    if removed or ttl > 0:
        for place in range(neighbours(w, th, node, topic, source, sender)):
            peer = candidates(w)[th, place]
            send_numbers(w, th, node, peer, LEAVE, topic, source, max(0, ttl - 1), sequence)


@with_overlay
def _is_known_leave(w: World, node: int, topic: int, source: int, sequence: int) -> bool:
    entries = pool(w)[lists.owner(w, node)]
    place = overlays(w)[node, topic, LEAVES]
    while place >= 0 and (entries[place, FIRST] != source or entries[place, SECOND] != sequence):
        place = entries[place, NEXT]
    return place >= 0


@with_overlay
def _note_leave(w: World, node: int, topic: int, source: int, sequence: int) -> None:
    """Remember a LEAVE; if there are too many, forget the oldest."""
    line = overlays(w)[node, topic]
    th = lists.owner(w, node)
    entries = pool(w)[th]
    fresh = lists.new_entry(w, node)
    entries[fresh, NEXT] = line[LEAVES]
    entries[fresh, FIRST] = source
    entries[fresh, SECOND] = sequence
    line[LEAVES] = fresh
    line[LEAVES_COUNT] += 1
    if line[LEAVES_COUNT] > _LEAVES_REMEMBERED:
        before = fresh
        while entries[entries[before, NEXT], NEXT] >= 0:
            before = entries[before, NEXT]
        lists.free_entry(w, th, entries[before, NEXT])
        entries[before, NEXT] = NONE
        line[LEAVES_COUNT] -= 1
