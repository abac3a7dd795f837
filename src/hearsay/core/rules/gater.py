"""The choice of messages while validation is overloaded (gossipsub v1.1, go's peer gater).

Random early detection: the probability for a peer is the share of good messages from its address.
Rules:

* GATER-1: If no message was throttled for `quiet_ms`, or the share of throttled messages is below `threshold`, all
  messages are accepted. Messages from an unknown address are always accepted.
* GATER-2: Otherwise an RPC's messages are accepted with probability (1 + delivered) / (1 + delivered + duplicate,
  ignored and rejected ones times their weights); if they are not, only its control parts are handled. Because of the
  1, messages of every peer are accepted from time to time, so that its share can improve.
* GATER-3: The counts of an address are shared by its peers, decay, and are kept for `retain_ms` after the last peer
  has disconnected. Beyond a limit of disconnected addresses the oldest is forgotten.
* GATER-4: Messages are accepted if the upper 53 bits of a hash, as a fraction of 2^53, are below the probability.
  Both sides are multiplied by the denominators instead of dividing: a double holds 53 bits exactly, so only one
  product is rounded, and in the same way on every machine.
"""

from __future__ import annotations

from hearsay.core.language.actions import Reason
from hearsay.core.rules.mixing import Word

UNCOUNTED, TURNED_AWAY, IGNORED, REJECTED = range(4)
"""Kinds of unused messages, as the gater counts them. TURNED_AWAY: throttled, or a queue was full."""
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
    """Return True if all messages are accepted (GATER-1).

    `since_throttled`: microseconds since a message was throttled.
    """
    if since_throttled > quiet or throttled == 0.0:
        return True
    return validated != 0.0 and throttled / validated < threshold


def sent_by_address(delivered: float, duplicate: float, ignored: float, rejected: float) -> float:
    """Return the sum of the counts of an address. All counts except `delivered` have their weights already."""
    return delivered + duplicate + ignored + rejected


def is_let_in(draw: Word, delivered: float, sent: float) -> bool:
    """Return True if messages of a peer are accepted, by the counts of its address (GATER-2)."""
    return float(draw >> 11) * (1.0 + sent) < (1.0 + delivered) * TWO_TO_53
