"""Uplinks with a queue of RPCs: IDONTWANT overtakes, and copies can be withdrawn (`sim.reference.uplink`).

Only nodes whose routers use IDONTWANT have such an uplink. For other nodes, the time at which an RPC leaves is known
when it is sent.

Layout: a node gets an uplink when it starts. The uplink lies in the arena, because RPCs may still wait in it when the
node goes down. Its words are: until when it is busy, the first and the last waiting RPC, whether a NEXT_LEAVES event
is queued for the end of that time, and the uplink of the node's previous life. A waiting RPC has seven words in the
arena, too: the next waiting RPC, its link, the RPC itself, its number on the link, when the router sent it, how many
microseconds it needs, and whether it is an IDONTWANT.
"""

from __future__ import annotations

from typing import Any

from hearsay.core.language.actions import Reason
from hearsay.core.language.events import EventKind
from hearsay.sim.array.machine.compiling import inlined, only_with
from hearsay.sim.array.travel.parts import frame, subscription_bytes
from hearsay.sim.array.travel.transport import (
    arrival_of,
    arrives_at,
    begin_copy,
    copy_part,
    let_go,
    time_to_leave,
)
from hearsay.sim.array.world.layout import (
    DESTINATION,
    LAST_ARRIVAL,
    LINK_SOURCE,
    MESSAGE_PART_BYTES,
    TELL_FROM,
    UPLINK,
    UPLINK_AT,
    UPLINK_FREE,
    USES_12,
    World,
    arena,
    link_marks,
    links32,
    links64,
    messages,
    more64,
    nodes64,
    peers,
    words_at,
)
from hearsay.sim.array.world.payload import (
    HEADER,
    IDONTWANT,
    PART,
    PART_BYTES,
    PART_IDS,
    PART_KIND,
    PART_MESSAGE,
    PART_TOPIC,
    PUBLISH,
    allocate,
    hold,
    part_at,
    part_place,
    release,
    rpc_bytes,
    words_behind,
)
from hearsay.sim.array.world.queue import push
from hearsay.sim.array.world.record import dropped
from hearsay.sim.array.world.slots import parameter

NEXT_LEAVES = len(EventKind) + 1
"""The kind of the event that an uplink has sent an RPC and can send the next one."""
_BUSY_UNTIL, _FIRST, _LAST, _IS_DUE, _EARLIER = range(5)
_NEXT, _LINK, _RPC, _SEQUENCE, _REQUESTED, _TAKES, _URGENT = range(7)
_NONE = -1
with_queues = only_with(USES_12)


@inlined
def has_queue(w: World, node: int) -> bool:
    """Return whether a node's uplink has a queue of RPCs."""
    return w[USES_12] != 0 and w[UPLINK] != 0 and parameter(w, node, TELL_FROM) > 0


@with_queues
def start_uplink(w: World, th: int, now: int, node: int) -> None:
    """Create an empty uplink when a node starts. Those of previous lives are kept while RPCs wait in them."""
    earlier = more64(w)[node, UPLINK_AT]
    while earlier != _NONE and not words_at(w, earlier)[_IS_DUE]:
        release(w, th, earlier)
        earlier = words_at(w, earlier)[_EARLIER]
    at = allocate(w, th, 5)
    hold(w, th, at)
    uplink = words_at(w, at)
    uplink[_BUSY_UNTIL] = now
    uplink[_FIRST] = _NONE
    uplink[_LAST] = _NONE
    uplink[_IS_DUE] = 0
    uplink[_EARLIER] = earlier
    more64(w)[node, UPLINK_AT] = at


