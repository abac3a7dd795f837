"""Counters over many refreshes at once: what COUNTER-1 and COUNTER-2 come to, in closed form.

A counter that grows by r between refreshes and keeps d of itself at each settles at r / (1 - d) before a refresh and
d times that after it. Where there is no formula that is exact, the first number that does is searched by halving:
what is asked grows or shrinks all the way.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, log

MOST = 1 << 40
"""More than anybody waits for or sends."""


def left(counter: float, decay: float, refreshes: int, zero: float) -> float:
    """Of a counter that nothing is added to (COUNTER-2)."""
    found = counter * decay**refreshes
    return 0.0 if found < zero else found


def settles_at(by: float, decay: float, cap: float, zero: float) -> float:
    """After a refresh, with so much between two of them for a long time: the least that the counter is then."""
    found = min(by / (1.0 - decay), cap) * decay
    return 0.0 if found < zero else found


def refreshes_until(counter: float, decay: float, below: float) -> int:
    """Until the counter is below a number above 0."""
    if counter < below:
        return 0
    return 1 if decay <= 0 else max(1, ceil(log(below / counter) / log(decay)))


def refreshes_to_reach(level: float, by: float, decay: float) -> int | None:
    """Until a counter that starts at 0 is at the level after a refresh; None if it never is."""
    settled = by * decay / (1.0 - decay)
    if level >= settled:
        return None
    return max(1, ceil(log(1.0 - level / settled) / log(decay)))


def first_that(holds: Callable[[int], bool], most: int = MOST) -> int | None:
    """The least number from 0 on for which something holds that goes on holding; None up to `most`."""
    if holds(0):
        return 0
    high = 1
    while not holds(high):
        if high >= most:
            return None
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
