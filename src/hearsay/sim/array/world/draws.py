"""Random choices: the core's hashes as kernels, and its sample over arrays instead of lists.

`mix` and `extend` are the core's own functions, compiled. `below` is a second version because the core's bounds may
be of any size, and `pick` because the core's sample makes lists; tests compare both with the core's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hearsay.core.rules import mixing
from hearsay.sim.array.machine.compiling import inlined, kernel
from hearsay.sim.array.world.layout import Word, World, bases, candidates, keys, marks, peers, topic_keys

_U32 = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_GOLDEN = np.uint64(mixing.GOLDEN)

mix: Any = mixing.mix
extend: Any = mixing.extend


@inlined
def scaled(high: Word, bound: int) -> Any:
    """Return high × bound / 2^32, rounded down, for a `high` of 32 bits and a bound of up to 63 bits."""
    wide = np.uint64(bound)
    return np.int64(high * (wide >> _U32) + ((high * (wide & _LOW)) >> _U32))


@inlined
def below(draw: Word, bound: int) -> int:
    """Return a random number from 0 to `bound` - 1, made from a draw (`core.shell.randomness.below`)."""
    return scaled(draw >> _U32, bound)


@inlined
def draw1(w: World, purpose: int, a: int) -> Word:
    return extend(bases(w)[purpose], np.uint64(a))


@inlined
def draw2(w: World, purpose: int, a: int, b: int) -> Word:
    return extend(extend(bases(w)[purpose], np.uint64(a)), np.uint64(b))


@kernel
def draw_topic(w: World, purpose: int, node: int, topic: int, word: int) -> Word:
    """Return a router's draw for a topic: (seed, purpose, node, topic, word)."""
    state = extend(bases(w)[purpose], np.uint64(node))
    return extend(extend(state, topic_keys(w)[topic]), np.uint64(word))


@kernel
def pick(w: World, th: int, state: Word, size: int, count: int) -> int:
    """Move a random sample of `count` of the first `size` candidates to the front; return its size.

    It is the sample of `core.shell.randomness.sample`, and keeps the order of the candidates. If there are fewer than
    `count`, it has all. The loop has no branches, because the processor would mispredict half of them.
    """
    if count >= size:
        return size
    known = candidates(w)[th]
    chosen = marks(w)[th]
    choose(state, size, count, chosen)
    kept = 0
    for place in range(size):
        known[kept] = known[place]
        kept += np.int64(chosen[place])
        chosen[place] = 0
    return int(kept)


@kernel
def choose(state: Word, size: int, count: int, marks: Any) -> None:
    """Set `count` random ones of the first `size` marks to 1; all must be 0 before."""
    word = np.uint64(0)
    halves = False
    for bound in range(size - count + 1, size + 1):
        if halves:
            half = word & _LOW
        else:
            word = mix(state)
            state += _GOLDEN
            half = word >> _U32
        halves = not halves
        index = np.int64((half * np.uint64(bound)) >> _U32)
        if marks[index]:
            marks[bound - 1] = 1
        else:
            marks[index] = 1


@kernel
def shuffle(w: World, th: int, state: Word, start: int, end: int) -> None:
    """Shuffle the slots in `candidates[th, start:end]` (`core.shell.randomness.shuffled`)."""
    known = candidates(w)[th]
    order = keys(w)[th]
    for place in range(start, end):
        slot = known[place]
        peer = peers(w)[slot]
        key = extend(state, np.uint64(peer))
        at = place
        while at > start and (order[at - 1] > key or (order[at - 1] == key and peers(w)[known[at - 1]] > peer)):
            order[at] = order[at - 1]
            known[at] = known[at - 1]
            at -= 1
        order[at] = key
        known[at] = slot