@with_queues
def queue_up(w: World, th: int, now: int, node: int, link: int, rpc: int, sequence: int) -> None:
    """Put an RPC into the queue of the node's uplink; an IDONTWANT overtakes all RPCs except other IDONTWANTs."""
    at = allocate(w, th, 7)
    hold(w, th, at)
    hold(w, th, rpc)
    waiting = words_at(w, at)
    waiting[_LINK] = link
    waiting[_RPC] = rpc
    waiting[_SEQUENCE] = sequence
    waiting[_REQUESTED] = now
    waiting[_TAKES] = time_to_leave(w, rpc_bytes(w, rpc))
    waiting[_URGENT] = int(arena(w)[rpc] == 1 and words_at(w, part_place(rpc, 0))[PART_KIND] == IDONTWANT)
    place = more64(w)[node, UPLINK_AT]
    uplink = words_at(w, place)
    before = uplink[_LAST]
    if waiting[_URGENT]:
        before = _NONE
        following = uplink[_FIRST]
        while following != _NONE and words_at(w, following)[_URGENT]:
            before = following
            following = words_at(w, following)[_NEXT]
    _insert(w, place, before, at)
    if uplink[_IS_DUE]:
        return
    if now >= uplink[_BUSY_UNTIL]:
        _send_next(w, th, place, now)
    else:
        _send_next_when_free(w, th, node, place)


@with_queues
def _insert(w: World, place: int, before: int, at: int) -> None:
    """Put an RPC into the queue of an uplink, behind the RPC `before`, or first if that is _NONE."""
    uplink = words_at(w, place)
    following = words_at(w, before)[_NEXT] if before != _NONE else uplink[_FIRST]
    words_at(w, at)[_NEXT] = following
    if before != _NONE:
        words_at(w, before)[_NEXT] = at
    else:
        uplink[_FIRST] = at
    if following == _NONE:
        uplink[_LAST] = at


@with_queues
def _send_next_when_free(w: World, th: int, node: int, at: int) -> None:
    uplink = words_at(w, at)
    uplink[_IS_DUE] = 1
    push(w, th, uplink[_BUSY_UNTIL], node, NEXT_LEAVES, -1, at, 0)


@with_queues
def uplink_is_free(w: World, th: int, now: int, node: int, at: int) -> None:
    """Send the next RPC of an uplink that has finished sending one."""
    uplink = words_at(w, at)
    uplink[_IS_DUE] = 0
    if uplink[_FIRST] != _NONE:
        _send_next(w, th, at, now)
    if uplink[_FIRST] != _NONE:
        _send_next_when_free(w, th, node, at)


@with_queues
def _send_next(w: World, th: int, at: int, now: int) -> None:
    uplink = words_at(w, at)
    first = uplink[_FIRST]
    waiting = words_at(w, first)
    uplink[_FIRST] = waiting[_NEXT]
    if waiting[_NEXT] == _NONE:
        uplink[_LAST] = _NONE
    uplink[_BUSY_UNTIL] = now + waiting[_TAKES]
    link = waiting[_LINK]
    node = links32(w)[link, LINK_SOURCE]
    peer = links32(w)[link, DESTINATION]
    rpc = waiting[_RPC]
    arrival = arrives_at(w, node, peer, link, waiting[_SEQUENCE], uplink[_BUSY_UNTIL])
    let_go(w, th, waiting[_REQUESTED], arrival, link, node, peer, rpc, waiting[_SEQUENCE])
    release(w, th, rpc)
    release(w, th, first)


@with_queues
def all_leave(w: World, th: int, node: int) -> None:
    """Send all RPCs that wait in a node's uplinks, at the end of a run."""
    at = more64(w)[node, UPLINK_AT]
    while at != _NONE:
        while words_at(w, at)[_FIRST] != _NONE:
            _send_next(w, th, at, words_at(w, at)[_BUSY_UNTIL])
        at = words_at(w, at)[_EARLIER]


@with_queues
def mark_links(w: World, node: int) -> None:
    """Mark the links of RPCs that wait in a node's uplinks, so that they are not used again (`reuse.py`)."""
    at = more64(w)[node, UPLINK_AT]
    while at != _NONE:
        waiting = words_at(w, at)[_FIRST]
        while waiting != _NONE:
            link_marks(w)[words_at(w, waiting)[_LINK]] = 1
            waiting = words_at(w, waiting)[_NEXT]
        at = words_at(w, at)[_EARLIER]


