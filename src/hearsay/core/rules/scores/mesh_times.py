"""When mesh deliveries are expected of a peer.

Rules:

* ACTIVE-1: A peer's deliveries are expected (P3) once it has been in the mesh for longer than the activation, and a
  GRAFT starts that anew. Earlier nobody can have delivered enough.
* ACTIVE-2: A refresh looks at that (go), or every reading of the score (jvm).
* ACTIVE-3: When the peer leaves the mesh, deliveries are expected no longer (rust, js, jvm); with go they are, so
  that the deficit of a peer that is still connected grows until it is grafted again.
* ACTIVE-4: Leaving the mesh with a deficit counts as a failure (P3b). With go it does so again for a PRUNE of a peer
  that has left already; elsewhere not.
"""

from __future__ import annotations


def is_active(mesh_time: int, activation: int) -> bool:
    return mesh_time > activation


def stays_active(active: bool, deficit_after_prune: bool) -> bool:
    """After the peer has left the mesh."""
    return active and deficit_after_prune


def counts_as_failure(active: bool, member: bool, second_prune_counts: bool) -> bool:
    """Whether a deficit at a PRUNE counts."""
    return active and (member or second_prune_counts)
