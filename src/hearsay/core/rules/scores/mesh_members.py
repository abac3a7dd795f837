"""Who stays in a mesh, and who is taken in beyond its degree (gossipsub v1.1, "Mesh maintenance").

Whoever attacks a mesh dials into it, and does little; so the best stay, and some that one dialled oneself. Rules:

* KEEP-1: A heartbeat prunes who has a negative score, and names nobody to them.
* KEEP-2: A mesh that is too large keeps the D_score best; the others that stay are drawn.
* KEEP-3: D_out dialled peers stay, if there are so many: they take the places of those that were drawn last and were
  not dialled. If fewer than D_out would stay, js keeps as many as have places.
* KEEP-4: A mesh with D_low or more members, but fewer than D_out dialled ones, grafts dialled peers up to D_out.
* KEEP-5: Every so many heartbeats a mesh of two or more whose median score is poor grafts a few peers that are better
  than the median, by chance (go, rust, js), the first of them (jvm), or the first that are at least as good (nim). So
  a mesh full of peers that do nothing gets out of it.
* KEEP-6: A full mesh takes in a peer that one dialled (go, js), while it has too few of them (nim), or not (rust).
"""

from __future__ import annotations

ALWAYS, QUOTA, NEVER = range(3)
"""Whether a full mesh takes in a peer that one dialled."""
UPPER, LOWER, MEAN = range(3)
"""Which of the two scores in the middle is the median."""


def dialled_to_keep(kept: int, gone: int, degree_out: int, up_to: int) -> int:
    """How many dialled peers that would go stay after all; `kept` and `gone` count the dialled ones. `up_to` is D_out
    or D."""
    return min(up_to - kept, gone) if kept < degree_out else 0


def dialled_to_graft(size: int, dialled: int, low: int, degree_out: int) -> int:
    """How many dialled peers a mesh grafts."""
    return max(0, degree_out - dialled) if size >= low else 0


def opportunity_is_due(tick: int, every: int, size: int) -> bool:
    """Whether a heartbeat looks at the median of a mesh."""
    return every > 0 and tick % every == 0 and size > 1


def median(lower: float, upper: float, rule: int) -> float:
    """Of the two scores in the middle; of an odd number both are the same."""
    if rule == MEAN:
        return (lower + upper) / 2.0
    return lower if rule == LOWER else upper


def enters_a_full_mesh(outbound: bool, rule: int, dialled: int, degree_out: int) -> bool:
    if not outbound or rule == NEVER:
        return False
    return rule == ALWAYS or dialled < degree_out
