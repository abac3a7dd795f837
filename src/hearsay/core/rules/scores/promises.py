"""What becomes of an IHAVE that was answered with IWANT (gossipsub v1.1, "Spam protection measures").

A peer that announces a message and does not send it makes others wait. Rules:

* PROMISE-1: An IWANT is a promise of the peer to send one of the ids, by chance (go, js), or each of them (rust), or
  there are no promises (nim). One by chance is enough: who breaks promises is found soon, at a fixed cost.
* PROMISE-2: A promise is kept when the message arrives, from whomever, and its validation starts, or it is delivered
  or rejected. A copy with a bad signature keeps none; one on whose signature implementations differ does. With jvm
  only a copy of the peer that was asked keeps it, a duplicate too.
* PROMISE-3: When its time is over, a promise is broken. A heartbeat counts those of each peer as misbehaviour (P7).
* PROMISE-4: A peer whose messages are not looked at (the gater) cannot keep its promises: they are void.
* PROMISE-5: So many promises of a peer, and of all together, are followed; further ones are not.
"""

from __future__ import annotations

from hearsay.core.language.actions import Reason

_BAD_SIGNATURE = int(Reason.BAD_SIGNATURE)


def is_broken(now: int, until: int) -> bool:
    return now > until


def rejection_keeps(reason: int) -> bool:
    """Whether a message that was rejected for this reason keeps the promises of it."""
    return reason != _BAD_SIGNATURE


def has_room(of_peer: int, most_of_peer: int, of_all: int, most_of_all: int) -> bool:
    return of_peer < most_of_peer and of_all < most_of_all
