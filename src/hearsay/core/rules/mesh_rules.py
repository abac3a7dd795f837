"""Decisions about the mesh: its size, answers to GRAFT, backoff, and the times of heartbeats.

Sources: r1, "mesh maintenance"; tech report, figures 7 and 8; v1.1, "Prune backoff"; go. Times are in microseconds.

Heartbeats:

* BEAT-1: The first comes after a fixed wait and a random share of a spread, so that nodes that start together do not
  beat together.
* BEAT-2: The next is due an interval after this one was due, however late it was handled, so that beats do not drift.
  If it was handled more than an interval late, beats are skipped rather than made up for.

Sizes:

* SIZE-1: A mesh below D_low is GRAFTed up to D. A mesh of `prune_from` peers (D_high or one more) is PRUNEd to D.
* SIZE-2: Members with lent places (PLACES-2) do not count for D_low, but they count for D_high.

Backoff:

* BACKOFF-1: A later PRUNE never makes a backoff end earlier.
* BACKOFF-2: A GRAFT of the peer is refused until the end of the backoff. Our own GRAFT also waits for the slack,
  since clocks and links differ, and after it the backoff may be forgotten. With `backoff_until_forgotten` our own
  GRAFT waits until the backoff is removed, which happens every 15 heartbeats (go, js).
* BACKOFF-3: A PRUNE names whole seconds, rounded up: a longer time is harmless, a shorter one gets our GRAFT refused.
* BACKOFF-7: A GRAFT in backoff is misbehaviour. Shortly after the PRUNE it counts twice, since differences of clocks
  cannot explain it.
* BACKOFF-8: With `early_graft_ms`, a GRAFT is accepted shortly before the end of a backoff, since the sender's clock
  may differ (nim).
* BACKOFF-4: A received backoff lasts `max_backoff_ms` at most. A PRUNE that names no backoff, or a backoff of 0,
  begins a backoff of our own `prune_backoff_ms` (go).

Answers to a GRAFT; the first rule that applies decides:

* GRAFT-1: From a peer that does not speak the protocol: nothing, it is dropped.
* GRAFT-2: For a topic that is not joined: a PRUNE (r1) or nothing (v1.1).
* GRAFT-3: From a peer that is not in the topic: a PRUNE. With `unsubscribed_graft` it is treated like a subscriber's;
  if no other rule refuses it, it is dropped (rust), or the peer counts as a subscriber (go, js, nim, jvm).
* GRAFT-4: From a member: nothing, it is one already. With `member_graft_is_judged` the rules below come first (jvm).
* GRAFT-8: From a direct peer: a PRUNE; it gets every message anyway (v1.1). nim counts it as misbehaviour, too; rust
  sends nothing.
* GRAFT-5: In backoff: a PRUNE that restarts it. Otherwise a peer that ignores backoffs could retry until it succeeds.
* GRAFT-9: From a peer with a negative score: a PRUNE without other peers (v1.1). With `unwelcome_graft` the peer is
  in the mesh until the next heartbeat, and gets no answer if its score is below `publish` (nim).
* GRAFT-6: When the mesh is full: a PRUNE that names other peers of the topic.
* GRAFT-7: Otherwise the peer enters the mesh."""

from __future__ import annotations

from hearsay.core.language.actions import Reason


def first_heartbeat(now: int, wait: int, phase: int) -> int:
    return now + wait + phase


def next_heartbeat(due: int, interval: int, now: int) -> int:
    """Return the time of the next heartbeat (BEAT-2); `due` is the time at which the present one was due."""
    following = due + interval
    return following if following > now else now + interval


def is_too_small(own: int, low: int) -> bool:
    """Return True if a mesh needs a GRAFT; `own` counts the members without lent places (SIZE-2)."""
    return own < low


def is_too_large(size: int, prune_from: int) -> bool:
    return size >= prune_from


def mesh_change(size: int, own: int, low: int, degree: int, prune_from: int) -> tuple[int, int]:
    """Return how many peers with places of their own a heartbeat GRAFTs, and how many peers it PRUNEs."""
    grafts = degree - own if is_too_small(own, low) else 0
    prunes = size - degree if is_too_large(size, prune_from) else 0
    return grafts, prunes


def has_room_for_one(size: int, prune_from: int) -> bool:
    """Return True if one more peer can be GRAFTed between heartbeats without a PRUNE at the next one."""
    return not is_too_large(size + 1, prune_from)


def is_full(size: int, refuse_from: int) -> bool:
    """Return True if the mesh has no place for a GRAFT."""
    return size >= refuse_from


_SECOND_US = 1_000_000


def later_end(before: int, now: int, backoff: int) -> int:
    """Return the end of a backoff that starts now. `before` is the end of the last backoff, or any past time."""
    return max(before, now + backoff)


def is_early(now: int, until: int) -> bool:
    """Return True if a GRAFT of the peer comes too early."""
    return now < until


def is_early_of_us(now: int, until: int, slack: int) -> bool:
    """Return True if our own GRAFT would come too early; otherwise the backoff can be forgotten."""
    return now < until + slack


def is_flood(now: int, until: int, backoff: int, flood: int) -> bool:
    """Return True if an early GRAFT comes less than `flood` after a PRUNE with `backoff`."""
    return now < until - backoff + flood


def time_left(now: int, until: int) -> int:
    return max(0, until - now)


def seconds_to_name(backoff: int) -> int:
    return -(-backoff // _SECOND_US)


def received_backoff(names_a_time: bool, seconds: int, own: int, most: int) -> int:
    return min(seconds * _SECOND_US if names_a_time and seconds else own, most)


TAKEN_IN, MEMBER = -1, -2
"""Results of `graft_answer` in place of a reason: the peer enters the mesh, or is in it already."""
UNSUPPORTED = int(Reason.UNSUPPORTED)
NOT_SUBSCRIBED = int(Reason.NOT_SUBSCRIBED)
NOT_A_SUBSCRIBER = int(Reason.NOT_A_SUBSCRIBER)
IN_BACKOFF = int(Reason.BACKOFF)
MESH_IS_FULL = int(Reason.OVER_LIMIT)
FROM_DIRECT = int(Reason.DIRECT_PEER)
UNWELCOME = int(Reason.LOW_SCORE)

NO_PRUNE, BARE_PRUNE, BACKOFF_PRUNE, EXCHANGE_PRUNE = range(4)
"""A BARE_PRUNE names only the topic, a BACKOFF_PRUNE also the backoff, an EXCHANGE_PRUNE also other peers."""


def graft_answer(
    native: bool,
    joined: bool,
    unknown_is_pruned: bool,
    subscribed: bool,
    member: bool,
    direct: bool,
    early: bool,
    unwelcome: bool,
    full: bool,
) -> tuple[int, int]:
    """Return why a GRAFT is dropped, or TAKEN_IN or MEMBER; and the kind of PRUNE that answers it."""
    if not native:
        return UNSUPPORTED, NO_PRUNE
    if not joined:
        return NOT_SUBSCRIBED, BARE_PRUNE if unknown_is_pruned else NO_PRUNE
    if not subscribed:
        return NOT_A_SUBSCRIBER, BARE_PRUNE
    if member:
        return MEMBER, NO_PRUNE
    if direct:
        return FROM_DIRECT, BACKOFF_PRUNE
    if early:
        return IN_BACKOFF, BACKOFF_PRUNE
    if unwelcome:
        return UNWELCOME, BACKOFF_PRUNE
    if full:
        return MESH_IS_FULL, EXCHANGE_PRUNE
    return TAKEN_IN, NO_PRUNE
