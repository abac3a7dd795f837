"""How much is gossiped, asked for and answered.

Rules (r1, "gossip" and "message cache"; go, for the bounds):

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
"""

from __future__ import annotations


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
