"""Counter-based randomness: every random choice is a hash, never a stream.

Rules (a run must not depend on the order of calls, on the machine or on `PYTHONHASHSEED`):

* A draw is `mix` of words (64-bit integers): seed, purpose, node, topic, tick or count, candidate. The same words
  give the same draw, in any order of calls.
* Peers, topics and message ids become 64-bit keys with `key_of`; integers are their own key.
* "Shuffle and take k" is `sample`: Floyd's algorithm over the candidates in ascending order, two 32-bit draws
  from each hash. The answer depends on the set of candidates alone.

Theory: `mix` and `extend` are those of `rules/mixing.py`, so that other engines can repeat every draw exactly. Words
are hashed one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from functools import lru_cache
from hashlib import blake2b
from typing import TypeVar

from hearsay.core.language.identifiers import Identifier
from hearsay.core.rules.mixing import GOLDEN, MASK, extend, mix

T = TypeVar("T")


class Purpose(IntEnum):
    """Purpose of a draw. Values are part of the determinism contract: append, never renumber."""

    LATENCY = 1
    TOPOLOGY = 2
    HEARTBEAT_PHASE = 3
    GRAFT = 4
    PRUNE = 5
    GOSSIP = 6
    INJECTION = 7
    FANOUT = 8
    JOIN = 9
    RANDOMSUB = 10
    PUBLISH_TOP_UP = 11
    LOSS = 12
    JITTER = 13
    SUBSCRIPTION = 14
    POPULATION = 15
    PUBLISHER = 16
    TOPIC_OF_MESSAGE = 17
    ARRIVAL = 18
    REJECT = 19
    SESSION = 20
    CRASH = 21
    PARTITION = 22
    REDIAL = 23
    REGION = 24
    LINK_CUT = 25
    PEER_EXCHANGE = 26
    GOSSIP_IDS = 27
    MAKE_WAY = 28
    PROMISED = 29
    GATED = 30
    KEPT = 31
    OUTBOUND = 32
    OPPORTUNITY = 33
    EXCHANGE_DIAL = 34
    ASKED = 35
    NAT = 64
    CONTACT = 65
    NODES = 66
    JOIN_AT = 67
    JOIN_WALK = 68
    FORWARD_JOIN = 69
    PASSIVE_EVICT = 70
    ACTIVE_EVICT = 71
    GROW = 72
    GROW_NEAR = 73
    PING = 74
    SHUFFLE = 75
    SHUFFLE_ACTIVE = 76
    SHUFFLE_PASSIVE = 77
    SHUFFLE_WALK = 78
    SHUFFLE_REPLY = 79
    PROBE = 80
    PERIOD = 81
    RENDEZVOUS = 82
    RATED = 83
    INVALID = 84
    INVALID_SENDERS = 85
    WITNESSES = 86


def below(draw: int, bound: int) -> int:
    """Map a 64-bit draw to 0 … bound-1 by multiplication of its upper 32 bits."""
    return ((draw >> 32) * bound) >> 32


@lru_cache(maxsize=1 << 16)
def _key_of_text(identifier: str | bytes) -> int:
    raw = identifier.encode() if isinstance(identifier, str) else identifier
    return int.from_bytes(blake2b(raw, digest_size=8).digest(), "little")


def key_of(identifier: Identifier) -> int:
    """Return the 64-bit key of a peer, topic or message id."""
    if isinstance(identifier, int):
        return identifier & MASK
    return _key_of_text(identifier)


class Randomness:
    """The only source of randomness of a run: a seed, with draws by purpose."""

    __slots__ = ("_bases", "seed")

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._bases = {purpose: extend(purpose, seed) for purpose in Purpose}

    def draw(self, purpose: Purpose, *words: int) -> int:
        """Return a 64-bit draw for these words."""
        state = self._bases[purpose]
        for word in words:
            state = extend(state, word)
        return state

    def below(self, bound: int, purpose: Purpose, *words: int) -> int:
        """Return a draw from 0 … bound-1."""
        return ((self.draw(purpose, *words) >> 32) * bound) >> 32

    def chance(self, millionths: int, purpose: Purpose, *words: int) -> bool:
        """Return True in `millionths` of a million cases."""
        return ((self.draw(purpose, *words) >> 32) * 1_000_000) >> 32 < millionths

    def distinct(self, count: int, bound: int, exclude: int, purpose: Purpose, *words: int) -> list[int]:
        """Return `count` distinct draws from 0 … bound-1 except `exclude` (-1 excludes none), in drawing order.

        Draws are repeated until new, which suits a few out of many.
        """
        state = self.draw(purpose, *words)
        drawn: list[int] = []
        attempt = 0
        while len(drawn) < count:
            candidate = below(extend(state, attempt), bound)
            attempt += 1
            if candidate != exclude and candidate not in drawn:
                drawn.append(candidate)
        return drawn


def sample(state: int, candidates: Sequence[T], count: int) -> list[T]:
    """Return `count` of `candidates` without replacement, in the candidates' order; all if there are no more.

    `candidates` must be in ascending order, so that equal sets give equal samples. `state` is a draw.
    """
    size = len(candidates)
    if count >= size:
        return list(candidates)
    if count <= 0:
        return []
    return [candidates[index] for index in sample_indices(state, size, count)]


def sample_indices(state: int, size: int, count: int) -> list[int]:
    """Return Floyd's sample of `count` indices out of `size`, ascending; 0 <= count < size."""
    chosen: set[int] = set()
    word = 0
    halves = 0
    for bound in range(size - count + 1, size + 1):
        if halves:
            half = word & 0xFFFFFFFF
            halves = 0
        else:
            word = mix(state)
            state += GOLDEN
            half = word >> 32
            halves = 1
        index = (half * bound) >> 32
        chosen.add(bound - 1 if index in chosen else index)
    return sorted(chosen)


def shuffled(state: int, candidates: Iterable[Identifier]) -> list[Identifier]:
    """Return the candidates in an order that depends on `state`, a draw, and on each of them alone."""
    return sorted(candidates, key=lambda each: (extend(state, key_of(each)), each))
