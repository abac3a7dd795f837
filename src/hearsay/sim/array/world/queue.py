"""The queue of events: a ring of buckets. Usually a bucket spans no more time than the smallest latency.

An event is two words. If links need memory (`slots.py`), an event also has a link, in `queued_links`. For each
bucket, each thread has a chain of chunks, and each chunk has room for `CHUNK` events. When a bucket opens, its events
are sorted by node. All its events are known then, except those that a node creates for itself; these go into a small
heap (`near`). So nodes are handled one after the other, each with all its events of the bucket, and the data of a
node are loaded once. Events beyond the ring of buckets wait in `far`.

A bucket is handled in parts: spans of time that end at events of the whole network, such as faults (`run/loop.py`).
If a bucket will have many parts, its events are divided by time into `DIVISIONS` chains for each thread when it opens
(BUCKET_IS_SPLIT). Then the kernels read only the chains with the events of the open part.

The events of all nodes are handled together, in the order of time (LOOKAHEAD is 0), if the smallest latency is too
short, if routers choose their neighbours, or with partial messages (`build.py`). Then `near` has all events of the
open part."""

from __future__ import annotations

from typing import Any

from hearsay.sim.array.compiling import inlined, kernel
from hearsay.sim.array.world.layout import (
    BLOCK_BITS,
    BLOCKS,
    BUCKET,
    BUCKET_IS_SPLIT,
    BUCKETS,
    CHUNK_END,
    CHUNK_FREE,
    CHUNK_FRESH,
    FAR,
    FAR_FIRST,
    HAS_LINKS,
    HELD_END,
    NEAR,
    NEAR_SERIAL,
    NOW,
    PART_BLOCKS,
    PART_END,
    QUEUE_FULL,
    STATUS,
    THREADS,
    WIDTH_BITS,
    World,
    block_starts,
    chunk_next,
    control,
    far,
    fills,
    heads,
    near,
    queued,
    queued_links,
    sorted_events,
    sorted_links,
    tails,
    touch_queued,
)

OFFSET, EVENT_KIND, EVENT_SOURCE, VIA = 44, 40, 12, 8
"""The numbers of the lowest bits of fields of word 0: time since the bucket began, kind, source + 1, via + 1. The
bits below VIA are the hops."""
NODE = 36
"""The number of the lowest bit of the node in word 1; the bits below are the payload."""
PAYLOAD = (1 << 36) - 1
INLINE = 1 << 35
GOSSIP = 1 << 34
TOPIC_PART = 1 << 33
"""Bits in the payloads of RPCs of one part. If none is set, the payload is the index of the RPC in the arena. INLINE:
the part is a message. GOSSIP: the part is an IHAVE. TOPIC_PART: the part consists of a kind and a topic, or is an
IDONTWANT with one message."""
GOSSIP_SPAN = 18
"""An IHAVE that is stored in an event names messages whose numbers exceed that of the first by at most this much."""
_WORD0_BITS = 12
_MESSAGE_BITS = 28
MESSAGE = (1 << _MESSAGE_BITS) - 1
_SOURCE_BITS = (1 << 28) - 1


@inlined
def source_of(w0: int) -> int:
    return ((w0 >> EVENT_SOURCE) & _SOURCE_BITS) - 1


@inlined
def word_0(kind: int, source: int, via: int, hops: int) -> int:
    """Return word 0 of an event, without its time."""
    return kind << EVENT_KIND | (source + 1) << EVENT_SOURCE | (via + 1) << VIA | hops


@inlined
def gossip_rest(others: int) -> tuple[int, int]:
    """Return the lowest bits of `others` as via and hops for `word_0`. `others` has a bit for each message after the
    first of an IHAVE."""
    return ((others >> VIA) & 15) - 1, others & 255


@inlined
def gossip_payload(first: int, others: int) -> int:
    """Return the payload of an IHAVE: its first message, and the highest bits of `others`. Word 0 has the lowest bits
    (`gossip_rest`)."""
    return GOSSIP | (others >> _WORD0_BITS) << _MESSAGE_BITS | first


@inlined
def topic_payload(kind: int, topic: int) -> int:
    """Return the payload of a SUBSCRIBE, UNSUBSCRIBE, GRAFT or PRUNE; for an IDONTWANT, `topic` is the message."""
    return TOPIC_PART | kind << _MESSAGE_BITS | topic


