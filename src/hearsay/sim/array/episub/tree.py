"""The broadcast tree of a topic: neighbours, messages, and received control parts (`core.episub.tree`).

A neighbour is eager or lazy: the flags of its slot for the topic have the bit IS_EAGER or IS_LAZY. With
FIXED_OVERLAY, the neighbours are all peers that speak episub and subscribe to the topic; otherwise they are the
active list. A lazy neighbour is the stand-in for an eager one if it announced a message that came from the eager one,
with no more hops than at this node (`detours`). If the eager neighbour is removed and stays in the overlay, its best
stand-in becomes eager (TREE-5).
"""

from __future__ import annotations

import numpy as np

from hearsay.core.language.actions import Reason, Via
from hearsay.core.rules.message_rules import (
    announced_hops,
    hops_of_copy,
    ids_over_limit,
    is_answered,
    is_shortcut,
    next_tick,
)
from hearsay.sim.array.episub.basics import NEVER, earlier, with_episub, with_overlay
from hearsay.sim.array.episub.caches import (
    HOPS,
    PEER,
    forget_announcer,
    forget_oldest,
    is_kept,
    keep_message,
    kept_hops,
    kept_parent,
    note_announcement,
    remove_missing,
    take_announcers,
)
from hearsay.sim.array.travel.outbox import begin_message, put_forwarded, put_message, put_tree_part
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.knowledge import bits, column, was_seen
from hearsay.sim.array.world.layout import (
    AHEAD_BY,
    AHEAD_OF,
    ANSWERS,
    ANSWERS_LIMIT,
    ASKED,
    FIXED_OVERLAY,
    FLUSH,
    FLUSH_DUE,
    GRAFTS_ALL,
    HAS_OVERLAY,
    IS_EAGER,
    IS_LAZY,
    KEPT_COUNT,
    KEPT_SIZE,
    LATEST_FROM,
    MAX_PART_IDS,
    MISSING_COUNT,
    MISSING_DUE,
    MISSING_FIRST,
    MISSING_TICK,
    NEWLY_EAGER,
    NEWLY_UP,
    OVERLAY,
    QUEUE,
    QUEUE_COUNT,
    QUEUED,
    RECENT,
    SUBSCRIBED,
    THRESHOLD,
    TOPIC,
    TOPICS,
    TREE_FIELDS,
    TREE_FLOODS,
    World,
    alarms,
    arena,
    cells,
    detours,
    flags,
    messages,
    peers,
    pool,
    tree_marks,
    trees,
)
from hearsay.sim.array.world.lists import FIRST, NEXT, SECOND, entry_before, free_all, last_of
from hearsay.sim.array.world.payload import GRAFT, IHAVE, PRUNE, announced_message, hops_in_word
from hearsay.sim.array.world.record import ignored, row
from hearsay.sim.array.world.slots import end_slot, find_slot, first_slot, is_in, is_native, parameter
from hearsay.trace.language.event_rows import eager_row, lazy_row, neighbor_down_row, neighbor_up_row

_NEIGHBOUR = IS_EAGER | IS_LAZY
OWN = -1
"""The value in place of the peer that sent a message, if this node published the message."""
ANY = -2
"""The value in place of the slot of a lazy neighbour that stands for all lazy neighbours."""


@with_episub
def join_tree(w: World, th: int, now: int, node: int, topic: int) -> None:
    for field in range(TREE_FIELDS):
        trees(w)[node, topic, field] = -1
    for field in (KEPT_COUNT, QUEUE_COUNT, MISSING_COUNT):
        trees(w)[node, topic, field] = 0
    trees(w)[node, topic, KEPT_SIZE] = 0
    if parameter(w, node, OVERLAY) != FIXED_OVERLAY:
        return
    for slot in range(first_slot(w, node), end_slot(w, node)):
        if flags(w)[slot, topic] & SUBSCRIBED and is_native(w, slot):
            neighbour_up(w, th, now, node, slot, topic)


