"""Decisions about partial messages: the peers that get parts or metadata, and what they are sent.

The rules are in `core/mesh/partials.py`. Sets of parts are integers: bit i is part i. Kernels pass such a set in
words of 64 bits, so functions of sets use only operations on bits.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from hearsay.core.language.actions import Reason

NO_USE, SUPPORTS, REQUESTS = range(3)
"""The uses of partial messages in a topic by number, in the order of `PartialUse`."""
Parts: TypeAlias = Any
"""A set of parts, or a word of one, as an unsigned number of 64 bits."""
ACCEPTED = -1
"""Result of `refusal` other than a reason."""
_UNSUPPORTED = int(Reason.UNSUPPORTED)
_NOT_SUBSCRIBED = int(Reason.NOT_SUBSCRIBED)
_OVER_LIMIT = int(Reason.OVER_LIMIT)
_THROTTLED = int(Reason.THROTTLED)


def gets_partials(own: int, theirs: int, tells_all: bool) -> bool:
    """Return whether a peer of the topic gets partial messages, perhaps only metadata (PARTIAL-2)."""
    return theirs == REQUESTS or (theirs == SUPPORTS and (own == REQUESTS or tells_all))


def needs_no_idontwant(own: int, theirs: int) -> bool:
    """Return whether a peer gets no IDONTWANT (PARTIAL-4)."""
    return own == REQUESTS and theirs != NO_USE


def refusal(is_on: bool, is_chosen: bool, metadata_bytes: int, most_bytes: int) -> int:
    """Return why a partial message is dropped, or ACCEPTED (PARTIAL-7, PARTIAL-9)."""
    if not is_on:
        return _UNSUPPORTED
    if not is_chosen:
        return _NOT_SUBSCRIBED
    return _OVER_LIMIT if metadata_bytes > most_bytes else ACCEPTED


def group_refusal(opened: int, most: int, opened_by_peer: int, most_of_peer: int) -> int:
    """Return why a peer may not open a group, or ACCEPTED (PARTIAL-9)."""
    if opened >= most:
        return _THROTTLED
    return _OVER_LIMIT if opened_by_peer >= most_of_peer else ACCEPTED


def is_over(beats_left: int, is_own: bool, has_peers: bool) -> bool:
    """Return whether a group is forgotten at a heartbeat (PARTIAL-8)."""
    return beats_left == 0 or not (is_own or has_peers)


def is_addressed(is_routed: bool, gets: bool, spoke: bool, is_known: bool) -> bool:
    """Return whether a publish to all goes to a peer (PARTIAL-5). `is_known`: the group has state of the peer."""
    return (is_routed and gets) or (is_known and (spoke or gets))


def parts_to_send(has: Parts, wanted: Parts, given: Parts, shown: Parts) -> Parts:
    """Return the parts held here that a peer wants, except those `given` to it before and those it has `shown`."""
    return has & wanted & ~given & ~shown


def news(has: Parts, wants: Parts, last: Parts, last_wants: Parts, known: Parts) -> Parts:
    """Return the parts about which metadata with `has` and `wants` are news to a peer: parts that are new in `has`,
    and parts that this node lacks and whose bit in `wants` has changed.

    `last` and `last_wants` are from the metadata that the peer was sent last. It knows that this node has `known`.
    """
    return has & ~(last | known) | (last_wants ^ wants) & ~has
