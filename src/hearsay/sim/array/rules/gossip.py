"""Gossip, and the upkeep of fan-outs and caches at heartbeats (`core.mesh.gossipsub`)."""

from __future__ import annotations

import numpy as np

from hearsay.core.language.actions import Reason, Via
from hearsay.core.rules.message_rules import (
    fanout_is_over,
    gossip_targets,
    ids_over_limit,
    ids_to_ask,
    is_answered,
    is_repeated_news,
    may_be_asked,
    needs_samples,
    windows_left,
)
from hearsay.core.rules.randomness import Purpose, key_of
from hearsay.sim.array.compiling import inlined, kernel, sort_numbers
from hearsay.sim.array.rules.checks import check_gossip
from hearsay.sim.array.rules.features import with_parts
from hearsay.sim.array.rules.forwarding import may_get_published, native_subscribers, top_up_fanout
from hearsay.sim.array.rules.mesh import graft_if_room
from hearsay.sim.array.rules.partials import gossip_parts
from hearsay.sim.array.rules.promises import admits, trusts_gossip, uses_11
from hearsay.sim.array.rules.scores import has_scores, real
from hearsay.sim.array.rules.special_peers import is_direct
from hearsay.sim.array.rules.unwanted import is_unwanted, uses_idontwant
from hearsay.sim.array.travel.outbox import begin_ihave, put_ihave, put_iwant, put_message
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.draws import choose, draw1, draw_topic, extend, pick
from hearsay.sim.array.world.knowledge import column, forget_cached, is_cached, is_marked, unmark, was_seen
from hearsay.sim.array.world.layout import (
    AGES_AT,
    ANSWERS,
    ANSWERS_LIMIT,
    ASK_AGAIN,
    ASKED_AT,
    BEATS,
    CACHE_BEAT,
    COUNTS_IHAVES,
    FANOUT,
    FANOUT_AT_PUBLISH,
    FANOUT_TTL,
    FILTER_FIRST,
    FIRST_GROUP,
    FIRST_MESSAGE,
    GOSSIP_FACTOR,
    GOSSIP_WINDOWS,
    GOSSIPS_FROM,
    GOSSIPSUB,
    GRAFT_ON_MISSING,
    HAS_11,
    HAS_DIRECT,
    HISTORY,
    IDS_IN_RPC,
    IHAVE_IDS_OF_RPC,
    IN_FANOUT,
    IN_MESH,
    LAZY,
    MAX_ASKED,
    MAX_CACHED,
    MAX_IHAVE,
    MAX_IWANT,
    NEVER,
    NEWEST,
    NEWS,
    OLDEST,
    OUTBOX_FULL,
    PART_WORDS,
    ROUTER_KIND,
    SCRATCH_USED,
    SEEN_BEAT,
    SEEN_WINDOWS,
    STATUS,
    SUBSCRIBED,
    TICK,
    TOPIC,
    TOPICS,
    Word,
    World,
    arena,
    candidates,
    cells,
    control,
    fanout_us,
    flags,
    marks,
    members,
    messages,
    nodes32,
    part_heads,
    peers,
    scratch,
)
from hearsay.sim.array.world.payload import IHAVE, IWANT
from hearsay.sim.array.world.record import ignored
from hearsay.sim.array.world.slots import end_slot, find_slot, first_slot, is_in, is_native, parameter

_TOPIC_SHIFT = 29
_REQUESTED_OF, _REQUESTED_BY = range(2)
"""An entry of the list NEWS has a topic, a peer and the number of the peer's IHAVEs with new ids. An entry with
TOPICS + _REQUESTED_OF in place of the topic has the number of ids that the node requested from the peer since the
last heartbeat. An entry with TOPICS + _REQUESTED_BY has the number of ids that the peer requested since then.
`promises.py` adds two more numbers to TOPICS in the same way; _KEYS is the number of all."""
_KEYS = 4
_MESSAGE = (1 << _TOPIC_SHIFT) - 1
_NO_TOPIC = np.uint64(key_of(""))


