"""Numbers put in ascending order, in place."""

from __future__ import annotations

from typing import Any

from hearsay.sim.array.machine.compiling import kernel


@kernel
def sort_numbers(numbers: Any, start: int, end: int) -> None:
    """Shell's: quick where few are out of place, and no disaster where many are."""
    gap = 1
    while 3 * gap < end - start:
        gap = 3 * gap + 1
    while gap > 0:
        for place in range(start + gap, end):
            number = numbers[place]
            at = place
            while at - gap >= start and numbers[at - gap] > number:
                numbers[at] = numbers[at - gap]
                at -= gap
            numbers[at] = number
        gap //= 3
