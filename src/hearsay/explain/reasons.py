"""Why a copy was not sent, lost or not used, in words, with the rule of the core that says so."""

from __future__ import annotations

from typing import NamedTuple

from hearsay.core.language.actions import Reason, Via
from hearsay.explain.books import Copy, Fate
from hearsay.trace.language.schema import wire_name


class Cause(NamedTuple):
    words: str
    rule: str | None
    """The id of the rule, where a rule decides it."""


_REASONS = {
    Reason.REJECTED: Cause("the application rejected it", "SHELL-2"),
    Reason.IGNORED: Cause("the application ignored it", "SHELL-2"),
    Reason.SELF_ORIGIN: Cause("it was the node's own", "COPY-2"),
    Reason.NOT_SUBSCRIBED: Cause("the node was not in the topic", "COPY-1"),
    Reason.THROTTLED: Cause("too many messages waited for the application", "COPY-5"),
    Reason.OVER_LIMIT: Cause("it was over a limit of the RPC", "SHELL-6"),
    Reason.BAD_SIGNATURE: Cause("its signature was bad or missing", "DELIVERY-5"),
    Reason.UNSUPPORTED: Cause("implementations differ on whether it is valid", "DELIVERY-6"),
    Reason.GRAYLISTED: Cause("the sender was graylisted, and nothing of it was looked at", "JUDGE-1"),
    Reason.GATED: Cause("the gater let no messages of the sender through", "GATER-2"),
    Reason.FILTERED: Cause("the topic is not among those that the node allows", "SHELL-8"),
}
_FATES = {
    Fate.LOST: Cause("lost on the way", None),
    Fate.UNREACHABLE: Cause("lost: the node was down, or the connection gone", None),
    Fate.UNDER_WAY: Cause("still under way when the run ended", None),
    Fate.UNSEEN: Cause("sent; nobody tells whether it arrived", None),
    Fate.QUEUE_FULL: Cause("not sent: the sender's queue was full", None),
    Fate.WITHDRAWN: Cause("taken out of the queue, as the node did not want it any more", "IDONTWANT-4"),
    Fate.UNWANTED: Cause("not sent, as the node had said that it does not want it", "IDONTWANT-4"),
    Fate.DROPPED: Cause("not sent; nobody says why", None),
}
_VIAS = {
    Via.MESH: "mesh",
    Via.IWANT: "asked for with IWANT",
    Via.FLOOD: "flooded",
    Via.FANOUT: "fan-out",
    Via.EAGER: "eager link",
    Via.LAZY: "asked for over a lazy link",
    Via.RANDOM: "random peer",
    Via.INJECT: "handed in by the script",
    Via.TOP_UP: "to fill up a short mesh",
    Via.FLOOD_PUBLISH: "published to all",
    Via.DIRECT: "direct peer",
}


def of_reason(reason: int) -> Cause:
    try:
        known = Reason(reason)
    except ValueError:
        return Cause("not used; nobody says why", None)
    return _REASONS.get(known, Cause(f"not used: {wire_name(known).replace('_', ' ')}", None))


def of_fate(fate: Fate) -> Cause:
    """Of a copy that did not arrive."""
    return _FATES[fate]


def of_copy(copy: Copy) -> str | None:
    """Why a copy went; None where nobody says."""
    return "the last part" if copy.in_parts else of_via(copy.via)


def of_via(via: int) -> str | None:
    """Why a copy went; None where nobody says."""
    return _VIAS.get(Via(via)) if 0 <= via < len(Via) else None
