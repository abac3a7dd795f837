"""One event at one node: it is handled by its kind, dropped if the node is down, or waits for the service time."""

from __future__ import annotations

import numpy as np

from hearsay.core.language.actions import Reason, Via
from hearsay.core.language.events import EventKind
from hearsay.core.shell.randomness import Purpose
from hearsay.sim.array.episub.alarms import has_trees, is_moved, with_overlay
from hearsay.sim.array.episub.joining import CONTACTS
from hearsay.sim.array.episub.meetings import is_of_this_life
from hearsay.sim.array.machine.compiling import inlined, kernel, only_with
from hearsay.sim.array.rules.calls import (
    call_contacts,
    call_failed,
    call_join,
    call_leave,
    call_measured,
    call_publish,
    call_timer,
    call_validated,
)
from hearsay.sim.array.rules.receiving import call_gossip, call_message, call_rpc, call_topic_part, call_unwanted
from hearsay.sim.array.run.faults import carries_payload, reachable
from hearsay.sim.array.run.links import (
    is_up,
    on_connected,
    on_dial_failed,
    on_disconnected,
)
from hearsay.sim.array.travel.transport import unreachable
from hearsay.sim.array.travel.uplink import NEXT_LEAVES, uplink_is_free
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.draws import below, draw1, extend, pick
from hearsay.sim.array.world.layout import (
    APPLICATION,
    BACKLOG,
    BACKLOG_END,
    HAS_OVERLAY,
    LINK_FLAGS,
    NODES,
    OPEN,
    SCRIPT,
    SERVICE,
    STARTS,
    UP,
    World,
    candidates,
    links32,
    members,
    nodes32,
    pool,
    topic_keys,
    words_at,
)
from hearsay.sim.array.world.payload import IDONTWANT, PART_KIND, message_part, part_place, release
from hearsay.sim.array.world.queue import (
    EVENT_KIND,
    GOSSIP,
    INLINE,
    MESSAGE,
    NODE,
    PAYLOAD,
    TOPIC_PART,
    VIA,
    gossip_bits,
    push,
    source_of,
    topic_kind,
)
from hearsay.sim.array.world.record import dropped

_SERVED = len(EventKind)
_ATTEMPTS_PER_CONTACT = 20
"""The most draws for each wanted contact, as in `sim.reference.connections`."""

with_service = only_with(SERVICE)


@kernel
def dispatch(w: World, th: int, now: int, w0: int, w1: int, link: int) -> None:
    node = w1 >> NODE
    payload = w1 & PAYLOAD
    kind = (w0 >> EVENT_KIND) & 15
    header = nodes32(w)[node]
    if kind == NEXT_LEAVES:
        uplink_is_free(w, th, now, node, payload)
    elif not header[UP]:
        _drop_for_down_node(w, th, now, node, kind, w0, payload)
    elif kind == EventKind.TIMER_FIRED and _is_no_timer(w, node, w0, payload):
        return
    elif kind == EventKind.JOIN:
        if not members(w)[node, payload] & APPLICATION:
            members(w)[node, payload] |= APPLICATION
            call_join(w, th, now, node, payload)
    elif kind == EventKind.LEAVE:
        if members(w)[node, payload] & APPLICATION:
            members(w)[node, payload] &= ~APPLICATION
            call_leave(w, th, now, node, payload)
    elif kind == _SERVED:
        if payload == header[STARTS]:
            _serve_next(w, th, now, node)
    elif w[SERVICE]:
        _wait_for_service(w, th, now, node, w0, w1, link)
    else:
        _handle(w, th, now, node, kind, w0, payload, link)


@with_overlay
def _is_alive(w: World, link: int) -> bool:
    return links32(w)[link, LINK_FLAGS] & OPEN != 0 and is_up(w, link)


@with_overlay
def _find_contacts(w: World, th: int, now: int, node: int, topic: int) -> int:
    """Collect random members of a topic as candidates, ascending; return their number.

    They are drawn from all nodes. If that finds too few, they are a sample of the members.
    """
    known = candidates(w)[th]
    state = extend(extend(draw1(w, Purpose.RENDEZVOUS, node), topic_keys(w)[topic]), np.uint64(now))
    wanted = 2 * CONTACTS
    found = 0
    for attempt in range(wanted * _ATTEMPTS_PER_CONTACT):
        if found == wanted:
            return found
        other = below(extend(state, np.uint64(attempt)), w[NODES])
        if _is_contact(w, node, other, topic):
            place = found
            while place > 0 and known[place - 1] > other:
                place -= 1
            if place == 0 or known[place - 1] != other:
                for at in range(found, place, -1):
                    known[at] = known[at - 1]
                known[place] = other
                found += 1
    found = 0
    for other in range(w[NODES]):
        if _is_contact(w, node, other, topic):
            known[found] = other
            found += 1
    return pick(w, th, state, found, wanted)


@with_overlay
def _is_contact(w: World, node: int, other: int, topic: int) -> bool:
    is_member = other != node and nodes32(w)[other, UP] != 0 and members(w)[other, topic] & APPLICATION != 0
    return is_member and reachable(w, node, other)


