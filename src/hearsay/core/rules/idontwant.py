"""When peers are told that a message need not be sent, and how much of what they say is heard (v1.2, IDONTWANT).

* IDONTWANT-1: A message of `idontwant_threshold_bytes` or more is worth telling of; a threshold of 0 tells of none
  (*reference only:* `idontwant_threshold_bytes`).
* IDONTWANT-2: Of one RPC the first ids are heard, of all its IDONTWANTs together, and of one peer the first RPCs
  and ids (js, nim, jvm) between two heartbeats. What is over is not heard, and is no offence (go; *reference only:*
  `idontwant_threshold_bytes`).
* IDONTWANT-3: What a peer said is forgotten in the heartbeat that comes `idontwant_ttl_heartbeats` later (*reference
  only:* `idontwant_threshold_bytes`).
"""

from __future__ import annotations


def is_worth_telling(data_bytes: int, threshold_bytes: int) -> bool:
    """IDONTWANT-1."""
    return 0 < threshold_bytes <= data_bytes


def left_of(heard: int, most: int) -> int | None:
    """How many more ids of a peer are heard after so many; `most` 0 is no limit."""
    return most - heard if most else None


def ids_heard(rpcs_before: int, most_rpcs: int, ids: int, most_ids: int, left: int | None = None) -> int:
    """IDONTWANT-2: how many of an RPC's ids are heard after so many RPCs of the peer."""
    if rpcs_before >= most_rpcs:
        return 0
    return min(ids, most_ids if left is None else min(most_ids, left))


def is_forgotten(said: int, tick: int, ttl_heartbeats: int) -> bool:
    """IDONTWANT-3: `said` is the heartbeat before which it was said."""
    return tick - said >= ttl_heartbeats
