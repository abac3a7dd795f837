"""Counter-based randomness: every random choice is a hash, never the next value of a stream.

Rules (a run must not depend on the order of calls, on the machine or on `PYTHONHASHSEED`):

* A draw is `mix` of words (64-bit integers): seed, purpose, node, topic, tick or count, candidate. The same words
  give the same draw, in any order of calls.
* Peers, topics and message ids become 64-bit keys with `key_of`; integers are their own key.
* `sample` chooses k candidates by Floyd's algorithm. It takes the candidates in ascending order, and two 32-bit
  numbers from each hash. The result depends only on the draw and the set of candidates.

Theory: `mix` is the finaliser of splitmix64 (Steele, Lea, Flood 2014): a bijection of 64-bit words with full
avalanche, cheap in Python and a few instructions in compiled code. Its argument is a Python integer, a compiled word,
or an array of unsigned 64-bit integers, whose arithmetic wraps as the mask does. Engines and the hash of a trace use
this one function, because a difference of one bit changes the run. A draw hashes its words one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from functools import lru_cache
from hashlib import blake2b
from typing import TypeAlias, TypeVar

from hearsay.core.language.identifiers import Identifier

Word: TypeAlias = int
"""An unsigned integer of 64 bits."""

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
T = TypeVar("T")


def mix(word: Word) -> Word:
    """Return splitmix64's finaliser of the lowest 64 bits of a word."""
    word = word & MASK
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


def extend(state: Word, word: Word) -> Word:
    """Return a hash extended by one more word."""
    return mix(state + word * GOLDEN)


class Purpose(IntEnum):
    """The purpose of a draw. Every draw depends on the value of its purpose: append, never renumber."""

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
    """Return the number in 0 … bound-1 to which the upper 32 bits of a draw correspond, in proportion."""
    return ((draw >> 32) * bound) >> 32


@lru_cache(maxsize=1 << 16)
def _key_of_text(identifier: str | bytes) -> int:
    raw = identifier.encode() if isinstance(identifier, str) else identifier
    return int.from_bytes(blake2b(raw, digest_size=8).digest(), "little")


def key_of(identifier: Identifier) -> int:
    """Return the 64-bit key of a peer, topic or message id: the lower 64 bits of an integer, a hash of a text or of
    bytes."""
    if isinstance(identifier, int):
        return identifier & MASK
    return _key_of_text(identifier)


class Randomness:
    """The only source of randomness of a run: draws that depend on the run's seed."""

    __slots__ = ("_bases", "seed")

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._bases = {purpose: extend(purpose, seed) for purpose in Purpose}

    def draw(self, purpose: Purpose, *words: int) -> int:
        """Return the 64-bit draw for a purpose and these words."""
        state = self._bases[purpose]
        for word in words:
            state = extend(state, word)
        return state

    def below(self, bound: int, purpose: Purpose, *words: int) -> int:
        """Return a number in 0 … bound-1, made from the draw for a purpose and these words."""
        return ((self.draw(purpose, *words) >> 32) * bound) >> 32

    def chance(self, millionths: int, purpose: Purpose, *words: int) -> bool:
        """Return True with a probability of `millionths` / 1,000,000."""
        return ((self.draw(purpose, *words) >> 32) * 1_000_000) >> 32 < millionths

    def distinct(self, count: int, bound: int, exclude: int, purpose: Purpose, *words: int) -> list[int]:
        """Return `count` distinct numbers in 0 … bound-1 without `exclude`, in the order of the draws. An `exclude`
        of -1 excludes no number.

        A number that is excluded or was drawn before is drawn again. So this takes long if `count` is not much
        smaller than `bound`, and never ends if there are not enough numbers.
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
    """Return a random sample of `count` candidates in the given order; all candidates if there are no more, none if
    `count` is 0 or less.

    `candidates` must be in ascending order, so that equal sets give equal samples. `state` is a draw.
    """
    size = len(candidates)
    if count >= size:
        return list(candidates)
    if count <= 0:
        return []
    return [candidates[index] for index in sample_indices(state, size, count)]


def sample_indices(state: int, size: int, count: int) -> list[int]:
    """Return a random sample of `count` indices in 0 … size-1, ascending; 0 <= count < size. `state` is a draw."""
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
    """Return the candidates in random order: sorted by a hash of the candidate and of `state`, which is a draw."""
    return sorted(candidates, key=lambda each: (extend(state, key_of(each)), each))