@with_episub
def leave_tree(w: World, th: int, now: int, node: int, topic: int) -> None:
    for slot in range(first_slot(w, node), end_slot(w, node)):
        if flags(w)[slot, topic] & _NEIGHBOUR:
            flags(w)[slot, topic] &= ~_NEIGHBOUR
            tree_marks(w)[slot, topic] = 0
            if w[HAS_OVERLAY]:
                detours(w)[slot, topic, AHEAD_OF] = 0
            row(w, th, neighbor_down_row(now, node, peers(w)[slot], topic))
    forget_tree(w, node, topic)


@with_episub
def forget_tree(w: World, node: int, topic: int) -> None:
    """Forget the kept messages, the missing messages and the waiting announcements of a tree that ends."""
    tree = trees(w)[node, topic]
    while tree[KEPT_COUNT] > 0:
        forget_oldest(w, node, topic)
    while tree[MISSING_COUNT] > 0:
        remove_missing(w, node, topic, tree[MISSING_FIRST])
    clear_queue(w, node, topic)


@with_episub
def clear_queue(w: World, node: int, topic: int) -> None:
    """Forget the announcements that wait for the next IHAVE."""
    tree = trees(w)[node, topic]
    entries = pool(w)[lists.owner(w, node)]
    place = tree[QUEUE]
    while place >= 0:
        cells(w)[node, column(w, entries[place, FIRST])] &= ~np.uint64(QUEUED)
        place = entries[place, NEXT]
    free_all(w, node, tree[QUEUE])
    tree[QUEUE] = -1
    tree[QUEUE_COUNT] = 0


# Neighbours.


@with_episub
def neighbour_up(w: World, th: int, now: int, node: int, slot: int, topic: int) -> None:
    """Make the peer of a slot an eager neighbour in the tree of a topic (TREE-1). Do nothing if the node has not
    joined the topic, or if the peer is a neighbour already."""
    if not is_in(w, node, topic) or flags(w)[slot, topic] & _NEIGHBOUR:
        return
    tree = trees(w)[node, topic]
    row(w, th, neighbor_up_row(now, node, peers(w)[slot], topic))
    make_eager(w, th, now, node, slot, topic)
    gets_recent = parameter(w, node, RECENT) > 0 and tree[KEPT_COUNT] > 0 and not parameter(w, node, TREE_FLOODS)
    if gets_recent:
        tree_marks(w)[slot, topic] |= NEWLY_UP
    if gets_recent or tree[QUEUE_COUNT]:
        _flush_soon(w, now, node)


@with_episub
def neighbour_down(w: World, th: int, now: int, node: int, slot: int, topic: int, stays_in_overlay: bool) -> None:
    """Remove a neighbour. If it was eager, repair the tree with GRAFTS_ALL (TREE-5). Do nothing if it is no
    neighbour.

    If `stays_in_overlay` is False, the peer failed or left the topic.
    """
    flag = flags(w)[slot, topic]
    if not flag & _NEIGHBOUR:
        return
    flags(w)[slot, topic] = flag & ~_NEIGHBOUR
    tree_marks(w)[slot, topic] = 0
    row(w, th, neighbor_down_row(now, node, peers(w)[slot], topic))
    forget_announcer(w, node, topic, peers(w)[slot])
    if flag & IS_EAGER and parameter(w, node, GRAFTS_ALL):
        one = _stand_in(w, node, topic, peers(w)[slot]) if stays_in_overlay else ANY
        for other in range(first_slot(w, node), end_slot(w, node)):
            if flags(w)[other, topic] & IS_LAZY and (one == ANY or one == other):
                make_eager(w, th, now, node, other, topic)
                put_tree_part(w, th, other, GRAFT, topic, 0, 0)
    if w[HAS_OVERLAY]:
        _forget_detours(w, node, slot, topic)


