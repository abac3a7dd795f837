"""Causes for which a copy was sent, lost or not used, in words and with the id of the rule."""

from __future__ import annotations

from typing import NamedTuple

from hearsay.core.language.actions import Reason, Via
from hearsay.explain.copies import Copy, Fate
from hearsay.trace.language.schema import wire_name


class Cause(NamedTuple):
    """A cause in words, with the id of the rule that decides it, if there is one."""

    words: str
    rule: str | None


_REASONS = {
    Reason.REJECTED: Cause("the application rejected it", "SHELL-2"),
    Reason.IGNORED: Cause("the application ignored it", "SHELL-2"),
    Reason.SELF_ORIGIN: Cause("it was the node's own", "COPY-2"),
    Reason.NOT_SUBSCRIBED: Cause("the node was not in the topic", "COPY-1"),
    Reason.THROTTLED: Cause("too many messages waited for the application", "COPY-5"),
    Reason.OVER_LIMIT: Cause("it was over a limit of the RPC", "SHELL-6"),
    Reason.BAD_SIGNATURE: Cause("its signature was bad or missing", "DELIVERY-5"),
    Reason.UNSUPPORTED: Cause("implementations differ on whether it is valid", "DELIVERY-6"),
    Reason.GRAYLISTED: Cause("the sender was graylisted, so its RPC was not read", "JUDGE-1"),
    Reason.GATED: Cause("the gater dropped the messages of the sender", "GATER-2"),
    Reason.FILTERED: Cause("the node does not allow this topic", "SHELL-8"),
}
OF_FATE = {
    Fate.LOST: Cause("lost on the way", None),
    Fate.UNREACHABLE: Cause("lost: the node or the connection was down", None),
    Fate.UNDER_WAY: Cause("in flight when the run ended", None),
    Fate.UNSEEN: Cause("sent; the trace does not show whether it arrived", None),
    Fate.QUEUE_FULL: Cause("not sent: the sender's queue was full", None),
    Fate.WITHDRAWN: Cause("removed from the queue after an IDONTWANT of the node", "IDONTWANT-4"),
    Fate.UNWANTED: Cause("not sent because of an IDONTWANT of the node", "IDONTWANT-4"),
    Fate.DROPPED: Cause("not sent, for an unknown reason", None),
}
_VIAS = {
    Via.MESH: "mesh",
    Via.IWANT: "requested by IWANT",
    Via.FLOOD: "flooded",
    Via.FANOUT: "fan-out",
    Via.EAGER: "eager link",
    Via.LAZY: "requested over a lazy link",
    Via.RANDOM: "random peer",
    Via.INJECT: "injected by the script",
    Via.TOP_UP: "to fill a small mesh",
    Via.FLOOD_PUBLISH: "published to all",
    Via.DIRECT: "direct peer",
}


def of_reason(reason: int) -> Cause:
    """Return the cause of a rejection or drop, by its code."""
    try:
        known = Reason(reason)
    except ValueError:
        return Cause("not used, for an unknown reason", None)
    return _REASONS.get(known, Cause(f"not used: {wire_name(known).replace('_', ' ')}", None))


def of_copy(copy: Copy) -> str | None:
    """Return why a copy was sent; None if unknown."""
    return "the last part" if copy.in_parts else of_via(copy.via)


def of_via(via: int) -> str | None:
    """Return why a copy was sent, by its code; None if unknown."""
    return _VIAS.get(Via(via)) if 0 <= via < len(Via) else None
