"""Received parts about the overlay of a topic (`core.episub.membership`). `on_overlay_part` calls the kernel for the
kind of a part."""

from __future__ import annotations

from hearsay.core.language.actions import Reason
from hearsay.core.language.rpc import PartKind
from hearsay.sim.array.episub import growth
from hearsay.sim.array.episub.basics import has_overlay, with_overlay
from hearsay.sim.array.episub.joining import join_accepted, on_forward_join, on_get_nodes, on_join, on_nodes
from hearsay.sim.array.episub.links import drop_link, is_hyparview, on_neighbor
from hearsay.sim.array.episub.overlay_parts import (
    REPLY,
    begin_part,
    bounded,
    number,
    peer_at,
    send_numbers,
    send_part,
    write_peer,
)
from hearsay.sim.array.episub.shuffles import on_shuffle, on_shuffle_reply, on_topics, probe
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
    words_at,
)
from hearsay.sim.array.world.lists import entry_before, last_of
from hearsay.sim.array.world.payload import PART_IDS, PART_KIND, PART_TOPIC
from hearsay.sim.array.world.record import ignored
from hearsay.sim.array.world.slots import is_in, parameter

_LEAVES_REMEMBERED = 1024


@with_overlay
def on_overlay_part(w: World, th: int, now: int, node: int, slot: int, rpc: int, part_at: int) -> None:
    """Handle a received part of episub other than IHAVE, GRAFT and PRUNE. `part_at` is the part's index in the arena,
    `rpc` that of its RPC."""
    part = words_at(w, part_at)
    kind = part[PART_KIND]
    topic = part[PART_TOPIC]
    at = rpc + part[PART_IDS]
    sender = peers(w)[slot]
    if kind == PartKind.GETTOPICS:
        start = begin_part(w, th)
        for joined in range(w[TOPICS]):
            if members(w)[node, joined] & JOINED:
                write_peer(w, th, start, joined)
        send_part(w, th, node, sender, PartKind.TOPICS, 0, start)
    elif kind == PartKind.TOPICS:
        for joined in range(w[TOPICS]):
            if members(w)[node, joined] & JOINED and has_overlay(w, node):
                on_topics(w, th, now, node, joined, sender, at)
    elif not has_overlay(w, node) or not is_in(w, node, topic):
        ignored(w, th, now, node, sender, kind, 1, Reason.NOT_SUBSCRIBED)
    elif not flags(w)[slot, topic] & SUBSCRIBED and kind != PartKind.LEAVE and kind != PartKind.DISCONNECT:
        ignored(w, th, now, node, sender, kind, 1, Reason.NOT_A_SUBSCRIBER)
    elif kind == PartKind.GETNODES:
        on_get_nodes(w, th, now, node, topic, sender)
    elif kind == PartKind.NODES:
        on_nodes(w, th, now, node, topic, sender, at)
        _probe_for_near_links(w, th, now, node, topic)
    elif kind == PartKind.JOIN:
        on_join(w, th, now, node, topic, sender, at)
    elif kind == PartKind.FORWARDJOIN:
        on_forward_join(w, th, now, node, topic, sender, at)
    elif kind == PartKind.NEIGHBOR:
        if on_neighbor(w, th, now, node, topic, sender, at):
            join_accepted(w, node, topic)
        if number(w, at, 0) == REPLY:
            growth.on_reply(w, th, now, node, topic, sender, at)
    elif kind == PartKind.DISCONNECT:
        if number(w, at, 0):
            growth.end_request(w, th, now, node, topic, sender, False)
        elif is_active(w, node, topic, sender):
            drop_link(w, th, now, node, topic, sender, True)
            _after_link_loss(w, th, now, node, topic)
    elif kind == PartKind.LEAVE:
        _on_leave(w, th, now, node, topic, sender, at)
    elif kind == PartKind.SHUFFLE:
        on_shuffle(w, th, now, node, topic, sender, at, rpc)
    elif kind == PartKind.SHUFFLEREPLY:
        on_shuffle_reply(w, th, now, node, topic, at)


@with_overlay
def _probe_for_near_links(w: World, th: int, now: int, node: int, topic: int) -> None:
    """If links are missing after a NODES, probe passive peers, so that the nearest of them are known."""
    line = overlays(w)[node, topic]
    if line[ACTIVE_COUNT] < line[SIZE_ACTIVE] and not is_hyparview(w, node):
        probe(w, th, now, node, topic, 2 * (line[SIZE_ACTIVE] - line[SIZE_RANDOM]))


@with_overlay
def _after_link_loss(w: World, th: int, now: int, node: int, topic: int) -> None:
    """Handle that a neighbour ended its link. With HyParView, or if random links are missing, ask for new links at
    once; otherwise the next round of stabilisation does."""
    if is_hyparview(w, node) or random_links(w, node, topic) < overlays(w)[node, topic, SIZE_RANDOM]:
        growth.grow(w, th, now, node, topic)


@with_overlay
def _on_leave(w: World, th: int, now: int, node: int, topic: int, sender: int, at: int) -> None:
    """Handle a LEAVE, unless the node has received it before. Remove its source, the node that leaves, from the
    passive list. If the source itself sent this LEAVE, end the link to the source. Pass the LEAVE on if it removed an
    entry, came from the source, or has a TTL above 0."""
    source = peer_at(w, at, PartKind.LEAVE, 0)
    sequence = number(w, at, 1)
    line = overlays(w)[node, topic]
    if source == node or lists.place_with(w, node, line[LEAVES], source, sequence) >= 0:
        return
    line[LEAVES] = entry_before(w, node, line[LEAVES], source, sequence, 0)
    line[LEAVES_COUNT] += 1
    if line[LEAVES_COUNT] > _LEAVES_REMEMBERED:
        line[LEAVES] = lists.without(w, node, line[LEAVES], last_of(w, node, line[LEAVES]))
        line[LEAVES_COUNT] -= 1
    removed = remove_passive(w, th, now, node, topic, source)
    if sender == source:
        removed = True
        if is_active(w, node, topic, sender):
            drop_link(w, th, now, node, topic, sender, False)
            _after_link_loss(w, th, now, node, topic)
    ttl = bounded(number(w, at, 0), parameter(w, node, LEAVE_TTL))
    if removed or ttl > 0:
        for place in range(neighbours(w, th, node, topic, source, sender)):
            peer = candidates(w)[th, place]
            send_numbers(w, th, node, peer, PartKind.LEAVE, topic, source, max(0, ttl - 1), sequence)