@kernel
def on_ihave(w: World, th: int, now: int, node: int, peer: int, topic: int, ids: int, count: int) -> None:
    """Handle an IHAVE of a peer. Its ids are the `count` words from `ids` on in the arena.

    Rules: GOSSIP-4, GOSSIP-5, GOSSIP-6, GOSSIP-8.
    """
    if parameter(w, node, ROUTER_KIND) != GOSSIPSUB:
        ignored(w, th, now, node, peer, IHAVE, 1, Reason.UNSUPPORTED)
        return
    if not is_in(w, node, topic):
        ignored(w, th, now, node, peer, IHAVE, count, Reason.NOT_SUBSCRIBED)
        return
    if uses_11(w, node) and parameter(w, node, COUNTS_IHAVES) and not admits(w, th, now, node, peer, count, IHAVE):
        return
    line = control(w)[th]
    over = ids_over_limit(count, parameter(w, node, MAX_IHAVE) - line[IDS_IN_RPC])
    if over:
        ignored(w, th, now, node, peer, IHAVE, over, Reason.OVER_LIMIT)
        count -= over
    if parameter(w, node, IHAVE_IDS_OF_RPC):
        line[IDS_IN_RPC] += count
    most = parameter(w, node, MAX_ASKED)
    news = 0
    slot = -1
    asked = 0
    again = parameter(w, node, ASK_AGAIN)
    missing = scratch(w)[th]
    end = 0
    for place in range(ids, ids + count):
        message = arena(w)[place]
        if not was_seen(w, now, node, message):
            if news == 0:  # the look-up takes time, and most IHAVEs have no new ids
                slot = find_slot(w, node, peer)
                asked = lists.value(w, node, NEWS, w[TOPICS] + _REQUESTED_OF, peer, 0)
                if not may_be_asked(asked, most):
                    return
            news += 1
            if not again or lists.find(w, node, ASKED_AT, message, 0) < 0:
                missing[end] = message
                end += 1
    if news:
        _send_iwant(w, th, now, node, slot, end, ids_to_ask(end, asked, most))
        if parameter(w, node, GRAFT_ON_MISSING):
            _count_news(w, th, now, node, slot, topic)


@kernel
def _send_iwant(w: World, th: int, now: int, node: int, slot: int, count: int, room: int) -> None:
    """Request `room` of the `count` missing ids in `scratch`: the first ones, or with 1.1 a random sample."""
    if not room:
        return
    missing = scratch(w)[th]
    chosen = marks(w)[th]
    peer = peers(w)[slot]
    samples = parameter(w, node, HAS_11) != 0 and room < count
    if samples:
        state = extend(extend(extend(draw1(w, Purpose.ASKED, node), _NO_TOPIC), np.uint64(peer)), np.uint64(now))
        choose(state, count, room, chosen)
    for place in range(count if samples else room):
        if samples:
            if not chosen[place]:
                continue
            chosen[place] = 0
        put_iwant(w, th, slot, missing[place])
        if parameter(w, node, ASK_AGAIN):
            lists.remove(w, node, ASKED_AT, missing[place], 0)
            lists.add(w, node, ASKED_AT, missing[place], 0, nodes32(w)[node, TICK])
            if lists.length(w, node, ASKED_AT) > parameter(w, node, MAX_CACHED):
                lists.remove_last(w, node, ASKED_AT)
    lists.increase(w, node, NEWS, w[TOPICS] + _REQUESTED_OF, peer, room)


@kernel
def _count_news(w: World, th: int, now: int, node: int, slot: int, topic: int) -> None:
    """Count an IHAVE with new ids, if the peer is a native subscriber of the topic (GOSSIP-11).

    After GRAFT_ON_MISSING such IHAVEs, GRAFT the peer, because the mesh misses messages.
    """
    if not is_native(w, slot) or not flags(w)[slot, topic] & SUBSCRIBED:
        return
    peer = peers(w)[slot]
    seen = lists.increase(w, node, NEWS, topic, peer, 1)
    if is_repeated_news(seen, parameter(w, node, GRAFT_ON_MISSING)):
        lists.remove(w, node, NEWS, topic, peer)
        graft_if_room(w, th, now, node, slot, topic)


@kernel
def on_iwant(w: World, th: int, now: int, node: int, slot: int, ids: int, count: int) -> None:
    """Answer an IWANT with the `count` ids from `ids` on in the arena (CACHE-2, GOSSIP-4, GOSSIP-8, GOSSIP-10)."""
    peer = peers(w)[slot]
    check_gossip(w, th, now, node, slot)
    if parameter(w, node, ROUTER_KIND) != GOSSIPSUB:
        ignored(w, th, now, node, peer, IWANT, 1, Reason.UNSUPPORTED)
        return
    allowed = parameter(w, node, MAX_IWANT) - lists.value(w, node, NEWS, w[TOPICS] + _REQUESTED_BY, peer, 0)
    over = ids_over_limit(count, allowed)
    if over:
        ignored(w, th, now, node, peer, IWANT, over, Reason.OVER_LIMIT)
        count -= over
    if count:
        lists.increase(w, node, NEWS, w[TOPICS] + _REQUESTED_BY, peer, count)
    refused = 0
    store = arena(w)
    limit = parameter(w, node, ANSWERS_LIMIT)
    for place in range(ids, ids + count):
        message = store[place]
        if message < w[FIRST_MESSAGE] or not is_cached(w, node, column(w, message)):
            continue
        if uses_idontwant(w, node) and is_unwanted(w, node, slot, message):
            continue
        if is_answered(lists.increase(w, node, ANSWERS, message, peer, 1), limit):
            put_message(w, th, slot, message, Via.IWANT, False)
        else:
            refused += 1
    if refused:
        ignored(w, th, now, node, peer, IWANT, refused, Reason.OVER_LIMIT)


