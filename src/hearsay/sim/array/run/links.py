"""Kernels that dial, open and lose connections (`Link` and `Connections` of `sim.reference`).

Layout: a link is one direction of a connection. `links32` has for each link: its source, its destination, the link in
the other direction, the earlier link to the destination whose loss the source has not noticed yet, the number of the
next RPC, and flags. `links64` has the latency and the last arrival. A slot names the newest link to its peer, and an
RPC in flight names the link on which it was sent. So a link is used again only when no slot, event or other link
names it (`reuse.py`)."""

from __future__ import annotations

from hearsay.core.language.events import EventKind
from hearsay.sim.array.compiling import kernel, only_with
from hearsay.sim.array.rules.calls import call_connected, call_dial_failed, call_disconnected
from hearsay.sim.array.rules.gater import move_senders, retains_scores, retains_slots
from hearsay.sim.array.rules.unwanted import set_bits_again
from hearsay.sim.array.travel.dials import BY_ROUTER, with_dials
from hearsay.sim.array.world.layout import (
    BUCKET,
    CONNECTED,
    CUT,
    DEAD,
    DESTINATION,
    DIALLED,
    DIALS_UP_TO,
    HAS_LINKS,
    HAS_NATTED,
    LAST_ARRIVAL,
    LATENCY,
    LINK_FLAGS,
    LINK_SOURCE,
    LINKS,
    LINKS_FREE,
    LINKS_SPARE,
    LINKS_USED,
    MOST_SLOTS,
    NEEDS_LINKS,
    NODES,
    NOW,
    OPEN,
    OUTBOUND,
    PREVIOUS,
    QUIET_UNTIL,
    SEQUENCE,
    SLOTS,
    SLOTS_USED,
    STARTS,
    STATUS,
    TOPICS,
    TWIN,
    USES_12,
    WIDEN_FROM,
    WIDTH_BITS,
    World,
    dial_buckets,
    dial_starts,
    dial_targets,
    flags,
    links32,
    links64,
    links_of,
    natted,
    nodes32,
    peers,
    touch_members,
)
from hearsay.sim.array.world.lists import owner
from hearsay.sim.array.world.payload import CONNECT, topic_part
from hearsay.sim.array.world.queue import push
from hearsay.sim.array.world.record import sending, sent
from hearsay.sim.array.world.slots import (
    end_slot,
    find_slot,
    first_slot,
    insert_slot,
    latency,
    lay_out_targets,
    remove_slot,
)

_BUCKETS_KEPT = 256
_AHEAD = 16

with_links = only_with(HAS_LINKS)


@kernel
def dial_at_start(w: World, th: int, now: int, node: int, place: int) -> None:
    """Make one of a node's first dials, in a run whose links need no memory.

    All first dials are in flight at once; as events they would need more room than the queue needs later in the run.
    So `dial_buckets` stores only the number of the bucket in which a dial arrives; DIALS_UP_TO is the last of these
    buckets. A dial that arrives in the first bucket, or in bucket 256 or later, is an event nevertheless.
    """
    target = dial_targets(w)[place]
    if w[HAS_NATTED] and natted(w)[target]:
        return
    delay = latency(w, node, target)
    record_connect(w, th, now, node, target, delay)
    bucket = (now + delay) >> w[WIDTH_BITS]
    if 0 < bucket < _BUCKETS_KEPT:
        dial_buckets(w)[place] = bucket
        w[DIALS_UP_TO] = max(w[DIALS_UP_TO], bucket)
    else:
        push(w, th, now + delay, target, EventKind.PEER_CONNECTED, node, 0, 0)
    slot = find_slot(w, node, target)
    if not flags(w)[slot, 0] & CONNECTED:
        call_connected(w, th, now, node, slot)