@inlined
def topic_kind(payload: int) -> int:
    return (payload & (TOPIC_PART - 1)) >> _MESSAGE_BITS


@inlined
def gossip_bits(w0: int, payload: int) -> int:
    """Return the bits `others` of an IHAVE that is stored in an event: one for each message after the first."""
    return ((payload & (GOSSIP - 1)) >> _MESSAGE_BITS) << _WORD0_BITS | w0 & ((1 << _WORD0_BITS) - 1)


@kernel
def _earlier(a: Any, b: Any) -> bool:
    """Return whether entry `a` of `near` comes before entry `b`: by time, node, kind, source and order of
    insertion."""
    if a[0] >> OFFSET != b[0] >> OFFSET:
        return a[0] < b[0]
    if a[1] >> NODE != b[1] >> NODE:
        return a[1] < b[1]
    if a[0] >> EVENT_SOURCE != b[0] >> EVENT_SOURCE:
        return a[0] < b[0]
    return a[3] < b[3]


@kernel
def swap(heap: Any, a: int, b: int) -> None:
    """Exchange two lines of an array."""
    for field in range(heap.shape[1]):
        kept = heap[a, field]
        heap[a, field] = heap[b, field]
        heap[b, field] = kept


@kernel
def hold_near(w: World, th: int, w0: int, w1: int, link: int) -> None:
    line = control(w)[th]
    heap = near(w)[th]
    place = line[NEAR]
    if place == heap.shape[0]:
        w[STATUS] = QUEUE_FULL
        return
    line[NEAR] = place + 1
    heap[place, 0] = w0
    heap[place, 1] = w1
    heap[place, 2] = link
    heap[place, 3] = line[NEAR_SERIAL]
    line[NEAR_SERIAL] += 1
    while place > 0:
        parent = (place - 1) // 2
        if not _earlier(heap[place], heap[parent]):
            break
        swap(heap, place, parent)
        place = parent


@kernel
def pop_near(w: World, th: int) -> Any:
    """Remove the first event of `near`; return its two words and its link."""
    line = control(w)[th]
    heap = near(w)[th]
    w0, w1, link = heap[0, 0], heap[0, 1], heap[0, 2]
    size = line[NEAR] - 1
    line[NEAR] = size
    for field in range(4):
        heap[0, field] = heap[size, field]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and _earlier(heap[child + 1], heap[child]):
            child += 1
        if not _earlier(heap[child], heap[place]):
            break
        swap(heap, place, child)
        place = child
    return w0, w1, link


@kernel
def near_is_first(w: World, th: int, w0: int, w1: int) -> bool:
    """Return whether the first event of `near` comes before an event of the bucket with the words `w0` and `w1`."""
    top = near(w)[th, 0]
    if top[0] >> OFFSET != w0 >> OFFSET:
        return top[0] < w0
    if top[1] >> NODE != w1 >> NODE:
        return top[1] < w1
    return top[0] >> EVENT_SOURCE < w0 >> EVENT_SOURCE


CHUNK = 1024
DIVISIONS = 64
_DIVISION_BITS = 6
NO_BUCKET = 1 << 60
"""Value of FAR_FIRST if no event waits in `far`."""
_FEW = 48
_ALL = 63
"""The number of bits by which word 1 is shifted if all nodes are to be in block 0."""


@inlined
def push(w: World, th: int, time: int, node: int, kind: int, source: int, payload: int, link: int) -> None:
    insert(w, th, time, word_0(kind, source, -1, 0), node << NODE | payload, link, 1)


@inlined
def insert(w: World, th: int, time: int, rest: int, w1: int, link: int, kept: int) -> None:
    """Queue an event; `rest` is word 0 without the time. If `kept` is 0, the event is not queued: see `append`."""
    bits = w[WIDTH_BITS]
    bucket = time >> bits
    w0 = (time - (bucket << bits)) << OFFSET | rest
    if time < w[HELD_END]:
        hold_near(w, th, w0, w1, link)
    elif bucket - w[BUCKET] < w[BUCKETS]:
        ring = bucket & (w[BUCKETS] - 1)
        if w[BUCKET_IS_SPLIT] and bucket == w[BUCKET]:
            ring = _division(w, w0 >> OFFSET)
        append(w, th, ring, w0, w1, link, kept)
    elif kept:
        _hold_far(w, th, bucket, w0, w1, link)