@kernel
def forget_requests(w: World, node: int) -> None:
    """At a heartbeat, forget the counts of ids and RPCs since the last heartbeat."""
    for key in range(_KEYS):
        lists.remove(w, node, NEWS, w[TOPICS] + key, -1)


@kernel
def maintain_fanouts(w: World, th: int, now: int, node: int) -> None:
    """Remove peers with low scores from fan-outs. Forget the fan-outs that were not used for FANOUT_TTL (GOSSIP-12).

    Fill the other fan-outs (FANOUT-2), but not with FANOUT_AT_PUBLISH.
    """
    table = members(w)
    for topic in range(w[TOPICS]):
        if table[node, topic] & FANOUT:
            if has_scores(w, node):
                _remove_distrusted(w, th, now, node, topic)
            if fanout_is_over(now, fanout_us(w)[node, topic], parameter(w, node, FANOUT_TTL)):
                forget_fanout(w, node, topic)
            elif not parameter(w, node, FANOUT_AT_PUBLISH):
                top_up_fanout(w, th, now, node, topic)


@kernel
def _remove_distrusted(w: World, th: int, now: int, node: int, topic: int) -> None:
    """Remove peers with low scores from a fan-out (THRESHOLD-3)."""
    for slot in range(first_slot(w, node), end_slot(w, node)):
        if flags(w)[slot, topic] & IN_FANOUT and not may_get_published(w, th, now, node, slot):
            flags(w)[slot, topic] &= ~IN_FANOUT


@kernel
def forget_fanout(w: World, node: int, topic: int) -> None:
    members(w)[node, topic] &= ~FANOUT
    for slot in range(first_slot(w, node), end_slot(w, node)):
        flags(w)[slot, topic] &= ~IN_FANOUT


@kernel
def gossip(w: World, th: int, now: int, node: int, tick: int) -> None:
    """Send IHAVE for recent messages in each topic that has a mesh or fan-out (GOSSIP-3, GOSSIP-7)."""
    header = nodes32(w)[node]
    next_topic = 0
    if header[GOSSIPS_FROM] == NEVER:
        _gossip_only_parts(w, th, now, node, tick, next_topic, w[TOPICS])
        return
    line = control(w)[th]
    ids = scratch(w)[th]
    start = line[SCRATCH_USED]
    end = start
    beat = tick - 1
    windows = parameter(w, node, GOSSIP_WINDOWS)
    row = cells(w)[node]
    oldest = max(header[GOSSIPS_FROM], w[FIRST_MESSAGE])
    header[GOSSIPS_FROM] = NEVER
    if end + w[NEWEST] - oldest > ids.shape[0]:
        w[STATUS] = OUTBOX_FULL
        return
    for message in range(oldest, w[NEWEST]):
        at = column(w, message)
        if not is_cached(w, node, at):
            continue
        if windows_left(_beats_since(row[at], CACHE_BEAT, beat), windows) > 0:
            header[GOSSIPS_FROM] = min(header[GOSSIPS_FROM], message)
            topic = messages(w)[message, TOPIC] if w[TOPICS] > 1 else 0
            ids[end] = topic << _TOPIC_SHIFT | message
            end += 1
    line[SCRATCH_USED] = end
    if w[TOPICS] > 1:
        sort_numbers(ids, start, end)
    while start < end:
        topic = ids[start] >> _TOPIC_SHIFT
        following = start
        while following < end and ids[following] >> _TOPIC_SHIFT == topic:
            ids[following] &= _MESSAGE
            following += 1
        _gossip_only_parts(w, th, now, node, tick, next_topic, topic)
        _gossip_in(w, th, now, node, tick, topic, start, following - start)
        next_topic = topic + 1
        start = following
    _gossip_only_parts(w, th, now, node, tick, next_topic, w[TOPICS])


@with_parts
def _gossip_only_parts(w: World, th: int, now: int, node: int, tick: int, first: int, end: int) -> None:
    """Send partial messages as gossip in the topics from `first` to `end` - 1, which have no ids for IHAVE."""
    for topic in range(first if w[PART_WORDS] else end, end):
        if part_heads(w)[node, topic, FIRST_GROUP]:
            _gossip_in(w, th, now, node, tick, topic, 0, 0)


