"""Decisions about messages: first copies, gossip, IDONTWANT, flood publishing, and the broadcast tree of episub.

Sources: r1, "gossip", "message cache" and "Message validation"; guide, "Sending messages"; v1.2; go, for the bounds.
For the tree (rules: `core/episub/tree.py` and `caches.py`): episub spec, "Broadcast Protocol" and "Multicast Tree
Repair"; Leitão, Pereira, Rodrigues: Epidemic Broadcast Trees, 2007.

For a message that is not in the seen cache, the first rule that applies decides:

* COPY-1: The topic is not joined: rejected, and not marked as seen, so that a later copy counts after a join.
* COPY-2: The router itself is the author: rejected.
* COPY-3: The application is validating a copy of the message already: a duplicate.
* COPY-4: No validation is needed: accepted.
* COPY-5: The number of pending validations is at its limit: rejected, and not marked as seen, so that a later copy
  may be validated.
* COPY-6: Otherwise the application validates it.

Gossip:

* GOSSIP-7: A message is kept for `history_length` windows, and announced in gossip for `history_gossip` windows. A
  window is the time between two heartbeats; the present window counts.
* GOSSIP-8: A limited number of ids in an IHAVE is processed; with js this limit is for all IHAVEs of an RPC together.
  Between two heartbeats, a limited number of ids is requested of one peer, and a limited number of ids that one peer
  requests is processed.
* GOSSIP-9: If there are more ids than an IHAVE may have, each peer gets a different random sample of the ids. If all
  peers got the same sample, some ids would be announced to no peer.
* GOSSIP-10: A message is sent to one peer on request a limited number of times. Otherwise a peer could make others
  send much by small requests.
* GOSSIP-11: If one peer announces new ids repeatedly within a number of heartbeats, the mesh misses messages. Then
  the peer is GRAFTed, if `graft_on_missing` is set (guide, "Gossip").
* GOSSIP-13: Gossip goes to D_lazy peers, or to a share of the eligible peers if this share is more (v1.1).
* GOSSIP-14: Between two heartbeats, a limited number of RPCs with IHAVE is accepted from one peer (v1.1; with jvm, a
  limited number of IHAVEs). With js, the number of RPCs with IWANT is limited too.
* GOSSIP-12: A fan-out ends if no message was published to it for `fanout_ttl_ms`.

IDONTWANT:

* IDONTWANT-1: A message of `idontwant_threshold_bytes` or more is announced by IDONTWANT; a threshold of 0 announces
  none.
* IDONTWANT-2: The number of ids that are processed in all IDONTWANTs of one RPC is limited. So are, for one peer
  between two heartbeats, the number of RPCs with IDONTWANT and the number of ids (js, nim, jvm). Further ids are
  ignored, and are not an offence (go).
* IDONTWANT-3: The `idontwant_ttl_heartbeats`-th heartbeat after an IDONTWANT forgets its ids.

Flood publishing:

* JUDGE-7: With `flood_publish_mbit`, the message goes to as many peers as an uplink of this rate serves in one
  heartbeat interval, the peers of the mesh or the fan-out included. This number is at least D_low (nim). Without this
  limit, all copies of a large message share the uplink, and even the first copy arrives late.
"""

from __future__ import annotations

from hearsay.core.language.actions import Reason

ACCEPTED, ASKED, DUPLICATE = -1, -2, -3
"""Results of `first_copy` that are not a reason. ASKED: the router asks the application to validate the message."""
_NOT_SUBSCRIBED = int(Reason.NOT_SUBSCRIBED)
_SELF_ORIGIN = int(Reason.SELF_ORIGIN)
_THROTTLED = int(Reason.THROTTLED)
_BYTES_PER_MS = 125
"""Number of bytes that are sent in a millisecond at a rate of 1 Mbit/s."""
MAX_HOPS = 10_000
"""The largest hop count; a larger one that a peer sends is lowered to it."""


