"""Random choices: the core's hashes as kernels, and a random sample over arrays instead of lists.

`mix` and `extend` are the core's own functions, compiled. `below` and `pick` are written again for kernels: the
core's `below` allows bounds of any size, and the core's `sample` creates lists. Tests compare both with the core's
functions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hearsay.core.rules import randomness
from hearsay.sim.array.compiling import inlined, kernel
from hearsay.sim.array.world.layout import Word, World, bases, candidates, keys, marks, peers, topic_keys

_U32 = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_GOLDEN = np.uint64(randomness.GOLDEN)

mix: Any = randomness.mix
extend: Any = randomness.extend


@inlined
def scaled(high: Word, bound: int) -> Any:
    """Return high × bound / 2^32, rounded down, for a `high` of 32 bits and a bound of up to 63 bits."""
    wide = np.uint64(bound)
    return np.int64(high * (wide >> _U32) + ((high * (wide & _LOW)) >> _U32))


@inlined
def below(draw: Word, bound: int) -> int:
    """Return a random number from 0 to `bound` - 1, made from a draw (`core.rules.randomness.below`)."""
    return scaled(draw >> _U32, bound)


@inlined
def draw1(w: World, purpose: int, a: int) -> Word:
    return extend(bases(w)[purpose], np.uint64(a))


@inlined
def draw2(w: World, purpose: int, a: int, b: int) -> Word:
    return extend(extend(bases(w)[purpose], np.uint64(a)), np.uint64(b))


@kernel
def draw_topic(w: World, purpose: int, node: int, topic: int, word: int) -> Word:
    """Return a router's draw for a topic: the hash of seed, purpose, node, name of the topic, and `word`."""
    state = extend(bases(w)[purpose], np.uint64(node))
    return extend(extend(state, topic_keys(w)[topic]), np.uint64(word))


@kernel
def pick(w: World, th: int, state: Word, size: int, count: int) -> int:
    """Move a random sample of `count` of the first `size` candidates to the front; return the size of the sample.

    The sample is that of `core.rules.randomness.sample`, in the order of the candidates. If there are fewer than
    `count` candidates, the sample has all of them.
    """
    if count >= size:
        return size
    return keep_sample(candidates(w)[th], 0, size, count, state, marks(w)[th])


@kernel
def keep_sample(numbers: Any, first: int, size: int, count: int, state: Word, marks: Any) -> int:
    """Move a random sample of `count` of the `size` numbers from `first` on to their front, in their order.

    Return the size of the sample. All marks must be 0, and are 0 again after the call. The loop has no branches,
    because the processor would mispredict half of them.
    """
    choose(state, size, count, marks)
    kept = 0
    for place in range(size):
        numbers[first + kept] = numbers[first + place]
        kept += np.int64(marks[place])
        marks[place] = 0
    return int(kept)


@kernel
def choose(state: Word, size: int, count: int, marks: Any) -> None:
    """Set a random sample of `count` of the first `size` marks to 1. All marks must be 0 before the call."""
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
    """Shuffle the slots in `candidates[th, start:end]` (`core.rules.randomness.shuffled`)."""
    for place in range(start, end):
        keys(w)[th, place] = extend(state, np.uint64(peers(w)[candidates(w)[th, place]]))
    sort_by_keys(w, th, start, end)


@kernel
def sort_by_keys(w: World, th: int, start: int, end: int) -> None:
    """Sort `candidates[th, start:end]` by `keys`. Candidates with equal keys ascend."""
    known = candidates(w)[th]
    order = keys(w)[th]
    for place in range(start + 1, end):
        candidate = known[place]
        key = order[place]
        at = place
        while at > start and (order[at - 1] > key or (order[at - 1] == key and known[at - 1] > candidate)):
            order[at] = order[at - 1]
            known[at] = known[at - 1]
            at -= 1
        order[at] = key
        known[at] = candidate
