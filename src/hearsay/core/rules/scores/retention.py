"""What is kept of a peer that has gone.

Otherwise a peer whose score is bad would come back with none. Rules:

* RETAIN-1: A peer with a positive score is forgotten (go, js), or kept as the others are (nim, jvm). With retention
  off all are forgotten.
* RETAIN-2: Of a peer that is kept, first deliveries are forgotten; it leaves all meshes, with the failures that this
  is (P3b). Its addresses go on counting.
* RETAIN-3: It is kept for a time and forgotten at the first refresh after that. Coming back ends the time, and the
  counters go on where they were; with js it starts afresh.
* RETAIN-4: While it is away nothing decays, so that going away shortens no penalty; with jvm everything does.
"""

from __future__ import annotations


def is_kept(score: float, positive_too: bool, retain: int) -> bool:
    return retain > 0 and (positive_too or score <= 0.0)


def is_forgotten(now: int, until: int) -> bool:
    return now > until