def first_copy(joined: bool, own: bool, asked: bool, trusted: bool, waiting: int, most_waiting: int) -> int:
    """Return the `Reason` of a rejection, or ACCEPTED, ASKED or DUPLICATE.

    `own`: this router is the author. `asked`: the application is validating the message already. `trusted`: no
    validation is needed. `waiting`: the number of messages that wait for a verdict.
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
    """Return the number of further heartbeats for which a message is kept that is `age` heartbeats old. If the result
    is 0 or less, the message is removed."""
    return windows - age


def ids_over_limit(count: int, most: int) -> int:
    """Return the number of ids that are ignored, if `count` ids were received and `most` are allowed."""
    return count - most if count > most else 0


def ids_to_ask(missing: int, asked: int, most: int) -> int:
    """Return the number of ids to request of a peer that announced `missing` unknown ids. `asked` ids were requested
    of the peer since the last heartbeat."""
    return max(0, min(missing, most - asked))


def may_be_asked(asked: int, most: int) -> bool:
    """Return True if more ids may be requested of a peer; `asked` ids were requested since the last heartbeat."""
    return asked < most


def gossip_targets(lazy: int, eligible: int, factor: float) -> int:
    """Return the number of peers that get gossip (GOSSIP-13); `lazy` is D_lazy, `factor` the share."""
    return max(lazy, int(factor * eligible))


def rpc_is_accepted(before: int, most: int) -> bool:
    """Return True if an RPC is accepted, after `before` accepted ones since the last heartbeat (GOSSIP-14). A `most`
    of 0 is no limit."""
    return not most or before < most


def needs_samples(count: int, most: int) -> bool:
    """Return True if there are too many ids for one IHAVE."""
    return count > most


def is_answered(times: int, most: int) -> bool:
    """Return True if a peer's request for a message is answered; `times` is the number of such requests, this one
    included."""
    return times <= most


def is_repeated_news(times: int, enough: int) -> bool:
    """Return True if one peer sent `enough` IHAVEs with new ids, so that the mesh seems to miss messages
    (GOSSIP-11)."""
    return times >= enough


def fanout_is_over(now: int, last_publish: int, ttl: int) -> bool:
    return now - last_publish > ttl


def needs_idontwant(data_bytes: int, threshold_bytes: int) -> bool:
    """Return True if a message of this size is announced by IDONTWANT (IDONTWANT-1)."""
    return 0 < threshold_bytes <= data_bytes


def accepted_ids(rpcs_before: int, most_rpcs: int, ids: int, most_ids: int, accepted: int, most_of_peer: int) -> int:
    """Return the number of ids in the IDONTWANTs of an RPC that are accepted (IDONTWANT-2).

    Since the last heartbeat the peer has sent `rpcs_before` other RPCs with IDONTWANT, and `accepted` ids in them
    were accepted. A `most_of_peer` of 0 is no limit.
    """
    if rpcs_before >= most_rpcs:
        return 0
    if most_of_peer:
        most_ids = min(most_ids, most_of_peer - accepted)
    return min(ids, most_ids)


def is_forgotten(said: int, tick: int, ttl_heartbeats: int) -> bool:
    """Return True if heartbeat `tick` forgets an id that came after heartbeat `said` and before the next one
    (IDONTWANT-3)."""
    return tick - said >= ttl_heartbeats


def served_in_a_heartbeat(data_bytes: int, rate_mbit: int, heartbeat_ms: int, least: int) -> int:
    """Return the number of peers to which the uplink can send a copy in one heartbeat interval, or `least` if that is
    more (JUDGE-7). Each copy takes a whole number of milliseconds, at least one (nim)."""
    return max(heartbeat_ms // max(data_bytes // (rate_mbit * _BYTES_PER_MS), 1), least)


def hops_of_copy(named: int) -> int:
    """Return the hops of a received copy. `named` is the hop count in the copy; 0 stands for none and counts as 1."""
    return min(named, MAX_HOPS) if named else 1


def announced_hops(named: int) -> int:
    return max(0, min(named, MAX_HOPS))


def is_shortcut(hops: int, lazy_hops: int, threshold: int) -> bool:
    """Return True if a lazy link replaces an eager link (TREE-4).

    `hops` is the length of the path over the eager link, `lazy_hops` the number that the peer at the lazy link
    announced. A `threshold` of 0 turns the replacement off.
    """
    return 0 < threshold <= hops - (lazy_hops + 1)


def next_tick(now: int, tick_us: int) -> int:
    """Return the next time of the persistent timer, which ticks at multiples of `tick_us` (TREE-3)."""
    return (now // tick_us + 1) * tick_us


def is_requested(touches: int, attempts: int) -> bool:
    """Return True if a GRAFT requests a missing message after `touches` ticks of the timer (REPAIR-1)."""
    return 2 <= touches <= attempts + 1


def is_given_up(touches: int, attempts: int) -> bool:
    """Return True if the node stops requesting a missing message after `touches` ticks of the timer (REPAIR-1)."""
    return touches > attempts + 1


def announcer_in_turn(touches: int, announcers: int) -> int:
    """Return the index of the announcer that gets the GRAFT after `touches` ticks of the timer (REPAIR-1)."""
    return (touches - 2) % announcers