@kernel
def queue_again(w: World, th: int, w0: int, w1: int, link: int) -> None:
    """Put an event back into the open bucket, because the open part now ends before the event."""
    append(w, th, w[BUCKET] & (w[BUCKETS] - 1), w0, w1, link, 1)


@kernel
def _hold_far(w: World, th: int, bucket: int, w0: int, w1: int, link: int) -> None:
    line = control(w)[th]
    waiting = far(w)[th]
    place = line[FAR]
    if place == waiting.shape[0]:
        w[STATUS] = QUEUE_FULL
        return
    line[FAR] = place + 1
    waiting[place, 0] = bucket
    waiting[place, 1] = w0
    waiting[place, 2] = w1
    waiting[place, 3] = link
    line[FAR_FIRST] = min(line[FAR_FIRST], bucket)


@inlined
def append(w: World, th: int, ring: int, w0: int, w1: int, link: int, kept: int) -> None:
    """Add an event to the thread's chain `ring`. `kept` is 1 or 0; if it is 0, the next event overwrites this
    event. So the event is not queued, and the code needs no branch."""
    if fills(w)[th, ring] == CHUNK:
        _new_chunk(w, th, ring)
    fill = fills(w)[th, ring]
    place = tails(w)[th, ring] * CHUNK + fill
    queued(w)[place, 0] = w0
    queued(w)[place, 1] = w1
    if w[HAS_LINKS]:
        queued_links(w)[place] = link
    fills(w)[th, ring] = fill + kept


@kernel
def _new_chunk(w: World, th: int, ring: int) -> None:
    line = control(w)[th]
    fresh = line[CHUNK_FREE]
    if fresh >= 0:
        line[CHUNK_FREE] = chunk_next(w)[fresh]
    elif line[CHUNK_FRESH] < line[CHUNK_END]:
        fresh = line[CHUNK_FRESH]
        line[CHUNK_FRESH] = fresh + 1
    else:
        w[STATUS] = QUEUE_FULL
        fills(w)[th, ring] = 0  # the run ends with an error; until then, events overwrite other events
        return
    chunk_next(w)[fresh] = -1
    if heads(w)[th, ring] < 0:
        heads(w)[th, ring] = fresh
    else:
        chunk_next(w)[tails(w)[th, ring]] = fresh
    tails(w)[th, ring] = fresh
    fills(w)[th, ring] = 0


@kernel
def bring_near(w: World, th: int) -> None:
    """If the first event in `far` is less than half a ring ahead, move all events from `far` that fit into the
    ring."""
    line = control(w)[th]
    if line[FAR_FIRST] - w[BUCKET] >= w[BUCKETS] // 2:
        return
    waiting = far(w)[th]
    kept = 0
    first = NO_BUCKET
    for place in range(line[FAR]):
        bucket = waiting[place, 0]
        if bucket - w[BUCKET] < w[BUCKETS]:
            append(w, th, bucket & (w[BUCKETS] - 1), waiting[place, 1], waiting[place, 2], waiting[place, 3], 1)
        else:
            for field in range(4):
                waiting[kept, field] = waiting[place, field]
            kept += 1
            first = min(first, bucket)
    line[FAR] = kept
    line[FAR_FIRST] = first


@inlined
def _division(w: World, offset: int) -> int:
    """Return the index of a divided bucket's chain for events at `offset` microseconds after the bucket begins."""
    return w[BUCKETS] + (offset >> (w[WIDTH_BITS] - _DIVISION_BITS))


@kernel
def divide(w: World) -> None:
    """Divide the events of the open bucket into DIVISIONS chains, because the bucket will have many parts."""
    ring = w[BUCKET] & (w[BUCKETS] - 1)
    for th in range(w[THREADS]):
        chunk = heads(w)[th, ring]
        last_fill = fills(w)[th, ring]
        heads(w)[th, ring] = -1
        fills(w)[th, ring] = CHUNK
        while chunk >= 0:
            following = chunk_next(w)[chunk]
            for place in range(chunk * CHUNK, chunk * CHUNK + (last_fill if following < 0 else CHUNK)):
                w0 = queued(w)[place, 0]
                link = queued_links(w)[place] if w[HAS_LINKS] else 0
                append(w, th, _division(w, w0 >> OFFSET), w0, queued(w)[place, 1], link, 1)
            _free_chunk(w, th, chunk)
            chunk = following
    w[BUCKET_IS_SPLIT] = 1


