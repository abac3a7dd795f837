"""Decisions about partial messages: the peers that get parts or metadata, and the parts that are sent to them.

The rules are in `core/mesh/partials.py`. A set of parts is an integer, in which bit i stands for part i. Kernels pass
a set in words of 64 bits, so functions of sets use only operations on bits. A group is one message in parts. A router
opens a group by sending the first partial message of it.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from hearsay.core.language.actions import Reason

NO_USE, SUPPORTS, REQUESTS = range(3)
"""The numbers of the uses of partial messages in a topic, in the order of `PartialUse`."""
Parts: TypeAlias = Any
"""A set of parts as an integer, or one of its words: an unsigned number of 64 bits."""
ACCEPTED = -1
"""Result of `refusal` and `group_refusal` if there is no reason to refuse."""
_UNSUPPORTED = int(Reason.UNSUPPORTED)
_NOT_SUBSCRIBED = int(Reason.NOT_SUBSCRIBED)
_OVER_LIMIT = int(Reason.OVER_LIMIT)
_THROTTLED = int(Reason.THROTTLED)


def gets_partials(own: int, theirs: int, between_supporters: bool) -> bool:
    """Return whether a peer of the topic gets partial messages, perhaps only metadata (PARTIAL-2).

    `own` and `theirs` are the uses of this router and of the peer. `between_supporters` is True if a router that only
    supports parts also sends metadata to peers that only support parts (`supporters_told` = `by_all`).
    """
    return theirs == REQUESTS or (theirs == SUPPORTS and (own == REQUESTS or between_supporters))


def needs_no_idontwant(own: int, theirs: int) -> bool:
    """Return whether a peer gets no IDONTWANT (PARTIAL-4); `own` and `theirs` are as in `gets_partials`."""
    return own == REQUESTS and theirs != NO_USE


def refusal(is_on: bool, is_chosen: bool, metadata_bytes: int, most_bytes: int) -> int:
    """Return the `Reason` for which a partial message is dropped, or ACCEPTED (PARTIAL-7, PARTIAL-9).

    `is_on`: the extension is on with the sender. `is_chosen`: the application uses partial messages in the topic.
    """
    if not is_on:
        return _UNSUPPORTED
    if not is_chosen:
        return _NOT_SUBSCRIBED
    return _OVER_LIMIT if metadata_bytes > most_bytes else ACCEPTED


def group_refusal(opened: int, most: int, opened_by_peer: int, most_of_peer: int) -> int:
    """Return the `Reason` for which a peer may not open a group, or ACCEPTED (PARTIAL-9)."""
    if opened >= most:
        return _THROTTLED
    return _OVER_LIMIT if opened_by_peer >= most_of_peer else ACCEPTED


def is_over(beats_left: int, is_own: bool, has_peers: bool) -> bool:
    """Return whether a heartbeat forgets a group (PARTIAL-8). `is_own`: the application published in the group."""
    return beats_left == 0 or not (is_own or has_peers)


def is_addressed(is_routed: bool, gets: bool, has_sent: bool, is_known: bool) -> bool:
    """Return whether partial messages of a published group go to a peer (PARTIAL-5).

    `is_routed`: the peer is in the mesh or the fan-out, or the application named it. `gets`: the peer gets partial
    messages of the topic. `is_known`: the group has state of the peer. `has_sent`: the peer sent a partial message of
    the group.
    """
    return (is_routed and gets) or (is_known and (has_sent or gets))


def parts_to_send(has: Parts, wanted: Parts, sent_before: Parts, peer_has: Parts) -> Parts:
    """Return the parts that this node has and a peer wants. Exclude the parts that this node sent to the peer before,
    and those that the peer is known to have."""
    return has & wanted & ~sent_before & ~peer_has


def news(has: Parts, wants: Parts, last: Parts, last_wants: Parts, known: Parts) -> Parts:
    """Return the parts about which metadata with the sets `has` and `wants` would be new to a peer.

    These are the parts that are new in `has`, and the parts that this node lacks and whose bit in `wants` has
    changed. `last` and `last_wants` are the sets in the last metadata to the peer. The peer already knows that this
    node has the parts `known`.
    """
    return has & ~(last | known) | (last_wants ^ wants) & ~has
