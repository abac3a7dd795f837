"""Decisions about the mesh: its size, answers to GRAFT, backoff, and the times of heartbeats.

Sources: r1, "mesh maintenance"; tech report, figures 7 and 8; v1.1, "Prune backoff"; go. Times are in microseconds.

Heartbeats:

* BEAT-1: The first heartbeat comes after a fixed time plus a random time. So nodes that start together do not have
  their heartbeats together.
* BEAT-2: The next heartbeat is due one interval after the time at which this heartbeat was due, even if it was
  handled late. So heartbeats do not drift. If it was handled an interval late or more, the missed heartbeats are
  skipped, and the next one is due an interval from now.

Sizes:

* SIZE-1: A mesh with fewer than D_low peers GRAFTs peers up to D. A mesh with `prune_from` peers or more (D_high or
  D_high + 1) PRUNEs peers down to D.
* SIZE-2: Members with lent places (PLACES-2) do not count for D_low, but they count for D_high.

Backoff:

* BACKOFF-1: A later PRUNE never makes a backoff end earlier.
* BACKOFF-2: A GRAFT of the peer is refused until the end of the backoff. The router's own GRAFT waits for an
  additional time, the slack, since clocks and links differ. After the slack the backoff may be forgotten. With
  `backoff_until_forgotten` the router's own GRAFT waits until the backoff is removed. Backoffs that have ended are
  removed every 15 heartbeats (go, js).
* BACKOFF-3: A PRUNE names the backoff in whole seconds, rounded up. A longer time is harmless. After a shorter time,
  a GRAFT of the peer could come before the end of the router's own backoff.
* BACKOFF-7: A GRAFT in backoff is misbehaviour. A GRAFT within `graft_flood_ms` after the PRUNE counts twice, since
  differences of clocks cannot explain it. The time of the PRUNE is computed from the end of the backoff, as if each
  backoff lasted `prune_backoff_ms` (go).
* BACKOFF-8: With `early_graft_ms`, a GRAFT is accepted shortly before the end of a backoff, since the sender's clock
  may differ (nim).
* BACKOFF-4: A received backoff lasts `max_backoff_ms` at most. A PRUNE that names no backoff, or a backoff of 0,
  begins a backoff of the router's own `prune_backoff_ms` (go).

Answers to a GRAFT; the first rule that applies decides:

* GRAFT-1: From a peer that does not speak the protocol: no answer.
* GRAFT-2: For a topic that is not joined: a PRUNE (r1) or nothing (v1.1).
* GRAFT-3: From a peer that is not in the topic: a PRUNE. With other values of `unsubscribed_graft` GRAFT-4, GRAFT-8,
  GRAFT-5 and GRAFT-9 come first. A GRAFT that these do not refuse is dropped without an answer (rust), or GRAFT-6 and
  GRAFT-7 decide, and a peer that enters the mesh then counts as a subscriber (go, js, nim, jvm).
* GRAFT-4: From a member: no answer, since the peer is in the mesh already. With `member_graft_is_judged` the rules
  below come first (jvm).
* GRAFT-8: From a direct peer: a PRUNE, since a direct peer gets every message in any case (v1.1). nim also counts the
  GRAFT as misbehaviour; rust sends no answer.
* GRAFT-5: In backoff: a PRUNE that restarts the backoff. Otherwise a peer that ignores backoffs could retry until it
  succeeds.
* GRAFT-9: From a peer with a negative score: a PRUNE that names no other peers (v1.1; jvm names some). With
  `unwelcome_graft` = `taken_in` the peer stays in the mesh until the next heartbeat; if its score is below `publish`,
  the GRAFT is dropped without an answer (nim).
* GRAFT-6: When the mesh is full: a PRUNE that names other peers of the topic.
* GRAFT-7: Otherwise the peer enters the mesh."""

from __future__ import annotations

from hearsay.core.language.actions import Reason


def first_heartbeat(now: int, wait: int, phase: int) -> int:
    return now + wait + phase


def next_heartbeat(due: int, interval: int, now: int) -> int:
    """Return the time of the next heartbeat (BEAT-2); `due` is the time at which the present heartbeat was due."""
    following = due + interval
    return following if following > now else now + interval


def is_too_small(own: int, low: int) -> bool:
    """Return True if a mesh needs more peers; `own` is the number of members without lent places (SIZE-2)."""
    return own < low


def is_too_large(size: int, prune_from: int) -> bool:
    return size >= prune_from


def mesh_change(size: int, own: int, low: int, degree: int, prune_from: int) -> tuple[int, int]:
    """Return the number of peers with places of their own that a heartbeat GRAFTs, and the number of members that the
    heartbeat PRUNEs."""
    grafts = degree - own if is_too_small(own, low) else 0
    prunes = size - degree if is_too_large(size, prune_from) else 0
    return grafts, prunes


def has_room_for_one(size: int, prune_from: int) -> bool:
    """Return True if the mesh can get one more peer now without a PRUNE at the next heartbeat."""
    return not is_too_large(size + 1, prune_from)


def is_full(size: int, refuse_from: int) -> bool:
    """Return True if a mesh of `size` peers refuses a GRAFT."""
    return size >= refuse_from


_SECOND_US = 1_000_000


def later_end(before: int, now: int, backoff: int) -> int:
    """Return the later one of two times: `before`, the end of the last backoff, and the end of a backoff that starts
    now.

    Without an earlier backoff, `before` is any time that is not after `now`.
    """
    return max(before, now + backoff)


def is_early(now: int, until: int) -> bool:
    """Return True if a GRAFT of the peer comes before the end of the backoff, `until`."""
    return now < until


def is_early_of_us(now: int, until: int, slack: int) -> bool:
    """Return True if a GRAFT that this node sends would come too early. If not, the backoff can be forgotten."""
    return now < until + slack


def is_flood(now: int, until: int, backoff: int, flood: int) -> bool:
    """Return True if an early GRAFT comes less than `flood` microseconds after the PRUNE that began the backoff
    (BACKOFF-7). `backoff` is the assumed length of the backoff, `until` its end."""
    return now < until - backoff + flood


def time_left(now: int, until: int) -> int:
    return max(0, until - now)


def seconds_to_name(backoff: int) -> int:
    return -(-backoff // _SECOND_US)


def received_backoff(names_a_time: bool, seconds: int, own: int, most: int) -> int:
    return min(seconds * _SECOND_US if names_a_time and seconds else own, most)


ACCEPTED, MEMBER = -1, -2
"""Results of `graft_answer` in place of a reason: the peer enters the mesh, or is a member already."""
UNSUPPORTED = int(Reason.UNSUPPORTED)
NOT_SUBSCRIBED = int(Reason.NOT_SUBSCRIBED)
NOT_A_SUBSCRIBER = int(Reason.NOT_A_SUBSCRIBER)
IN_BACKOFF = int(Reason.BACKOFF)
MESH_IS_FULL = int(Reason.OVER_LIMIT)
FROM_DIRECT = int(Reason.DIRECT_PEER)
UNWELCOME = int(Reason.LOW_SCORE)

NO_PRUNE, BARE_PRUNE, BACKOFF_PRUNE, EXCHANGE_PRUNE = range(4)
"""Kinds of PRUNE. A BARE_PRUNE names only the topic, a BACKOFF_PRUNE also the backoff, an EXCHANGE_PRUNE also the
backoff and other peers."""


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
    """Return two numbers: the `Reason` for dropping a GRAFT, or ACCEPTED or MEMBER; and the kind of PRUNE in
    answer."""
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
    return ACCEPTED, NO_PRUNE