@kernel
def _free_chunk(w: World, th: int, chunk: int) -> None:
    line = control(w)[th]
    chunk_next(w)[chunk] = line[CHUNK_FREE]
    line[CHUNK_FREE] = chunk


@kernel
def _ring_at(w: World, time: int) -> int:
    """Return the index of the chain that has the events of the open bucket at a time."""
    if w[BUCKET_IS_SPLIT]:
        return _division(w, time - (w[BUCKET] << w[WIDTH_BITS]))
    return w[BUCKET] & (w[BUCKETS] - 1)


@kernel
def has_events(w: World) -> bool:
    """Return whether there may be events in the open part; False means that there are none."""
    for th in range(w[THREADS]):
        for ring in range(_ring_at(w, w[NOW]), _ring_at(w, w[PART_END] - 1) + 1):
            if heads(w)[th, ring] >= 0:
                return True
    return False


@kernel
def gather(w: World) -> None:
    """Move the events of the open part to `sorted_events`, grouped by block of nodes. In a divided bucket, a few
    events form a single block."""
    starts = block_starts(w)[0]
    limit = w[PART_END] - (w[BUCKET] << w[WIDTH_BITS])
    shift = NODE + w[BLOCK_BITS]
    w[PART_BLOCKS] = w[BLOCKS]
    if w[BUCKET_IS_SPLIT]:
        starts[1] = 0
        _count(w, limit, _ALL)
        if starts[1] <= _FEW:
            shift = _ALL
            w[PART_BLOCKS] = 1
    blocks = w[PART_BLOCKS]
    for block in range(blocks + 1):
        starts[block] = 0
    _count(w, limit, shift)
    for block in range(blocks):
        starts[block + 1] += starts[block]
    ends = block_starts(w)[1]
    for block in range(blocks):
        ends[block] = starts[block]
    out = sorted_events(w)[0]
    out_links = sorted_links(w)[0]
    if starts[blocks] > out.shape[0]:
        w[STATUS] = QUEUE_FULL
        return
    for th in range(w[THREADS]):
        for ring in range(_ring_at(w, w[NOW]), _ring_at(w, w[PART_END] - 1) + 1):
            chunk = heads(w)[th, ring]
            last_fill = fills(w)[th, ring]
            heads(w)[th, ring] = -1
            fills(w)[th, ring] = CHUNK
            while chunk >= 0:
                following = chunk_next(w)[chunk]
                fill = last_fill if following < 0 else CHUNK
                for place in range(chunk * CHUNK, chunk * CHUNK + fill):
                    w0 = queued(w)[place, 0]
                    w1 = queued(w)[place, 1]
                    if w0 >> OFFSET < limit:
                        block = w1 >> shift
                        end = ends[block]
                        ends[block] = end + 1
                        out[end, 0] = w0
                        out[end, 1] = w1
                        if w[HAS_LINKS]:
                            out_links[end] = queued_links(w)[place]
                    else:
                        append(w, th, ring, w0, w1, queued_links(w)[place] if w[HAS_LINKS] else 0, 1)
                _free_chunk(w, th, chunk)
                chunk = following


@kernel
def _count(w: World, limit: int, shift: int) -> None:
    """Count the events of the open part by block: add the number for block b to `block_starts[0, b + 1]`."""
    starts = block_starts(w)[0]
    for th in range(w[THREADS]):
        for ring in range(_ring_at(w, w[NOW]), _ring_at(w, w[PART_END] - 1) + 1):
            chunk = heads(w)[th, ring]
            while chunk >= 0:
                last = chunk_next(w)[chunk] < 0
                if not last:
                    for place in range(4):
                        touch_queued(w, 2 * chunk_next(w)[chunk] * CHUNK + 8 * place)
                for place in range(chunk * CHUNK, chunk * CHUNK + (fills(w)[th, ring] if last else CHUNK)):
                    if queued(w)[place, 0] >> OFFSET < limit:
                        starts[(queued(w)[place, 1] >> shift) + 1] += 1
                chunk = chunk_next(w)[chunk]