@with_overlay
def _stand_in(w: World, node: int, topic: int, lost: int) -> int:
    """Return the slot of the lazy neighbour to graft after the loss of the neighbour `lost`: ANY if all lazy
    neighbours are to be grafted, -1 if none is."""
    if trees(w)[node, topic, LATEST_FROM] != lost:
        return -1
    found = ANY
    for slot in range(first_slot(w, node), end_slot(w, node)):
        line = detours(w)[slot, topic]
        stands_in = flags(w)[slot, topic] & IS_LAZY and line[AHEAD_OF] == lost + 1
        if stands_in and (found == ANY or line[AHEAD_BY] < detours(w)[found, topic, AHEAD_BY]):
            found = slot
    return found


@with_overlay
def _forget_detours(w: World, node: int, slot: int, topic: int) -> None:
    """Forget in `detours` and LATEST_FROM the peer of a slot, which is no longer a neighbour."""
    peer = peers(w)[slot]
    if trees(w)[node, topic, LATEST_FROM] == peer:
        trees(w)[node, topic, LATEST_FROM] = OWN
    detours(w)[slot, topic, AHEAD_OF] = 0
    for other in range(first_slot(w, node), end_slot(w, node)):
        if detours(w)[other, topic, AHEAD_OF] == peer + 1:
            detours(w)[other, topic, AHEAD_OF] = 0


@with_overlay
def _note_detour(w: World, node: int, topic: int, parent: int, own_hops: int, slot: int, hops: int) -> None:
    """Note in `detours` whether the neighbour of a slot is a stand-in for `parent` (`core.episub.tree.Detours`).

    `parent` sent the node a message, which has `own_hops` at the node; the neighbour announced the message with
    `hops`.
    """
    line = detours(w)[slot, topic]
    line[AHEAD_OF] = 0
    source = find_slot(w, node, parent) if parent != OWN else -1
    if source >= 0 and flags(w)[source, topic] & IS_EAGER and source != slot and hops <= own_hops:
        line[AHEAD_OF] = parent + 1
        line[AHEAD_BY] = hops - own_hops


@with_episub
def peer_removed(w: World, th: int, now: int, node: int, slot: int) -> None:
    """Forget how often messages were sent on request to a peer that disconnected. With FIXED_OVERLAY, also remove the
    peer from all trees."""
    if parameter(w, node, OVERLAY) == FIXED_OVERLAY:
        for topic in range(w[TOPICS]):
            neighbour_down(w, th, now, node, slot, topic, False)
    lists.remove(w, node, ANSWERS, -1, peers(w)[slot])


@with_episub
def make_eager(w: World, th: int, now: int, node: int, slot: int, topic: int) -> None:
    flag = flags(w)[slot, topic]
    if flag & IS_EAGER:
        return
    flags(w)[slot, topic] = flag & ~IS_LAZY | IS_EAGER
    if trees(w)[node, topic, QUEUE_COUNT]:
        tree_marks(w)[slot, topic] |= NEWLY_EAGER
    row(w, th, eager_row(now, node, peers(w)[slot], topic))


@with_episub
def _make_lazy(w: World, th: int, now: int, node: int, slot: int, topic: int) -> None:
    flag = flags(w)[slot, topic]
    if not flag & IS_LAZY:
        flags(w)[slot, topic] = flag & ~IS_EAGER | IS_LAZY
        row(w, th, lazy_row(now, node, peers(w)[slot], topic))


@with_episub
def _flush_soon(w: World, now: int, node: int) -> None:
    alarms(w)[node, FLUSH_DUE] = earlier(alarms(w)[node, FLUSH_DUE], now + parameter(w, node, FLUSH))


# Messages.


@with_episub
def spread(w: World, th: int, now: int, node: int, message: int, hops: int, named: int, parent: int) -> None:
    """Keep a message, send it to the eager neighbours, and queue its announcement to the lazy ones (TREE-1).

    `hops` is the number of hops from the publisher to this node. `named` is the hops field of the received copy, 0 if
    the copy has none. `parent` is the peer that sent the copy, or OWN.
    """
    topic = messages(w)[message, TOPIC]
    keep_message(w, now, node, message, hops, named, parent)
    if w[HAS_OVERLAY]:
        slot = find_slot(w, node, parent) if parent != OWN else -1
        is_from_tree = slot >= 0 and flags(w)[slot, topic] & IS_EAGER != 0
        trees(w)[node, topic, LATEST_FROM] = parent if is_from_tree else OWN
    short = begin_message(w, th, message, Via.EAGER)
    for slot in range(first_slot(w, node), end_slot(w, node)):
        if flags(w)[slot, topic] & IS_EAGER:
            put_forwarded(w, th, slot, message, Via.EAGER, parent, short)
    if not parameter(w, node, TREE_FLOODS):
        _queue(w, node, topic, message, hops)
        _flush_soon(w, now, node)


