"""Decisions of a broadcast tree: hops, repair and optimisation (rules: `core/episub/tree.py` and `caches.py`).

Sources: episub spec, "Broadcast Protocol" and "Multicast Tree Repair"; Leitão, Pereira, Rodrigues: Epidemic Broadcast
Trees, 2007."""

from __future__ import annotations

MAX_HOPS = 10_000
"""Larger hop counts in messages of peers are lowered to this."""


def hops_of_copy(named: int) -> int:
    """Return the hops of a received copy; `named` is the hop count in it, or 0 if it has none, which counts as 1."""
    return min(named, MAX_HOPS) if named else 1


def announced_hops(named: int) -> int:
    return max(0, min(named, MAX_HOPS))


def is_shortcut(hops: int, lazy_hops: int, threshold: int) -> bool:
    """TREE-4: return True if a lazy link replaces an eager one; `hops` is the length of the eager path."""
    return 0 < threshold <= hops - (lazy_hops + 1)


def next_tick(now: int, tick_us: int) -> int:
    """TREE-3: return the next time of the persistent timer, which ticks on a fixed grid."""
    return (now // tick_us + 1) * tick_us


def is_requested(touches: int, attempts: int) -> bool:
    """REPAIR-1: return True if a GRAFT requests a missing message, after `touches` ticks of the repair timer."""
    return 2 <= touches <= attempts + 1


def is_given_up(touches: int, attempts: int) -> bool:
    """REPAIR-1: return True if a missing message is given up, after `touches` ticks of the repair timer."""
    return touches > attempts + 1


def announcer_in_turn(touches: int, announcers: int) -> int:
    """REPAIR-1: return the index of the announcer that gets the GRAFT."""
    return (touches - 2) % announcers
