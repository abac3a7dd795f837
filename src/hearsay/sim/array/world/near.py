"""The events that a node creates for itself within the open part of a bucket, and the words of an event."""

from __future__ import annotations

from typing import Any

from hearsay.sim.array.machine.compiling import inlined, kernel
from hearsay.sim.array.world.layout import NEAR, NEAR_SERIAL, STATUS, World, control, near
from hearsay.sim.array.world.status import QUEUE_FULL

OFFSET, EVENT_KIND, EVENT_SOURCE, VIA = 44, 40, 12, 8
NODE = 36
PAYLOAD = (1 << 36) - 1
INLINE = 1 << 35
GOSSIP = 1 << 34
TOPIC_PART = 1 << 33
GOSSIP_SPAN = 18
_WORD0_BITS = 12
_MESSAGE_BITS = 28
MESSAGE = (1 << _MESSAGE_BITS) - 1
_SOURCE_BITS = (1 << 28) - 1


@inlined
def source_of(w0: int) -> int:
    return ((w0 >> EVENT_SOURCE) & _SOURCE_BITS) - 1


@inlined
def word_0(kind: int, source: int, via: int, hops: int) -> int:
    """Without the time."""
    return kind << EVENT_KIND | (source + 1) << EVENT_SOURCE | (via + 1) << VIA | hops


@inlined
def gossip_rest(others: int) -> tuple[int, int]:
    """What stands in place of via and hops: the lowest bits of the messages after the first."""
    return ((others >> VIA) & 15) - 1, others & 255


@inlined
def gossip_payload(first: int, others: int) -> int:
    """The first message, and the other bits."""
    return GOSSIP | (others >> _WORD0_BITS) << _MESSAGE_BITS | first


@inlined
def topic_payload(kind: int, topic: int) -> int:
    """SUBSCRIBE, UNSUBSCRIBE, GRAFT or PRUNE."""
    return TOPIC_PART | kind << _MESSAGE_BITS | topic


@inlined
def topic_kind(payload: int) -> int:
    return (payload & (TOPIC_PART - 1)) >> _MESSAGE_BITS


@inlined
def gossip_bits(w0: int, payload: int) -> int:
    """The messages after the first one that gossip is about."""
    return ((payload & (GOSSIP - 1)) >> _MESSAGE_BITS) << _WORD0_BITS | w0 & ((1 << _WORD0_BITS) - 1)


@kernel
def _earlier(a: Any, b: Any) -> bool:
    """Whether an entry of `near` comes before another: by time, node, kind and source, then as they came."""
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
    """The first of the open bucket's late events: its two words and its link."""
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
    """Whether an event of `near` comes before this one of the bucket."""
    top = near(w)[th, 0]
    if top[0] >> OFFSET != w0 >> OFFSET:
        return top[0] < w0
    if top[1] >> NODE != w1 >> NODE:
        return top[1] < w1
    return top[0] >> EVENT_SOURCE < w0 >> EVENT_SOURCE