@kernel
def connect_quietly(w: World, th: int) -> None:
    """Make the first connections of a thread's nodes that open before QUIET_UNTIL; queue the others as events.

    Until QUIET_UNTIL nothing else happens. In such a run no router sends a hello, so these connections do not depend
    on each other.
    """
    now = w[NOW]
    for node in range(w[NODES]):
        if owner(w, node) != th:
            continue
        lay_out_targets(w, th, node)
        end = end_slot(w, node)
        for slot in range(first_slot(w, node), end):
            touch_members(w, peers(w)[min(slot + _AHEAD, end - 1)] * w[TOPICS])
            peer = peers(w)[slot]
            delay = latency(w, node, peer)
            if flags(w)[slot, 0] & DIALLED:
                record_connect(w, th, now, node, peer, delay)
                call_connected(w, th, now, node, slot)
            elif now + delay < w[QUIET_UNTIL]:
                call_connected(w, th, now + delay, node, slot)
            else:
                push(w, th, now + delay, node, EventKind.PEER_CONNECTED, peer, 0, 0)


@kernel
def dials_that_arrive(w: World) -> None:
    """Queue the first dials that arrive in the open bucket (`dial_at_start`)."""
    arriving = dial_buckets(w)
    for node in range(w[NODES]):
        for place in range(dial_starts(w)[node], dial_starts(w)[node + 1]):
            if arriving[place] == w[BUCKET]:
                target = dial_targets(w)[place]
                push(w, owner(w, node), latency(w, node, target), target, EventKind.PEER_CONNECTED, node, 0, 0)


@with_links
def dial(w: World, th: int, now: int, node: int, target: int) -> None:
    """Dial a target: the link of the node opens at once, and the link of the target one latency later. If the target
    is behind a NAT, do nothing."""
    if w[HAS_NATTED] and natted(w)[target]:
        return
    slot = find_slot(w, node, target)
    link = links_of(w)[slot] if slot >= 0 else -1
    if link < 0 or not _is_usable(w, link):
        link = connect_pair(w, node, target, link)
    times = links64(w)[link]
    times[LAST_ARRIVAL] = now + times[LATENCY]
    record_connect(w, th, now, node, target, times[LATENCY])
    push(w, th, now + times[LATENCY], target, EventKind.PEER_CONNECTED, node, 0, links32(w)[link, TWIN])
    if not links32(w)[link, LINK_FLAGS] & OPEN:
        open_link(w, th, now, node, link)


@with_links
def has_room_for_links(w: World, links: int) -> bool:
    """Return whether there is room for `links` new links and their slots. Return False also if `senders` needs more
    words (WIDEN_FROM)."""
    if w[LINKS_USED] + links > w[LINKS] + w[LINKS_SPARE] or w[MOST_SLOTS] > w[WIDEN_FROM]:
        return False
    return 2 * w[SLOTS_USED] + 4 * links <= w[SLOTS]


@kernel
def record_connect(w: World, th: int, now: int, node: int, target: int, delay: int) -> None:
    part = topic_part(CONNECT, -1, -1, 1)
    sent(w, th, now, node, target, part, delay, sending(w, now, node, part))


@with_links
def _is_usable(w: World, link: int) -> bool:
    """Return whether a connection is not lost, and open at one of its nodes at least."""
    line = links32(w)[link]
    if line[LINK_FLAGS] & DEAD:
        return False
    return line[LINK_FLAGS] & OPEN != 0 or links32(w)[line[TWIN], LINK_FLAGS] & OPEN != 0


@with_links
def connect_pair(w: World, node: int, target: int, old: int) -> int:
    """Create the two links of a connection, which are not open yet; return the link from `node`. `old` is the link
    that the slot of `node` for `target` names so far, -1 for none."""
    back = find_slot(w, target, node)
    old_twin = links_of(w)[back] if back >= 0 else -1
    base = latency(w, node, target)
    link = _new_link(w, node, target, base, old)
    twin = _new_link(w, target, node, base, old_twin)
    links32(w)[link, TWIN] = twin
    links32(w)[link, LINK_FLAGS] = OUTBOUND
    links32(w)[twin, TWIN] = link
    slot = find_slot(w, node, target)
    if slot < 0:
        slot = _new_slot(w, node, target)
    links_of(w)[slot] = link
    if back < 0:
        back = _new_slot(w, target, node)
    links_of(w)[back] = twin
    return link


