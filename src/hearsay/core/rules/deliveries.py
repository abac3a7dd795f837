"""Credit and blame for messages, and promises of IWANT (gossipsub v1.1, "Spam protection measures").

A router keeps a record of each message. The record is open until the application's verdict. The first peer of a
message is the peer that sent the first copy. A member is a peer in the mesh of the message's topic.

* DELIVERY-1: If the application accepts a message, the first peer gets a first delivery (P2) and, if it is a member,
  a mesh delivery (P3). Each member that sent a later copy before the verdict also gets one mesh delivery.
* DELIVERY-2: A copy after the verdict is a mesh delivery of a member if it comes within the window. If the window is
  longer than a round trip, a peer gets credit for echoing a message.
* DELIVERY-3: A peer gets credit for at most one later copy of a message. It is blamed for each copy that comes after
  the application has rejected the message.
* DELIVERY-4: If the application rejects a message, the first peer is blamed (P4). Each peer that sent a later copy
  before the verdict is blamed for one such copy, and each peer that sends a copy after the verdict is blamed for that
  copy. With jvm only members are blamed for later copies.
* DELIVERY-5: If the signature is bad or missing, or if a peer sends the router's own message back, the peer is blamed
  at once. The record does not change, since another copy may be valid.
* DELIVERY-6: If a queue is full, if the sender is graylisted or gated, or if implementations differ on the signature,
  no peer is blamed and the record does not change. If the message was throttled, or if the application ignores it, no
  peer is blamed, not even for later copies.
* DELIVERY-7: The first verdict on a message is final. The application may validate a message again, after its id was
  forgotten. Then an acceptance gives credit only to the peer that sent the copy, and a rejection has no effect.
* DELIVERY-9: A throttled message is not marked as seen. When a later copy of it is validated, its record is open
  again, and the verdict on that copy is final.

A peer that announces a message and does not send it makes other peers wait:

* PROMISE-1: A peer that gets an IWANT thereby promises to send messages: the message of one random id in the IWANT
  (go, js), or of each id (rust). With nim there are no promises. One random id is enough: a peer that breaks promises
  is found soon, at a fixed cost.
* PROMISE-2: A promise is kept as soon as the validation of the message begins, or the message is delivered or
  rejected, even if the copy came from another peer. A copy with a bad signature keeps no promise. A copy with a
  signature on which implementations differ keeps it. With jvm only copies from the peer that promised the message
  keep the promise; such copies may be duplicates.
* PROMISE-3: A promise that is not kept in time is broken. A heartbeat counts broken promises as misbehaviour (P7).
* PROMISE-4: If the gater ignores messages of a peer, the peer cannot keep its promises, so they are dropped.
* PROMISE-5: The numbers of tracked promises of one peer and of all peers are limited; further ones are not tracked.
"""

from __future__ import annotations

from hearsay.core.language.actions import Reason

OPEN, ACCEPTED, INVALID, IGNORED, THROTTLED = range(5)
"""States of the record of a message."""

UNBLAMED, BLAMED_AT_ONCE = -1, -2
"""Results of `rejection` that do not change the record: no peer is blamed, or only the peer that sent this copy."""

NOTHING, REMEMBERED, CREDITED, BLAMED = range(4)
"""Results of `copy_answer`: credit or blame for a later copy. REMEMBERED: the verdict will decide."""

_REJECTED = int(Reason.REJECTED)
_IGNORED = int(Reason.IGNORED)
_THROTTLED = int(Reason.THROTTLED)
_SELF_ORIGIN = int(Reason.SELF_ORIGIN)
_BAD_SIGNATURE = int(Reason.BAD_SIGNATURE)


def rejection(reason: int) -> int:
    """Return the new state of the record of a message that is rejected for this reason, or UNBLAMED or
    BLAMED_AT_ONCE."""
    if reason == _REJECTED:
        return INVALID
    if reason == _IGNORED:
        return IGNORED
    if reason == _THROTTLED:
        return THROTTLED
    if reason in (_BAD_SIGNATURE, _SELF_ORIGIN):
        return BLAMED_AT_ONCE
    return UNBLAMED


def reopened(state: int) -> int:
    """Return the state of the record when the validation of a copy starts (DELIVERY-9)."""
    return OPEN if state == THROTTLED else state


def copy_answer(state: int, known: bool) -> int:
    """Return NOTHING, REMEMBERED, CREDITED or BLAMED for a later copy. `known` is True if the sender of this copy is
    already one of the record's senders of later copies."""
    if state == INVALID:
        return BLAMED
    if known:
        return NOTHING
    if state == OPEN:
        return REMEMBERED
    return CREDITED if state == ACCEPTED else NOTHING


def is_in_window(elapsed: int, window: int) -> bool:
    """Return True if a copy that comes `elapsed` microseconds after the verdict counts as a mesh delivery."""
    return elapsed <= window


def is_blamed(member: bool, members_only: bool) -> bool:
    """Return True if a peer is blamed for a copy of an invalid message."""
    return member or not members_only


def is_broken(now: int, until: int) -> bool:
    return now > until


def rejection_keeps(reason: int) -> bool:
    """Return True if a message that is rejected for this reason still keeps the promises of this message."""
    return reason != _BAD_SIGNATURE


def has_room(of_peer: int, most_of_peer: int, of_all: int, most_of_all: int) -> bool:
    """Return True if one more promise of a peer can be tracked (PROMISE-5). `of_peer` and `of_all` are the numbers of
    tracked promises of this peer and of all peers."""
    return of_peer < most_of_peer and of_all < most_of_all