@with_episub
def _queue(w: World, node: int, topic: int, message: int, hops: int) -> None:
    """Add a message to the announcements that wait for the next IHAVE. If there are too many, remove the oldest
    one."""
    tree = trees(w)[node, topic]
    entries = pool(w)[lists.owner(w, node)]
    at = column(w, message)
    if bits(cells(w)[node, at], QUEUED):
        entries[lists.place_in(w, node, tree[QUEUE], message), SECOND] = hops
        return
    tree[QUEUE] = entry_before(w, node, tree[QUEUE], message, hops, 0)
    tree[QUEUE_COUNT] += 1
    cells(w)[node, at] |= np.uint64(QUEUED)
    if tree[QUEUE_COUNT] > parameter(w, node, MAX_PART_IDS):
        oldest = last_of(w, node, tree[QUEUE])
        cells(w)[node, column(w, entries[oldest, FIRST])] &= ~np.uint64(QUEUED)
        tree[QUEUE] = lists.without(w, node, tree[QUEUE], oldest)
        tree[QUEUE_COUNT] -= 1


@with_episub
def accept_in_tree(w: World, th: int, now: int, node: int, sender: int, message: int, named: int) -> None:
    """Handle the first copy of a message, which the node has accepted: spread the message, and make a lazy sender
    eager (TREE-2). If a peer announced the message with fewer hops, it may replace the sender (TREE-4). `named` is
    the hops field of the copy, 0 if it has none."""
    topic = messages(w)[message, TOPIC]
    hops = hops_of_copy(named)
    announcers = take_announcers(w, node, topic, message)
    slot = find_slot(w, node, sender)
    if slot >= 0 and flags(w)[slot, topic] & IS_LAZY:
        make_eager(w, th, now, node, slot, topic)
    spread(w, th, now, node, message, hops, named, sender)
    if announcers < 0:
        return
    entries = pool(w)[lists.owner(w, node)]
    nearest = announcers
    at = announcers
    while at >= 0:
        if w[HAS_OVERLAY]:
            other = find_slot(w, node, entries[at, PEER])
            _note_detour(w, node, topic, sender, hops, other, entries[at, HOPS])
        is_nearer = entries[at, HOPS] < entries[nearest, HOPS]
        is_nearer |= entries[at, HOPS] == entries[nearest, HOPS] and entries[at, PEER] < entries[nearest, PEER]
        if is_nearer:
            nearest = at
        at = entries[at, NEXT]
    announcer = find_slot(w, node, entries[nearest, PEER])
    _optimise(w, th, now, node, topic, sender, hops, announcer, entries[nearest, HOPS])
    free_all(w, node, announcers)


@with_episub
def _optimise(
    w: World, th: int, now: int, node: int, topic: int, parent: int, hops: int, announcer: int, lazy_hops: int
) -> None:
    """Make the lazy neighbour in the slot `announcer` eager and the peer `parent` lazy, if that saves enough hops
    (TREE-4)."""
    threshold = 0 if parameter(w, node, TREE_FLOODS) else parameter(w, node, THRESHOLD)
    if not is_shortcut(hops, lazy_hops, threshold):
        return
    slot = find_slot(w, node, parent)
    if slot < 0 or not flags(w)[slot, topic] & IS_EAGER or not flags(w)[announcer, topic] & IS_LAZY:
        return
    make_eager(w, th, now, node, announcer, topic)
    _make_lazy(w, th, now, node, slot, topic)
    put_tree_part(w, th, announcer, GRAFT, topic, 0, 0)
    put_tree_part(w, th, slot, PRUNE, topic, 0, 0)