@with_links
def _new_slot(w: World, node: int, peer: int) -> int:
    slot = insert_slot(w, node, peer)
    if retains_scores(w, node):
        move_senders(w, node, slot)
    if w[USES_12]:
        set_bits_again(w, node)
    return slot


@with_links
def _new_link(w: World, source: int, destination: int, base: int, old: int) -> int:
    link = w[LINKS_FREE]
    if w[LINKS_SPARE]:
        w[LINKS_FREE] = links32(w)[link, LINK_SOURCE]
        w[LINKS_SPARE] -= 1
    else:
        link = w[LINKS_USED]
        if link >= w[LINKS]:
            w[STATUS] = NEEDS_LINKS
            return link - 1
        w[LINKS_USED] = link + 1
    line = links32(w)[link]
    line[LINK_SOURCE] = source
    line[DESTINATION] = destination
    line[TWIN] = -1
    line[PREVIOUS] = -1
    line[SEQUENCE] = 0
    line[LINK_FLAGS] = 0
    if old >= 0:
        before = links32(w)[old]
        line[SEQUENCE] = before[SEQUENCE] + 1
        line[PREVIOUS] = old if before[LINK_FLAGS] & OPEN else before[PREVIOUS]
    links64(w)[link, LATENCY] = base
    links64(w)[link, LAST_ARRIVAL] = 0
    return link


@with_links
def open_link(w: World, th: int, now: int, node: int, link: int) -> None:
    """Open a link. If the earlier link to the same peer is still open, close the earlier link first."""
    line = links32(w)[link]
    previous = line[PREVIOUS]
    if previous >= 0 and links32(w)[previous, LINK_FLAGS] & OPEN:
        close_link(w, th, now, node, previous)
    line[PREVIOUS] = -1
    line[LINK_FLAGS] |= OPEN
    call_connected(w, th, now, node, find_slot(w, node, line[DESTINATION]))


@with_links
def close_link(w: World, th: int, now: int, node: int, link: int) -> None:
    """Close a link, and notify the router of its source. If no newer link to the peer exists, remove the slot; if
    the node retains slots (`retains_slots`), remove only the link from the slot."""
    line = links32(w)[link]
    line[LINK_FLAGS] &= ~OPEN
    slot = find_slot(w, node, line[DESTINATION])
    call_disconnected(w, th, now, node, slot)
    if links_of(w)[slot] != link:
        return
    if retains_slots(w, node):
        links_of(w)[slot] = -1
    else:
        remove_slot(w, node, slot)
        if w[USES_12]:
            set_bits_again(w, node)


@kernel
def on_connected(w: World, th: int, now: int, node: int, source: int, payload: int, link: int) -> None:
    """Handle the event that a connection opens. If `payload` has BY_ROUTER, the event answers a dial of the node's
    router."""
    if w[HAS_LINKS]:
        if not links32(w)[link, LINK_FLAGS] & (OPEN | DEAD):
            open_link(w, th, now, node, link)
        elif links32(w)[link, LINK_FLAGS] & DEAD and payload & BY_ROUTER:
            on_dial_failed(w, th, now, node, source, payload & ~BY_ROUTER)
    else:
        slot = find_slot(w, node, source)
        if not flags(w)[slot, 0] & CONNECTED:
            call_connected(w, th, now, node, slot)


@with_dials
def on_dial_failed(w: World, th: int, now: int, node: int, peer: int, life: int) -> None:
    """Handle the failure of a router's dial, or the loss of the dialled connection before it opened. `life` is LIFE
    of the dial: if the node has started again since, do nothing."""
    if life == nodes32(w)[node, STARTS]:
        call_dial_failed(w, th, now, node, peer)


@kernel
def is_up(w: World, link: int) -> bool:
    """Return whether RPCs on a link are delivered: the link in the other direction is open, and no fault cut the
    link."""
    if not w[HAS_LINKS]:
        return True
    line = links32(w)[link]
    return not line[LINK_FLAGS] & CUT and links32(w)[line[TWIN], LINK_FLAGS] & OPEN != 0
