"""The queue of events: a calendar of buckets as wide as the smallest latency, sorted by node when they open.

An event is two words, and a link in `queued_links` if links have memory. A bucket is a chain of chunks of `CHUNK`
events, one chain for each thread; the buckets form a ring. When a bucket opens, all its events are known except those
that a node creates for itself; these go into a small heap (`near`). So nodes are handled one after the other, each
with all its events of the bucket, and a node's data are loaded once. Events beyond the ring of buckets wait in `far`.

Events of the whole network, such as faults, cut a bucket into parts (`run/loop.py`). If there are many of them, the
events of the bucket are divided into `DIVISIONS` chains by time when it opens (BUCKET_IS_SPLIT), so that a part does
not go through all of them.

Where latencies have no useful lower bound, buckets are wider than the smallest latency, and their events are handled
in the order of time, all nodes together (`LOOKAHEAD` is off). Then `near` holds all events of the open part."""

from __future__ import annotations

from typing import Any

from hearsay.sim.array.machine.compiling import inlined, kernel
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
"""Lowest bits of the fields of word 0: time since the bucket began, kind, source + 1, via + 1; below are the hops."""
NODE = 36
"""The lowest bit of the node in word 1; the bits below are the payload."""
PAYLOAD = (1 << 36) - 1
INLINE = 1 << 35
GOSSIP = 1 << 34
TOPIC_PART = 1 << 33
"""Bits of payloads of RPCs of one part. Without them, the payload of an RPC is its index in the arena. INLINE: the
part is a message. GOSSIP: it is an IHAVE. TOPIC_PART: it consists of a kind and a topic."""
GOSSIP_SPAN = 18
"""An IHAVE in the queue names messages up to this many after the first one."""
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
    """Return the lowest bits of `others`, a bit for each message after the first, as via and hops for `word_0`."""
    return ((others >> VIA) & 15) - 1, others & 255


@inlined
def gossip_payload(first: int, others: int) -> int:
    """Return the payload of an IHAVE: its first message, and the highest bits of `others`; word 0 has the lowest."""
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
    """Return the bits of an IHAVE in the queue: one for each message after the first."""
    return ((payload & (GOSSIP - 1)) >> _MESSAGE_BITS) << _WORD0_BITS | w0 & ((1 << _WORD0_BITS) - 1)


@kernel
def _earlier(a: Any, b: Any) -> bool:
    """Return whether an entry of `near` comes before another: by time, node, kind and source, then by insertion."""
    if a[0] >> OFFSET != b[0] >> OFFSET:
        return a[0] < b[0]
    if a[1] >> NODE != b[1] >> NODE:
        return a[1] < b[1]
    if a[0] >> EVENT_SOURCE != b[0] >> EVENT_SOURCE:
        return a[0] < b[0]
    return a[3] < b[3]


@kernel
def _swap(heap: Any, a: int, b: int) -> None:
    for field in range(4):
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
        _swap(heap, place, parent)
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
        _swap(heap, place, child)
        place = child
    return w0, w1, link


@kernel
def near_is_first(w: World, th: int, w0: int, w1: int) -> bool:
    """Return whether the first event of `near` comes before an event of the bucket, given by its two words."""
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
"""Shifts every node to block 0."""


@inlined
def push(w: World, th: int, time: int, node: int, kind: int, source: int, payload: int, link: int) -> None:
    insert(w, th, time, word_0(kind, source, -1, 0), node << NODE | payload, link, 1)


@inlined
def insert(w: World, th: int, time: int, rest: int, w1: int, link: int, kept: int) -> None:
    """Queue an event; `rest` is word 0 without the time. With `kept` 0 nothing is queued, without a branch."""
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
    """Add an event to a bucket of the ring; with `kept` 0 the next event overwrites it."""
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
        fills(w)[th, ring] = 0  # the run ends; until then events overwrite others
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
    """Move events from the far list into the ring once the first of them is less than half a ring ahead."""
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
    """Return the chain of a divided bucket for events `offset` microseconds after the bucket begins."""
    return w[BUCKETS] + (offset >> (w[WIDTH_BITS] - _DIVISION_BITS))


@kernel
def divide(w: World) -> None:
    """Divide the events of the bucket that opens into DIVISIONS chains, because it will be handled in many parts."""
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
def _first_ring(w: World) -> int:
    """Return the first chain of the open part."""
    if w[BUCKET_IS_SPLIT]:
        return _division(w, w[NOW] - (w[BUCKET] << w[WIDTH_BITS]))
    return w[BUCKET] & (w[BUCKETS] - 1)


@kernel
def _last_ring(w: World) -> int:
    if w[BUCKET_IS_SPLIT]:
        return _division(w, w[PART_END] - 1 - (w[BUCKET] << w[WIDTH_BITS]))
    return w[BUCKET] & (w[BUCKETS] - 1)


@kernel
def has_events(w: World) -> bool:
    """Return whether there may be events in the open part."""
    for th in range(w[THREADS]):
        for ring in range(_first_ring(w), _last_ring(w) + 1):
            if heads(w)[th, ring] >= 0:
                return True
    return False


@kernel
def gather(w: World) -> None:
    """Move the events of the open part to `sorted_events`, sorted by block of nodes. A few events form one block."""
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
        for ring in range(_first_ring(w), _last_ring(w) + 1):
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
    """Count the events of the open part by block: those of block b in `block_starts` at b + 1."""
    starts = block_starts(w)[0]
    for th in range(w[THREADS]):
        for ring in range(_first_ring(w), _last_ring(w) + 1):
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
