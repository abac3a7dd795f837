"""Whose messages are looked at while there is more than can be validated (gossipsub v1.1, go's peer gater).

Random early detection, with the chance of a peer's messages being the share of good ones among what its address sent.
Rules:

* GATER-1: While nothing was turned away for a time, or the share of what was turned away is below a threshold, all is
  looked at. So it is from an address of which nothing is known.
* GATER-2: Otherwise messages are looked at with the chance (1 + delivered) / (1 + delivered + duplicate, ignored and
  rejected ones times their weights); of the rest only control. The 1 lets every peer in now and then, so that it can
  do better.
* GATER-3: What is counted of an address is shared by its peers, decays, and is kept for a time after the last has
  gone. Further addresses of which all peers have gone than there is room for are forgotten, the longest gone first.
* GATER-4: The chance is drawn by comparing the upper 53 bits of a hash, as a fraction of 2^53, with it. Both sides
  are multiplied by the denominator instead of dividing: 53 bits are a double without rounding, so one product is
  rounded, everywhere alike.
"""

from __future__ import annotations

from hearsay.core.language.actions import Reason
from hearsay.core.rules.mixing import Word

UNCOUNTED, TURNED_AWAY, IGNORED, REJECTED = range(4)
"""As what a message counts that is not used."""
TWO_TO_53 = 9007199254740992.0
_TURNED_AWAY = (int(Reason.QUEUE_FULL), int(Reason.THROTTLED))
_IGNORED = int(Reason.IGNORED)
_REJECTED = (int(Reason.REJECTED), int(Reason.BAD_SIGNATURE), int(Reason.SELF_ORIGIN))


def rejection(reason: int) -> int:
    if reason in _TURNED_AWAY:
        return TURNED_AWAY
    if reason in _REJECTED:
        return REJECTED
    return IGNORED if reason == _IGNORED else UNCOUNTED


def is_open(since_throttled: int, quiet: int, throttled: float, validated: float, threshold: float) -> bool:
    """Whether all is looked at. `since_throttled`: microseconds since something was turned away."""
    if since_throttled > quiet or throttled == 0.0:
        return True
    return validated != 0.0 and throttled / validated < threshold


def sent_by_address(delivered: float, duplicate: float, ignored: float, rejected: float) -> float:
    """All that an address sent, the bad times its weights."""
    return delivered + duplicate + ignored + rejected


def is_let_in(draw: Word, delivered: float, sent: float) -> bool:
    """Whether a peer's messages are looked at, of whose address so much came."""
    return float(draw >> 11) * (1.0 + sent) < (1.0 + delivered) * TWO_TO_53
