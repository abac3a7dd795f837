"""Uplinks with a queue of RPCs: IDONTWANTs overtake other RPCs, and copies can be withdrawn (`sim.reference.nodes`).

Only nodes whose routers use IDONTWANT have such an uplink. For all other nodes, the time at which an RPC leaves is
known when the router sends the RPC.

Layout: a node gets an uplink when it starts. The uplink is in the arena, because RPCs may still wait in it when the
node goes down. The words of an uplink are: the time until which it is busy, the first and the last waiting RPC,
whether a NEXT_LEAVES event is queued for the end of the busy time, and the uplink that the node had before its last
start. Each waiting RPC has seven further words in the arena: the next waiting RPC, the link, the RPC, the number of
the RPC on the link, the time at which the router sent the RPC, the number of microseconds that the RPC needs, and
whether the RPC is an IDONTWANT.
"""

from __future__ import annotations

from hearsay.core.language.events import EventKind
from hearsay.sim.array.compiling import inlined, only_with
from hearsay.sim.array.travel.parts import add_framing, subscription_bytes
from hearsay.sim.array.travel.transport import (
    arrival_on_link,
    arrival_time,
    is_left_out,
    time_to_leave,
    transmit,
    without_parts,
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
    IDONTWANT,
    PART_BYTES,
    PART_IDS,
    PART_KIND,
    PART_MESSAGE,
    PART_TOPIC,
    PUBLISH,
    allocate,
    hold,
    part_place,
    release,
    rpc_bytes,
)
from hearsay.sim.array.world.queue import push
from hearsay.sim.array.world.slots import parameter

NEXT_LEAVES = len(EventKind) + 1
"""The kind of an event: an uplink has sent an RPC, and can send the next one."""
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
    """Create an empty uplink when a node starts. Release its earlier uplinks, the latest first, until one still has a
    NEXT_LEAVES event in the queue."""
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
    """Put an RPC into the queue of the node's uplink. An RPC that consists of an IDONTWANT is put behind other
    waiting RPCs of this kind, and before all others."""
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
    following = _NONE
    if waiting[_URGENT]:
        before = _NONE
        following = uplink[_FIRST]
        while following != _NONE and words_at(w, following)[_URGENT]:
            before = following
            following = words_at(w, following)[_NEXT]
    waiting[_NEXT] = following
    if before != _NONE:
        words_at(w, before)[_NEXT] = at
    else:
        uplink[_FIRST] = at
    if following == _NONE:
        uplink[_LAST] = at
    if uplink[_IS_DUE]:
        return
    if now >= uplink[_BUSY_UNTIL]:
        _send_next(w, th, place, now)
    else:
        _send_next_when_free(w, th, node, place)


@with_queues
def _send_next_when_free(w: World, th: int, node: int, at: int) -> None:
    uplink = words_at(w, at)
    uplink[_IS_DUE] = 1
    push(w, th, uplink[_BUSY_UNTIL], node, NEXT_LEAVES, -1, at, 0)


@with_queues
def on_uplink_free(w: World, th: int, now: int, node: int, at: int) -> None:
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
    arrival = arrival_on_link(w, node, peer, link, waiting[_SEQUENCE], uplink[_BUSY_UNTIL])
    transmit(w, th, waiting[_REQUESTED], arrival, link, node, peer, rpc, waiting[_SEQUENCE])
    release(w, th, rpc)
    release(w, th, first)


@with_queues
def send_all_waiting(w: World, th: int, node: int) -> None:
    """Send all RPCs that wait in the present and earlier uplinks of a node, at the end of a run."""
    at = more64(w)[node, UPLINK_AT]
    while at != _NONE:
        while words_at(w, at)[_FIRST] != _NONE:
            _send_next(w, th, at, words_at(w, at)[_BUSY_UNTIL])
        at = words_at(w, at)[_EARLIER]


@with_queues
def mark_links(w: World, node: int) -> None:
    """Mark the links of the RPCs that wait in a node's uplinks, so that these links are not used again
    (`reuse.py`)."""
    at = more64(w)[node, UPLINK_AT]
    while at != _NONE:
        waiting = words_at(w, at)[_FIRST]
        while waiting != _NONE:
            link_marks(w)[words_at(w, waiting)[_LINK]] = 1
            waiting = words_at(w, waiting)[_NEXT]
        at = words_at(w, at)[_EARLIER]


@with_queues
def last_arrival(w: World, node: int, link: int) -> int:
    """Return the time at which the last RPC on a link arrives, including RPCs that wait in the uplink."""
    last = links64(w)[link, LAST_ARRIVAL]
    uplink = words_at(w, more64(w)[node, UPLINK_AT])
    leaves = uplink[_BUSY_UNTIL]
    at = uplink[_FIRST]
    while at != _NONE:
        waiting = words_at(w, at)
        leaves += waiting[_TAKES]
        if waiting[_LINK] == link:
            last = arrival_time(w, node, links32(w)[link, DESTINATION], waiting[_SEQUENCE], leaves, last)
        at = waiting[_NEXT]
    return int(last)


@with_queues
def withdraw_copies(w: World, th: int, now: int, node: int, slot: int, message: int) -> None:
    """Remove all copies of a message to a neighbour from the RPCs that wait in the node's uplink (IDONTWANT-4)."""
    uplink = words_at(w, more64(w)[node, UPLINK_AT])
    before = _NONE
    at = uplink[_FIRST]
    while at != _NONE:
        waiting = words_at(w, at)
        following = waiting[_NEXT]
        if links32(w)[waiting[_LINK], DESTINATION] != peers(w)[slot] or _withdraw_from(w, th, now, node, at, message):
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
def _withdraw_from(w: World, th: int, now: int, node: int, at: int, message: int) -> bool:
    """Remove the copies of a message from a waiting RPC; return whether parts of the RPC are left."""
    waiting = words_at(w, at)
    rpc = waiting[_RPC]
    peer = links32(w)[waiting[_LINK], DESTINATION]
    rest = without_parts(w, th, now, node, peer, rpc, message, 0)
    if rest == rpc:
        return True
    takes = 0
    if rest >= 0:
        hold(w, th, rest)
        if not is_left_out(w, node, peer, rpc, 0, message, 0):
            _remove_framing(w, rest)
        add_framing(w, rest)
        waiting[_RPC] = rest
        takes = time_to_leave(w, rpc_bytes(w, rest))
    release(w, th, rpc)
    nodes64(w)[node, UPLINK_FREE] -= waiting[_TAKES] - takes
    waiting[_TAKES] = takes
    return rest >= 0


@with_queues
def _remove_framing(w: World, rpc: int) -> None:
    """Remove the bytes of the framing from the first part of an RPC, which is a message or a subscription."""
    part = words_at(w, part_place(rpc, 0))
    if part[PART_KIND] == PUBLISH:
        part[PART_BYTES] = messages(w)[part[PART_MESSAGE], MESSAGE_PART_BYTES]
    else:
        use = arena(w)[rpc + part[PART_IDS]] if part[PART_IDS] else 0
        part[PART_BYTES] = subscription_bytes(w, part[PART_TOPIC], use)
