"""Credit and blame for messages, and promises of IWANT (gossipsub v1.1, "Spam protection measures").

A router keeps a record of each message. It is open until the application's verdict.

* DELIVERY-1: The application accepts: the peer that sent the message first gets a first delivery (P2), and a mesh
  delivery (P3) if it is a member; members that sent a copy before the verdict get a mesh delivery each.
* DELIVERY-2: A copy after the verdict counts for a member if it comes within the window. The window must be shorter
  than a round trip, or a peer gets credit for echoing a message.
* DELIVERY-3: A peer's copies of one message count once.
* DELIVERY-4: The application rejects: the first peer is blamed (P4), and so are all peers that send copies, before or
  after the verdict. With jvm only members are blamed for copies.
* DELIVERY-5: The signature is bad or missing, or a peer sends our own message back: the peer is blamed at once. There
  is no record, since another copy may be valid.
* DELIVERY-6: There is no room for the message, its sender is graylisted or gated, or implementations differ on its
  signature: neither blame nor record. The message was throttled, or the application ignores it: no blame, even for
  copies.
* DELIVERY-7: A verdict is final. A second verdict changes only the credit of the peer that it names.
* DELIVERY-9: A throttled message is not marked as seen. When a later copy is validated, its record is open again:
  that verdict decides.

A peer that announces a message and does not send it makes others wait:

* PROMISE-1: An IWANT counts as a promise of the peer to send one random id of it (go, js), or each of its ids (rust);
  with nim there are no promises. One random id is enough: a peer that breaks promises is found soon, at a fixed cost.
* PROMISE-2: A promise is kept when the message arrives from any peer and its validation starts, or when it is
  delivered or rejected. A copy with a bad signature keeps no promise; a copy with a signature on which
  implementations differ does. With jvm only copies of the peer that was asked keep the promise, including duplicates.
* PROMISE-3: When its time is over, a promise is broken. A heartbeat counts broken promises as misbehaviour (P7).
* PROMISE-4: A peer whose messages the gater ignores cannot keep its promises: they are void.
* PROMISE-5: The number of tracked promises of a peer, and of all peers, is limited; further ones are not tracked.
"""

from __future__ import annotations

from hearsay.core.language.actions import Reason

OPEN, ACCEPTED, INVALID, IGNORED, THROTTLED = range(5)
"""State of the record of a message."""

UNBLAMED, BLAMED_AT_ONCE = -1, -2
"""Results of `rejection` without a record: no blame, or blame for this copy alone."""

NOTHING, REMEMBERED, CREDITED, BLAMED = range(4)
"""Credit or blame for a copy. REMEMBERED: the verdict will decide."""

_REJECTED = int(Reason.REJECTED)
_IGNORED = int(Reason.IGNORED)
_THROTTLED = int(Reason.THROTTLED)
_SELF_ORIGIN = int(Reason.SELF_ORIGIN)
_BAD_SIGNATURE = int(Reason.BAD_SIGNATURE)


def rejection(reason: int) -> int:
    """Return the new state of the record of a rejected message, or UNBLAMED or BLAMED_AT_ONCE if it has none."""
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
    """Return NOTHING, REMEMBERED, CREDITED or BLAMED for a copy. `known`: the peer has sent a copy before."""
    if state == INVALID:
        return BLAMED
    if known:
        return NOTHING
    if state == OPEN:
        return REMEMBERED
    return CREDITED if state == ACCEPTED else NOTHING


def is_in_window(elapsed: int, window: int) -> bool:
    """Return True if a copy counts that comes `elapsed` microseconds after the verdict."""
    return elapsed <= window


def is_blamed(member: bool, members_only: bool) -> bool:
    """Return True if a peer is blamed for a copy of an invalid message."""
    return member or not members_only


_FORGED = int(Reason.BAD_SIGNATURE)


def is_broken(now: int, until: int) -> bool:
    return now > until


def rejection_keeps(reason: int) -> bool:
    """Return True if a message keeps its promises although it is rejected for this reason."""
    return reason != _FORGED


def has_room(of_peer: int, most_of_peer: int, of_all: int, most_of_all: int) -> bool:
    return of_peer < most_of_peer and of_all < most_of_all
