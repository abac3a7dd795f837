"""The hash behind every draw and behind the hash of a trace.

`mix` is the finaliser of splitmix64 (Steele, Lea, Flood 2014): a bijection of 64-bit words with full avalanche, cheap
in Python and a handful of instructions in compiled code. It takes Python's integers, compiled words, and arrays of
unsigned 64-bit integers, whose arithmetic wraps as the mask does. There is one version for both engines, because a
difference of one bit changes the run.
"""

from __future__ import annotations

from typing import TypeAlias

Word: TypeAlias = int
"""An unsigned integer of 64 bits."""

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(word: Word) -> Word:
    """Return the 64-bit finaliser of splitmix64 of a word."""
    word = word & MASK
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


def extend(state: Word, word: Word) -> Word:
    """Return a hash extended by one more word."""
    return mix(state + word * GOLDEN)
