"""When a router's heartbeat comes.

Rules:

* BEAT-1: The first comes after a fixed wait and a random share of a spread, so that nodes that start together do not
  beat together.
* BEAT-2: The next is due an interval after this one was due, however late it was handled, so that beats do not drift.
  A call that came more than an interval late skips beats rather than pile them up.
"""

from __future__ import annotations


def first_heartbeat(now: int, wait: int, phase: int) -> int:
    return now + wait + phase


def next_heartbeat(due: int, interval: int, now: int) -> int:
    """`due` is when the beat that is handled now should have come."""
    following = due + interval
    return following if following > now else now + interval
