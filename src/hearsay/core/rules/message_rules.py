"""Decisions about messages: first copies, gossip, IDONTWANT and flood publishing.

Sources: r1, "gossip", "message cache" and "Message validation"; guide, "Sending messages"; v1.2; go, for the bounds.

The first copy of a message; the first rule that applies decides:

* COPY-1: Of a topic one is not in: rejected, and not marked seen, so that it counts when the topic is joined
  meanwhile.
* COPY-2: One's own that comes back: rejected.
* COPY-3: The application is asked about it already: a duplicate.
* COPY-4: Nobody has to be asked: accepted.
* COPY-5: As many are being asked about as may be: rejected and not marked seen, so that a later copy gets its chance.
* COPY-6: Otherwise the application is asked.

Gossip:

* GOSSIP-7: A message is kept, and gossiped about, for a number of windows, the open one included. A window is a
  heartbeat.
* GOSSIP-8: Of the ids of one part so many are acted on; with js, of those in all IHAVEs of an RPC. Of one peer so
  many are asked for between two heartbeats.
* GOSSIP-9: More ids than an IHAVE may have: each peer gets a sample of its own, or some would be announced to nobody.
* GOSSIP-10: One message goes to one peer on request so many times. Otherwise asking is a cheap way to make others
  send.
* GOSSIP-11: Repeated news from one peer, so often within so many heartbeats, means that the mesh misses messages:
  that peer is GRAFTed, if that is wanted (guide, "Gossip").
* GOSSIP-13: Gossip goes to D_lazy, or to a share of those who may get it if that is more (v1.1; *reference only:*
  `gossip_factor`).
* GOSSIP-14: Of one peer so many RPCs with IHAVE are looked at between two heartbeats (v1.1), with jvm so many IHAVEs;
  and so many RPCs with IWANT (js; *reference only:* `max_ihave_messages`).
* GOSSIP-12: A fan-out ends when nothing was published to it for longer than its time.

IDONTWANT:

* IDONTWANT-1: A message of `idontwant_threshold_bytes` or more is worth telling of; a threshold of 0 tells of none
  (*reference only:* `idontwant_threshold_bytes`).
* IDONTWANT-2: Of one RPC the first ids are heard, of all its IDONTWANTs together, and of one peer the first RPCs
  and ids (js, nim, jvm) between two heartbeats. What is over is not heard, and is no offence (go; *reference only:*
  `idontwant_threshold_bytes`).
* IDONTWANT-3: What a peer said is forgotten in the heartbeat that comes `idontwant_ttl_heartbeats` later (*reference
  only:* `idontwant_threshold_bytes`).

Flood publishing:

* JUDGE-7: With a rate, to as many as it serves in a heartbeat; the mesh or the fan-out counts, and a mesh's least
  members are served in any case (nim; *reference only:* `flood_publish`). Large messages would else fill the uplink
  before the first copy is out of it."""

from __future__ import annotations

from hearsay.core.language.actions import Reason

ACCEPTED, ASKED, DUPLICATE = -1, -2, -3
"""In place of a reason."""
_NOT_SUBSCRIBED = int(Reason.NOT_SUBSCRIBED)
_SELF_ORIGIN = int(Reason.SELF_ORIGIN)
_THROTTLED = int(Reason.THROTTLED)


def first_copy(joined: bool, own: bool, asked: bool, trusted: bool, waiting: int, most_waiting: int) -> int:
    """Why it is rejected, or what else becomes of it. `trusted`: nobody has to be asked about it."""
    if not joined:
        return _NOT_SUBSCRIBED
    if own:
        return _SELF_ORIGIN
    if asked:
        return DUPLICATE
    if trusted:
        return ACCEPTED
    if waiting >= most_waiting:
        return _THROTTLED
    return ASKED


def windows_left(age: int, windows: int) -> int:
    """For how many heartbeats after this one a thing of that age counts; none when it is 0 or less."""
    return windows - age


def ids_over_limit(count: int, most: int) -> int:
    """How many ids of a part are not acted on."""
    return count - most if count > most else 0


def ids_to_ask(missing: int, asked: int, most: int) -> int:
    """For how many of the missing ids a peer is asked, who was asked for others since the last heartbeat."""
    return max(0, min(missing, most - asked))


def may_be_asked(asked: int, most: int) -> bool:
    """Whether an IHAVE of a peer is looked at, who was asked for so many since the last heartbeat."""
    return asked < most


def gossip_targets(lazy: int, eligible: int, factor: float) -> int:
    """How many get gossip."""
    return max(lazy, int(factor * eligible))


def rpc_is_heard(before: int, most: int) -> bool:
    """`before`: how many RPCs with such parts came since the last heartbeat. 0 is no limit."""
    return not most or before < most


def needs_samples(count: int, most: int) -> bool:
    """Whether there are too many ids for one IHAVE."""
    return count > most


def is_answered(times: int, most: int) -> bool:
    """`times` a peer asked for a message, this time included."""
    return times <= most


def is_repeated_news(times: int, enough: int) -> bool:
    """Whether so much news from one peer means that the mesh misses messages."""
    return times >= enough


def fanout_is_over(now: int, last_publish: int, ttl: int) -> bool:
    return now - last_publish > ttl


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


_BYTES_PER_MS = 125
"""Of a rate of 1 Mbit/s."""


def served_in_a_heartbeat(data_bytes: int, rate_mbit: int, heartbeat_ms: int, least: int) -> int:
    """JUDGE-7; a copy takes whole milliseconds, one at least (nim)."""
    return max(heartbeat_ms // max(data_bytes // (rate_mbit * _BYTES_PER_MS), 1), least)
