"""Decisions about messages: first copies, gossip, IDONTWANT and flood publishing.

Sources: r1, "gossip", "message cache" and "Message validation"; guide, "Sending messages"; v1.2; go, for the bounds.

The first copy of a message; the first rule that applies decides:

* COPY-1: The topic is not joined: rejected, and not marked as seen, so that a later copy counts after a join.
* COPY-2: The router's own message comes back: rejected.
* COPY-3: The application is validating it already: a duplicate.
* COPY-4: No validation is needed: accepted.
* COPY-5: The number of pending validations is at its limit: rejected, and not marked as seen, so that a later copy
  may be validated.
* COPY-6: Otherwise the application validates it.

Gossip:

* GOSSIP-7: A message is kept, and gossiped about, for a number of windows, the open one included. A window is a
  heartbeat.
* GOSSIP-8: The number of ids that are processed in one part is limited; with js, in all IHAVEs of an RPC. The number
  of ids requested from one peer between two heartbeats is limited.
* GOSSIP-9: With more ids than an IHAVE may have, each peer gets its own sample; with one sample, some ids would be
  announced to no peer.
* GOSSIP-10: A message is sent to one peer on request a limited number of times. Otherwise requests are a cheap way to
  make others send.
* GOSSIP-11: If one peer announces new ids repeatedly within a number of heartbeats, the mesh misses messages. Then
  the peer is GRAFTed, if that is enabled (guide, "Gossip").
* GOSSIP-13: Gossip goes to D_lazy peers, or to a share of the eligible peers if that is more (v1.1).
* GOSSIP-14: The number of RPCs with IHAVE that are accepted from one peer between two heartbeats is limited (v1.1),
  with jvm the number of IHAVEs; and the number of RPCs with IWANT (js).
* GOSSIP-12: A fan-out ends if no message was published to it for `fanout_ttl_ms`.

IDONTWANT:

* IDONTWANT-1: A message of `idontwant_threshold_bytes` or more is announced by IDONTWANT; a threshold of 0 announces
  none.
* IDONTWANT-2: Per RPC, over all its IDONTWANTs, only the first ids are processed; per peer, only the first RPCs and
  ids (js, nim, jvm) between two heartbeats. Further ids are ignored, and are not an offence (go).
* IDONTWANT-3: An id of a peer is forgotten in the heartbeat that comes `idontwant_ttl_heartbeats` later.

Flood publishing:

* JUDGE-7: With `flood_publish_mbit`, the message goes to as many peers as an uplink of this rate serves in a
  heartbeat, the mesh or the fan-out included, and to at least D_low (nim). Otherwise large messages fill the uplink
  before the first copy has left."""

from __future__ import annotations

from hearsay.core.language.actions import Reason

ACCEPTED, ASKED, DUPLICATE = -1, -2, -3
"""Results of `first_copy` other than a reason. ASKED: the application validates the message."""
_NOT_SUBSCRIBED = int(Reason.NOT_SUBSCRIBED)
_SELF_ORIGIN = int(Reason.SELF_ORIGIN)
_THROTTLED = int(Reason.THROTTLED)


def first_copy(joined: bool, own: bool, asked: bool, trusted: bool, waiting: int, most_waiting: int) -> int:
    """Return the reason of a rejection, or ACCEPTED, ASKED or DUPLICATE.

    `asked`: the application is validating the message; `trusted`: no validation is needed.
    """
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
    """Return for how many more heartbeats to keep a message that is `age` heartbeats old; 0 or less means none."""
    return windows - age


def ids_over_limit(count: int, most: int) -> int:
    """Return how many ids of a part are ignored."""
    return count - most if count > most else 0


def ids_to_ask(missing: int, asked: int, most: int) -> int:
    """Return how many missing ids are requested from a peer, after `asked` others since the last heartbeat."""
    return max(0, min(missing, most - asked))


def may_be_asked(asked: int, most: int) -> bool:
    """Return True if an IHAVE is accepted after this number of requested ids since the last heartbeat."""
    return asked < most


def gossip_targets(lazy: int, eligible: int, factor: float) -> int:
    """Return how many peers get gossip."""
    return max(lazy, int(factor * eligible))


def rpc_is_accepted(before: int, most: int) -> bool:
    """Return True if an RPC is accepted after `before` others since the last heartbeat; `most` 0 is no limit."""
    return not most or before < most


def needs_samples(count: int, most: int) -> bool:
    """Return True if there are too many ids for one IHAVE."""
    return count > most


def is_answered(times: int, most: int) -> bool:
    """Return True if a peer's request number `times` for a message is answered."""
    return times <= most


def is_repeated_news(times: int, enough: int) -> bool:
    """Return True if one peer announced new ids often enough to show that the mesh misses messages (GOSSIP-11)."""
    return times >= enough


def fanout_is_over(now: int, last_publish: int, ttl: int) -> bool:
    return now - last_publish > ttl


def is_worth_telling(data_bytes: int, threshold_bytes: int) -> bool:
    """IDONTWANT-1: return True if a message of this size is announced."""
    return 0 < threshold_bytes <= data_bytes


def accepted_ids(rpcs_before: int, most_rpcs: int, ids: int, most_ids: int, accepted: int, most_of_peer: int) -> int:
    """IDONTWANT-2: return how many ids of an RPC are accepted after this number of RPCs and accepted ids of the peer.

    `most_of_peer` 0 is no limit.
    """
    if rpcs_before >= most_rpcs:
        return 0
    if most_of_peer:
        most_ids = min(most_ids, most_of_peer - accepted)
    return min(ids, most_ids)


def is_forgotten(said: int, tick: int, ttl_heartbeats: int) -> bool:
    """IDONTWANT-3: return True if an id is forgotten at heartbeat `tick`; it came after heartbeat `said`."""
    return tick - said >= ttl_heartbeats


_BYTES_PER_MS = 125
"""Bytes in a millisecond at a rate of 1 Mbit/s."""


def served_in_a_heartbeat(data_bytes: int, rate_mbit: int, heartbeat_ms: int, least: int) -> int:
    """JUDGE-7: return how many peers are served. A copy takes whole milliseconds, one at least (nim)."""
    return max(heartbeat_ms // max(data_bytes // (rate_mbit * _BYTES_PER_MS), 1), least)
