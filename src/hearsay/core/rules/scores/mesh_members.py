"""Members that stay in a mesh, and peers that enter beyond its degree (gossipsub v1.1, "Mesh maintenance").

Attackers dial into a mesh and deliver little; so the best members stay, and some that this node dialled. Rules:

* KEEP-1: A heartbeat prunes members with a negative score, and its PRUNE names no other peers.
* KEEP-2: A mesh that is too large keeps the D_score best; the others that stay are drawn.
* KEEP-3: D_out dialled peers stay, if the mesh has that many: they take the places of peers that were drawn last and
  not dialled. If fewer than D_out would stay, js keeps as many as have places.
* KEEP-4: A mesh with D_low or more members, but fewer than D_out dialled ones, grafts dialled peers up to D_out.
* KEEP-5: Every few heartbeats, a mesh of two or more members with a poor median score grafts a few peers above the
  median, at random (go, rust, js), the first of them (jvm), or the first that are at least as good (nim). So a mesh
  full of idle peers recovers.
* KEEP-6: A full mesh accepts a peer that this node dialled (go, js), while it has too few of them (nim), or never
  (rust).
"""

from __future__ import annotations

ALWAYS, QUOTA, NEVER = range(3)
"""Return True if a full mesh accepts a peer that this node dialled."""
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
    """Return True if a heartbeat checks the median of a mesh."""
    return every > 0 and tick % every == 0 and size > 1


def median(lower: float, upper: float, rule: int) -> float:
    """Return the median from the two scores in the middle; for an odd number they are equal."""
    if rule == MEAN:
        return (lower + upper) / 2.0
    return lower if rule == LOWER else upper


def enters_a_full_mesh(outbound: bool, rule: int, dialled: int, degree_out: int) -> bool:
    if not outbound or rule == NEVER:
        return False
    return rule == ALWAYS or dialled < degree_out