@inlined
def _is_no_timer(w: World, node: int, w0: int, payload: int) -> bool:
    """Return whether an event of a timer is void: the timer was set again, or the node was started again."""
    if has_trees(w, node):
        return is_moved(w, node, w0, payload)
    return payload != nodes32(w)[node, STARTS]


@kernel
def _drop_for_down_node(w: World, th: int, now: int, node: int, kind: int, w0: int, payload: int) -> None:
    if kind == EventKind.RPC_RECEIVED:
        unreachable(w, th, now, source_of(w0), node, payload, ((w0 >> VIA) & 15) - 1, w0 & 255)
    elif kind == EventKind.PUBLISH and source_of(w0) == w[SCRIPT]:
        part = message_part(w, payload, 1, Via.INJECT)
        dropped(w, th, now, w[SCRIPT], node, part, Reason.UNREACHABLE)
    elif kind == EventKind.JOIN:
        members(w)[node, payload] |= APPLICATION
    elif kind == EventKind.LEAVE:
        members(w)[node, payload] &= ~APPLICATION
    if carries_payload(w0, payload):
        release(w, th, payload)


@with_service
def _wait_for_service(w: World, th: int, now: int, node: int, w0: int, w1: int, link: int) -> None:
    header = nodes32(w)[node]
    place = lists.new_entry(w, node)
    entries = pool(w)[lists.owner(w, node)]
    entries[place, lists.NEXT] = -1
    entries[place, lists.FIRST] = w0
    entries[place, lists.SECOND] = w1
    entries[place, lists.VALUE] = link
    if header[BACKLOG] < 0:
        header[BACKLOG] = place
        header[BACKLOG_END] = place
        push(w, th, now + w[SERVICE], node, _SERVED, -1, header[STARTS], 0)
    else:
        entries[header[BACKLOG_END], lists.NEXT] = place
        header[BACKLOG_END] = place


@with_service
def _serve_next(w: World, th: int, now: int, node: int) -> None:
    header = nodes32(w)[node]
    entries = pool(w)[lists.owner(w, node)]
    place = header[BACKLOG]
    w0 = entries[place, lists.FIRST]
    w1 = entries[place, lists.SECOND]
    link = entries[place, lists.VALUE]
    header[BACKLOG] = entries[place, lists.NEXT]
    lists.free_entry(w, lists.owner(w, node), place)
    _handle(w, th, now, node, (w0 >> EVENT_KIND) & 15, w0, w1 & PAYLOAD, link)
    if header[BACKLOG] >= 0:
        push(w, th, now + w[SERVICE], node, _SERVED, -1, header[STARTS], 0)


@kernel
def _handle(w: World, th: int, now: int, node: int, kind: int, w0: int, payload: int, link: int) -> None:
    if kind == EventKind.RPC_RECEIVED:
        via = ((w0 >> VIA) & 15) - 1
        if not is_up(w, link):
            unreachable(w, th, now, source_of(w0), node, payload, via, w0 & 255)
        elif payload & INLINE:
            call_message(w, th, now, node, source_of(w0), payload & MESSAGE, w0 & 255, via)
        elif payload & GOSSIP:
            call_gossip(w, th, now, node, source_of(w0), payload & MESSAGE, gossip_bits(w0, payload))
        elif payload & TOPIC_PART and topic_kind(payload) == IDONTWANT:
            call_unwanted(w, th, now, node, source_of(w0), payload & MESSAGE)
        elif payload & TOPIC_PART:
            call_topic_part(w, th, now, node, source_of(w0), payload & MESSAGE, topic_kind(payload))
        else:
            call_rpc(w, th, now, node, source_of(w0), payload)
        if carries_payload(w0, payload):
            release(w, th, payload)
    elif kind == EventKind.TIMER_FIRED:
        if not _is_no_timer(w, node, w0, payload):  # the timer may have been set again while its event waited
            call_timer(w, th, now, node)
    elif kind == EventKind.PUBLISH:
        call_publish(w, th, now, node, source_of(w0), payload)
    elif kind == EventKind.MESSAGE_VALIDATED:
        if words_at(w, part_place(payload, 0))[PART_KIND] == nodes32(w)[node, STARTS]:
            call_validated(w, th, now, node, payload)
        release(w, th, payload)
    elif kind == EventKind.PEER_CONNECTED:
        on_connected(w, th, now, node, source_of(w0), payload, link)
    elif kind == EventKind.DIAL_FAILED:
        on_dial_failed(w, th, now, node, source_of(w0), payload)
    elif kind == EventKind.PEER_DISCONNECTED:
        on_disconnected(w, th, now, node, payload)
    elif kind == EventKind.ROUND_TRIP_MEASURED:
        if w[HAS_OVERLAY] and is_of_this_life(w, node, w0) and _is_alive(w, link):
            call_measured(w, th, now, node, source_of(w0), payload)
    elif kind == EventKind.CONTACTS_FOUND:
        if w[HAS_OVERLAY] and is_of_this_life(w, node, w0):
            call_contacts(w, th, now, node, payload, _find_contacts(w, th, now, node, payload))
    elif kind == EventKind.SEND_FAILED:
        call_failed(w, th, now, node, source_of(w0), payload)
        if not payload & INLINE:
            release(w, th, payload)