@with_queues
def last_arrival(w: World, node: int, link: int) -> int:
    """Return when the last RPC arrives that was sent on a link, including RPCs that wait in the uplink."""
    last = links64(w)[link, LAST_ARRIVAL]
    uplink = words_at(w, more64(w)[node, UPLINK_AT])
    leaves = uplink[_BUSY_UNTIL]
    at = uplink[_FIRST]
    while at != _NONE:
        waiting = words_at(w, at)
        leaves += waiting[_TAKES]
        if waiting[_LINK] == link:
            last = arrival_of(w, node, links32(w)[link, DESTINATION], waiting[_SEQUENCE], leaves, last)
        at = waiting[_NEXT]
    return int(last)


@with_queues
def withdraw(w: World, th: int, now: int, node: int, slot: int, message: int) -> None:
    """Remove copies of a message to a neighbour that wait in the uplink (IDONTWANT-4)."""
    uplink = words_at(w, more64(w)[node, UPLINK_AT])
    before = _NONE
    at = uplink[_FIRST]
    while at != _NONE:
        waiting = words_at(w, at)
        following = waiting[_NEXT]
        left = 1
        if links32(w)[waiting[_LINK], DESTINATION] == peers(w)[slot]:
            left = _withdraw_from(w, th, now, node, at, message)
        if left:
            before = at
        else:
            if before != _NONE:
                words_at(w, before)[_NEXT] = following
            else:
                uplink[_FIRST] = following
            if following == _NONE:
                uplink[_LAST] = before
            release(w, th, at)
        at = following


@with_queues
def _withdraw_from(w: World, th: int, now: int, node: int, at: int, message: int) -> int:
    """Remove copies of a message from an RPC that waits; return how many parts are left."""
    waiting = words_at(w, at)
    rpc = waiting[_RPC]
    peer = links32(w)[waiting[_LINK], DESTINATION]
    parts = arena(w)[rpc]
    left = 0
    words = HEADER
    for index in range(parts):
        part = words_at(w, part_place(rpc, index))
        if _is_copy(part, message):
            dropped(w, th, now, node, peer, part_at(w, rpc, index), Reason.WITHDRAWN)
        else:
            left += 1
            words += PART + words_behind(w, rpc, index)
    if left == parts:
        return int(left)
    takes = 0
    if left:
        waiting[_RPC] = _without(w, th, rpc, message, left, words)
        takes = time_to_leave(w, rpc_bytes(w, waiting[_RPC]))
    release(w, th, rpc)
    nodes64(w)[node, UPLINK_FREE] -= waiting[_TAKES] - takes
    waiting[_TAKES] = takes
    return int(left)


@with_queues
def _without(w: World, th: int, rpc: int, message: int, left: int, words: int) -> int:
    """Return a copy of an RPC without one message: `left` parts in `words` words, and sizes with the framing."""
    copy = begin_copy(w, th, rpc, left, words)
    hold(w, th, copy)
    kept = 0
    ids = HEADER + left * PART
    for index in range(arena(w)[rpc]):
        if not _is_copy(words_at(w, part_place(rpc, index)), message):
            ids = copy_part(w, rpc, index, copy, kept, ids)
            if index == 0:
                first = words_at(w, part_place(copy, 0))
                use = arena(w)[copy + first[PART_IDS]] if first[PART_IDS] else 0
                _take_out_of_frame(w, first, use)
            kept += 1
    frame(w, copy)
    return copy


@inlined
def _is_copy(part: Any, message: int) -> bool:
    return part[PART_KIND] == PUBLISH and part[PART_MESSAGE] == message


@with_queues
def _take_out_of_frame(w: World, part: Any, use: int) -> None:
    """Remove the bytes of the framing from the first part of an RPC, which is a message or a subscription."""
    if part[PART_KIND] == PUBLISH:
        part[PART_BYTES] = messages(w)[part[PART_MESSAGE], MESSAGE_PART_BYTES]
    else:
        part[PART_BYTES] = subscription_bytes(w, part[PART_TOPIC], use)
