"""How long two peers keep apart after a PRUNE (gossipsub v1.1, "Prune backoff").

Rules, in microseconds:

* BACKOFF-1: A backoff never ends earlier than was agreed before.
* BACKOFF-2: A GRAFT of the peer is refused until the end; one's own waits for the slack too, since clocks and links
  differ. Only after that is the backoff forgotten. With `backoff_until_forgotten` one's own GRAFT waits until then:
  expired backoffs are removed every 15 heartbeats (go, js).
* BACKOFF-3: A PRUNE names whole seconds, rounded up: too long harms nobody, too short gets one's own GRAFT refused.
* BACKOFF-7: A GRAFT in backoff is misbehaviour, and so soon after the PRUNE twice: no clock is that wrong
  (*reference only:* `score`).
* BACKOFF-8: Shortly before the end a GRAFT is none too early, if that is wanted: its sender may have waited by
  another clock (nim; *reference only:* `early_graft_ms`).
* BACKOFF-4: A received time counts up to a bound; a PRUNE without a time, or with none at all,
  counts as one's own (go).
"""

from __future__ import annotations

_SECOND_US = 1_000_000


def later_end(before: int, now: int, backoff: int) -> int:
    """When a backoff ends that starts now; `before` is the end of one that runs, or of none in the past."""
    return max(before, now + backoff)


def is_early(now: int, until: int) -> bool:
    """Whether a GRAFT of the peer comes too early."""
    return now < until


def is_early_of_us(now: int, until: int, slack: int) -> bool:
    """Whether one's own GRAFT would be too early; if not, the backoff can be forgotten."""
    return now < until + slack


def is_flood(now: int, until: int, backoff: int, flood: int) -> bool:
    """Whether an early GRAFT comes less than `flood` after a PRUNE that named `backoff`."""
    return now < until - backoff + flood


def time_left(now: int, until: int) -> int:
    return max(0, until - now)


def seconds_to_name(backoff: int) -> int:
    return -(-backoff // _SECOND_US)


def received_backoff(names_a_time: bool, seconds: int, own: int, most: int) -> int:
    return min(seconds * _SECOND_US if names_a_time and seconds else own, most)
