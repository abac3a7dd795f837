"""Kernels for one event of one node, and for the arrival of a router's dial.

An event is handled, dropped if the node is down, or queued for service. A dial that arrives is accepted or refused
(`sim.reference.connections`).
"""

from __future__ import annotations

import numpy as np

from hearsay.core.language.actions import Reason, Via
from hearsay.core.language.events import EventKind
from hearsay.core.rules.randomness import Purpose
from hearsay.sim.array.compiling import inlined, kernel, only_with, sort_numbers
from hearsay.sim.array.episub.basics import has_trees, is_moved, is_of_this_life, with_overlay
from hearsay.sim.array.episub.joining import CONTACTS
from hearsay.sim.array.rules.calls import (
    call_contacts,
    call_failed,
    call_join,
    call_leave,
    call_publish,
    call_round_trip,
    call_timer,
    call_validated,
)
from hearsay.sim.array.rules.receiving import call_gossip, call_message, call_rpc, call_topic_part, call_unwanted
from hearsay.sim.array.run.faults import carries_payload, reachable
from hearsay.sim.array.run.links import close_link, connect_pair, is_up, on_connected, on_dial_failed, record_connect
from hearsay.sim.array.travel.dials import (
    ARRIVES,
    BY_ROUTER,
    DIALLED,
    DIALLER,
    LIFE,
    TARGET,
    remove_arrival,
    with_dials,
)
from hearsay.sim.array.travel.transport import drop_unreachable
from hearsay.sim.array.travel.uplink import NEXT_LEAVES, on_uplink_free
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.draws import below, draw1, extend, pick
from hearsay.sim.array.world.layout import (
    APPLICATION,
    ARRIVALS,
    BACKLOG,
    BACKLOG_END,
    DEAD,
    DETECTION,
    DIALLING,
    HAS_LINKS,
    HAS_NATTED,
    HAS_OVERLAY,
    LAST_ARRIVAL,
    LINK_FLAGS,
    NODES,
    OPEN,
    SCRIPT,
    SERVICE,
    STARTS,
    TWIN,
    UP,
    World,
    arrivals,
    candidates,
    links32,
    links64,
    links_of,
    members,
    more32,
    natted,
    nodes32,
    pool,
    topic_keys,
    words_at,
)
from hearsay.sim.array.world.lists import owner
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
from hearsay.sim.array.world.slots import find_slot

_SERVED = len(EventKind)
"""The kind of the event that a service time is over. Then the node handles the first event that waits for service."""
_ATTEMPTS_PER_CONTACT = 20
"""The maximum number of draws per wanted contact, as in `sim.reference.connections`."""
with_service = only_with(SERVICE)


@with_dials
def dial_arrives(w: World) -> None:
    """Remove the first dial from the heap `arrivals`. Accept or refuse the dial, unless the node that dialled has
    stopped or restarted since."""
    remove_arrival(w)
    line = arrivals(w)[w[ARRIVALS]]
    node = line[DIALLER]
    more32(w)[node, DIALLING] -= 1
    if nodes32(w)[node, UP] and nodes32(w)[node, STARTS] == line[LIFE]:
        _accept(w, line[ARRIVES], node, line[TARGET], line[DIALLED], line[LIFE])


@with_dials
def _accept(w: World, now: int, node: int, target: int, dialled: int, life: int) -> None:
    """Accept or refuse a dial. The node learns that it was accepted after the latency of the dial, or that it was
    refused not before the detection delay after the dial began."""
    th = owner(w, node)
    delay = now - dialled
    answered = now + delay
    natted_target = w[HAS_NATTED] and natted(w)[target]
    if not nodes32(w)[target, UP] or natted_target or not reachable(w, node, target):
        push(w, th, max(answered, dialled + w[DETECTION]), node, EventKind.DIAL_FAILED, target, life, 0)
        return
    slot = find_slot(w, node, target)
    link = links_of(w)[slot] if slot >= 0 else -1
    if link < 0 or links32(w)[link, LINK_FLAGS] & DEAD:
        link = connect_pair(w, node, target, link)
    twin = links32(w)[link, TWIN]
    record_connect(w, th, dialled, node, target, delay)
    links64(w)[link, LAST_ARRIVAL] = max(links64(w)[link, LAST_ARRIVAL], now)
    links64(w)[twin, LAST_ARRIVAL] = max(links64(w)[twin, LAST_ARRIVAL], answered)
    push(w, owner(w, target), now, target, EventKind.PEER_CONNECTED, node, 0, twin)
    push(w, th, answered, node, EventKind.PEER_CONNECTED, target, BY_ROUTER | life, link)


