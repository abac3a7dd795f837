"""How large a mesh is to be.

Rules (r1, "mesh maintenance"; tech report, figures 7 and 8):

* SIZE-1: Below D_low: GRAFT up to D. From `prune_from` peers on, which is D_high or one more: PRUNE down to D.
* SIZE-2: With lent places, those do not count for D_low, but do for D_high (*reference only:* `places_per_address`).
"""

from __future__ import annotations


def is_too_small(own: int, low: int) -> bool:
    """`own` counts the members with places of their own."""
    return own < low


def is_too_large(size: int, prune_from: int) -> bool:
    return size >= prune_from


def mesh_change(size: int, own: int, low: int, degree: int, prune_from: int) -> tuple[int, int]:
    """How many peers with places of their own a heartbeat GRAFTs, and how many peers it PRUNEs."""
    grafts = degree - own if is_too_small(own, low) else 0
    prunes = size - degree if is_too_large(size, prune_from) else 0
    return grafts, prunes


def has_room_for_one(size: int, prune_from: int) -> bool:
    """Whether one more can be GRAFTed out of turn, so that the next heartbeat does not PRUNE again."""
    return not is_too_large(size + 1, prune_from)


def is_full(size: int, refuse_from: int) -> bool:
    """Whether a GRAFT finds no place."""
    return size >= refuse_from