@with_episub
def duplicate_in_tree(w: World, th: int, now: int, node: int, sender: int, message: int) -> None:
    """Make the peer that sent a later copy of a message lazy, and send this peer PRUNE (TREE-2)."""
    topic = messages(w)[message, TOPIC]
    slot = find_slot(w, node, sender)
    if not is_in(w, node, topic) or not is_native(w, slot) or parameter(w, node, TREE_FLOODS):
        return
    if flags(w)[slot, topic] & IS_EAGER:
        _make_lazy(w, th, now, node, slot, topic)
    put_tree_part(w, th, slot, PRUNE, topic, 0, 0)


# Parts.


@with_episub
def on_tree_part(
    w: World, th: int, now: int, node: int, slot: int, kind: int, topic: int, ids: int, count: int
) -> bool:
    """Handle an IHAVE, GRAFT or PRUNE (TREE-3). `ids` is the index of its first id in the arena, `count` the number
    of ids. Return True if the part is dropped because its sender is no neighbour."""
    peer = peers(w)[slot]
    if not is_in(w, node, topic):
        ignored(w, th, now, node, peer, kind, 1, Reason.NOT_SUBSCRIBED)
        return False
    if not flags(w)[slot, topic] & _NEIGHBOUR:
        ignored(w, th, now, node, peer, kind, 1, Reason.NOT_A_NEIGHBOUR)
        return True
    if kind == PRUNE:
        if not parameter(w, node, TREE_FLOODS):
            _make_lazy(w, th, now, node, slot, topic)
        return False
    if kind == GRAFT:
        make_eager(w, th, now, node, slot, topic)
    over = ids_over_limit(count, parameter(w, node, MAX_PART_IDS))
    if over:
        ignored(w, th, now, node, peer, kind, over, Reason.OVER_LIMIT)
    for place in range(ids, ids + count - over):
        if kind == GRAFT:
            _answer_graft(w, th, now, node, slot, arena(w)[place])
        else:
            word = arena(w)[place]
            _on_announcement(w, th, now, node, slot, topic, announced_message(word), hops_in_word(word))
    if kind == IHAVE and trees(w)[node, topic, MISSING_COUNT] and alarms(w)[node, MISSING_DUE] == NEVER:
        alarms(w)[node, MISSING_DUE] = next_tick(now, parameter(w, node, MISSING_TICK))
    return False


@with_episub
def _on_announcement(w: World, th: int, now: int, node: int, slot: int, topic: int, message: int, named: int) -> None:
    peer = peers(w)[slot]
    hops = announced_hops(named)
    is_asked = bits(cells(w)[node, column(w, message)], ASKED)
    if is_asked or not was_seen(w, now, node, message):
        pushed_out = note_announcement(w, node, topic, message, peer, hops)
        if pushed_out >= 0:
            ignored(w, th, now, node, pushed_out, IHAVE, 1, Reason.OVER_LIMIT)
        return
    if not is_kept(w, now, node, message):
        return
    if w[HAS_OVERLAY]:
        _note_detour(w, node, topic, kept_parent(w, node, message), kept_hops(w, node, message), slot, hops)
    if kept_parent(w, node, message) != OWN:
        _optimise(w, th, now, node, topic, kept_parent(w, node, message), kept_hops(w, node, message), slot, hops)


@with_episub
def _answer_graft(w: World, th: int, now: int, node: int, slot: int, message: int) -> None:
    """Send a message to a peer that requests it, if the message is still kept and was sent to this peer fewer than
    ANSWERS_LIMIT times (GOSSIP-10)."""
    if not is_kept(w, now, node, message):
        return
    peer = peers(w)[slot]
    times = lists.value(w, node, ANSWERS, message, peer, 0) + 1
    if is_answered(times, parameter(w, node, ANSWERS_LIMIT)):
        lists.increase(w, node, ANSWERS, message, peer, 1)
        put_message(w, th, slot, message, Via.LAZY, begin_message(w, th, message, Via.LAZY))
