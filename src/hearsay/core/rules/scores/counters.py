"""How the counters behind a score grow and decay.

Rules:

* COUNTER-1: A counter of deliveries never grows above its cap: what was earned long ago is forgotten in bounded time.
* COUNTER-2: A decay multiplies the counter; what falls below the zero of all counters is 0.
* COUNTER-3: Smaller caps hold at once when a topic's parameters change.
"""

from __future__ import annotations


def counted(counter: float, by: float, cap: float) -> float:
    return min(counter + by, cap)


def decayed(counter: float, decay: float, zero: float) -> float:
    left = counter * decay
    return 0.0 if left < zero else left
