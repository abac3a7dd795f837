"""What a GRAFT gets.

Rules, the first that fits (r1; v1.1, "Prune backoff"; go):

* GRAFT-1: From a peer that does not speak the protocol: nothing, it is dropped.
* GRAFT-2: For a topic one is not in: a PRUNE (r1) or nothing (v1.1).
* GRAFT-3: From a peer that is not in the topic: a PRUNE. With `unsubscribed_graft` it is judged like a subscriber's;
  if nothing else speaks against it, it is dropped (rust), or the peer counts as a subscriber (go, js, nim, jvm).
* GRAFT-4: From a member: nothing, it is one already. With `member_graft_is_judged` the rules below come first (jvm).
* GRAFT-8: From a direct peer: a PRUNE; it gets every message anyway (v1.1; *reference only:*
  `direct_connect_ticks`). nim counts it as misbehaviour, too; rust sends nothing.
* GRAFT-5: In backoff: a PRUNE that starts it anew. Whoever does not keep apart would else try until it is let in.
* GRAFT-9: From a peer with a negative score: a PRUNE that names nobody (v1.1). With `unwelcome_graft` it is taken in
  until the next heartbeat, and gets nothing below `publish` (nim; *reference only:* `score`).
* GRAFT-6: When the mesh is full: a PRUNE that names others of the topic.
* GRAFT-7: Otherwise the peer is taken in.
"""

from __future__ import annotations

from hearsay.core.language.actions import Reason

TAKEN_IN, MEMBER = -1, -2
"""In place of a reason."""
UNSUPPORTED = int(Reason.UNSUPPORTED)
NOT_SUBSCRIBED = int(Reason.NOT_SUBSCRIBED)
NOT_A_SUBSCRIBER = int(Reason.NOT_A_SUBSCRIBER)
IN_BACKOFF = int(Reason.BACKOFF)
MESH_IS_FULL = int(Reason.OVER_LIMIT)
FROM_DIRECT = int(Reason.DIRECT_PEER)
UNWELCOME = int(Reason.LOW_SCORE)

NO_PRUNE, BARE_PRUNE, BACKOFF_PRUNE, EXCHANGE_PRUNE = range(4)
"""A bare one names the topic alone, the next the backoff too, the last also others of the topic."""


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
    """Why a GRAFT is dropped, or TAKEN_IN or MEMBER; and the PRUNE that it gets."""
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
