"""The two words of an event.

Word 0, from the top: microseconds into the bucket (18 bits), kind (4), source + 1 (28), via + 1 (4), hops (8).
Word 1: node (27 bits), payload (36): a message with the bit `INLINE`, gossip with the bit `GOSSIP`, a part about one
topic with the bit `TOPIC_PART`, or a place in the arena, or what the kind says. Gossip is a message and a bit for
each of the `GOSSIP_SPAN` after it: 6 bits after the message, 12 in place of via and hops. Without its lowest 12 bits
word 0 is the canonical order of events at one node; what is equal there came over one link, and stays in the order it
was sent.
"""

from __future__ import annotations

from hearsay.sim.array.machine.compiling import inlined

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