@kernel
def dispatch(w: World, th: int, now: int, w0: int, w1: int, link: int) -> None:
    node = w1 >> NODE
    payload = w1 & PAYLOAD
    kind = (w0 >> EVENT_KIND) & 15
    header = nodes32(w)[node]
    if kind == NEXT_LEAVES:
        on_uplink_free(w, th, now, node, payload)
    elif not header[UP]:
        _drop_for_down_node(w, th, now, node, kind, w0, payload)
    elif kind == EventKind.TIMER_FIRED and _is_void_timer(w, node, w0, payload):
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
def _find_contacts(w: World, th: int, now: int, node: int, topic: int) -> int:
    """Collect random nodes in a topic as candidates, ascending; return their number, which may be less than wanted.

    Draw from all nodes until enough of the drawn nodes are in the topic. After too many draws, sample from all nodes
    in the topic instead.
    """
    known = candidates(w)[th]
    state = extend(extend(draw1(w, Purpose.RENDEZVOUS, node), topic_keys(w)[topic]), np.uint64(now))
    wanted = 2 * CONTACTS
    found = 0
    for attempt in range(wanted * _ATTEMPTS_PER_CONTACT):
        if found == wanted:
            sort_numbers(known, 0, found)
            return found
        other = below(extend(state, np.uint64(attempt)), w[NODES])
        if _is_contact(w, node, other, topic):
            place = 0
            while place < found and known[place] != other:
                place += 1
            known[place] = other
            found = max(found, place + 1)
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
def _is_void_timer(w: World, node: int, w0: int, payload: int) -> bool:
    """Return whether an event of a timer is void, because the timer was set again or the node was started again
    since."""
    if has_trees(w, node):
        return is_moved(w, node, w0, payload)
    return payload != nodes32(w)[node, STARTS]


@kernel
def _drop_for_down_node(w: World, th: int, now: int, node: int, kind: int, w0: int, payload: int) -> None:
    if kind == EventKind.RPC_RECEIVED:
        drop_unreachable(w, th, now, source_of(w0), node, payload, ((w0 >> VIA) & 15) - 1, w0 & 255)
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
    if lists.first_entry(w, node, BACKLOG) < 0:
        push(w, th, now + w[SERVICE], node, _SERVED, -1, nodes32(w)[node, STARTS], 0)
    lists.append(w, node, BACKLOG, BACKLOG_END, w0, w1, link)


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
            drop_unreachable(w, th, now, source_of(w0), node, payload, via, w0 & 255)
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
        if not _is_void_timer(w, node, w0, payload):  # the timer may have been set again while the event waited
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
        if w[HAS_LINKS] and links32(w)[payload, LINK_FLAGS] & OPEN:
            close_link(w, th, now, node, payload)
    elif kind == EventKind.ROUND_TRIP_MEASURED:
        is_open = w[HAS_OVERLAY] != 0 and links32(w)[link, LINK_FLAGS] & OPEN != 0
        if is_open and is_up(w, link) and is_of_this_life(w, node, w0):
            call_round_trip(w, th, now, node, source_of(w0), payload)
    elif kind == EventKind.CONTACTS_FOUND:
        if w[HAS_OVERLAY] and is_of_this_life(w, node, w0):
            call_contacts(w, th, now, node, payload, _find_contacts(w, th, now, node, payload))
    elif kind == EventKind.SEND_FAILED:
        call_failed(w, th, now, node, source_of(w0), payload)
        if not payload & INLINE:
            release(w, th, payload)