@kernel
def _gossip_in(w: World, th: int, now: int, node: int, tick: int, topic: int, ids: int, count: int) -> None:
    """Send gossip of a topic to random peers outside its mesh or fan-out (GOSSIP-13).

    Do nothing if the topic has neither. The gossip is an IHAVE with the `count` ids from `scratch[ids]` on; peers
    that request parts get partial messages instead.
    """
    in_mesh = is_in(w, node, topic)
    if not in_mesh and not members(w)[node, topic] & FANOUT:
        return
    inside = IN_MESH if in_mesh else IN_FANOUT
    excluded = inside if parameter(w, node, FILTER_FIRST) else 0
    size = native_subscribers(w, th, node, topic, excluded)
    slots = candidates(w)[th]
    if has_scores(w, node) or w[HAS_DIRECT]:
        trusted = 0
        for place in range(size):
            if not is_direct(w, node, slots[place]) and trusts_gossip(w, now, node, slots[place]):
                slots[trusted] = slots[place]
                trusted += 1
        size = trusted
    targets = parameter(w, node, LAZY)
    if uses_11(w, node):
        targets = gossip_targets(targets, size, real(w, node, GOSSIP_FACTOR))
    size = pick(w, th, draw_topic(w, Purpose.GOSSIP, node, topic, tick), size, targets)
    kept = 0
    for place in range(size):
        if excluded or not flags(w)[slots[place], topic] & inside:
            slots[kept] = slots[place]
            kept += 1
    if w[PART_WORDS]:
        kept = gossip_parts(w, th, now, node, topic, kept)
        if not count:
            return
    if needs_samples(count, parameter(w, node, MAX_IHAVE)):
        for place in range(kept):
            _gossip_sample(w, th, node, tick, topic, slots[place], ids, count)
        return
    short = begin_ihave(w, th, topic, ids, count)
    for place in range(kept):
        put_ihave(w, th, slots[place], topic, ids, count, short)


@kernel
def _gossip_sample(w: World, th: int, node: int, tick: int, topic: int, slot: int, ids: int, count: int) -> None:
    """Send a peer an IHAVE with a random sample of the `count` ids from `scratch[ids]` on (GOSSIP-9).

    The sample is written behind all ids in `scratch`.
    """
    line = control(w)[th]
    known = scratch(w)[th]
    chosen = marks(w)[th]
    start = line[SCRATCH_USED]
    size = parameter(w, node, MAX_IHAVE)
    if start + size > known.shape[0]:
        w[STATUS] = OUTBOX_FULL
        return
    state = extend(draw_topic(w, Purpose.GOSSIP_IDS, node, topic, tick), np.uint64(peers(w)[slot]))
    choose(state, count, size, chosen)
    end = start
    for place in range(count):
        if chosen[place]:
            known[end] = known[ids + place]
            end += 1
            chosen[place] = 0
    line[SCRATCH_USED] = end
    put_ihave(w, th, slot, topic, start, size, begin_ihave(w, th, topic, start, size))


@kernel
def forget_old_messages(w: World, node: int, tick: int) -> None:
    """At a heartbeat, forget the cached and seen messages whose last window ends (GOSSIP-7, SEEN-2)."""
    header = nodes32(w)[node]
    if tick < header[AGES_AT]:
        return
    start = max(header[OLDEST], w[FIRST_MESSAGE])
    cached_for = parameter(w, node, HISTORY)
    seen_for = parameter(w, node, SEEN_WINDOWS)
    row = cells(w)[node]
    oldest = np.int64(w[NEWEST])
    next_time = NEVER
    for message in range(start, w[NEWEST]):
        at = column(w, message)
        left = 0
        if is_cached(w, node, at):
            left = windows_left(_beats_since(row[at], CACHE_BEAT, tick), cached_for)
            if left <= 0:
                forget_cached(w, node, message)
        if seen_for and is_marked(w, node, at):
            left_seen = windows_left(_beats_since(row[at], SEEN_BEAT, tick), seen_for)
            if left_seen <= 0:
                unmark(w, node, at)
            elif left <= 0 or left_seen < left:
                left = left_seen
        if left > 0:
            oldest = min(oldest, message)
            next_time = min(next_time, tick + left)
    header[AGES_AT] = next_time
    header[OLDEST] = oldest


@inlined
def _beats_since(cell: Word, place: int, tick: int) -> int:
    """Return how many heartbeats ago a message was seen or cached; `place` is SEEN_BEAT or CACHE_BEAT."""
    return int((np.uint64(tick) - (cell >> np.uint64(place))) & np.uint64(BEATS))
