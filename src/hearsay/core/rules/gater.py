"""The gater: the decision whether a peer's messages are accepted while validation is overloaded (gossipsub v1.1, go).

As in random early detection, the messages of a peer are accepted with a probability: the share of good messages among
the messages from its address. Rules:

* GATER-1: If no message was throttled for `quiet_ms`, or if the ratio of throttled to validated messages is below
  `threshold`, all messages are accepted. Messages of a peer that is not connected are always accepted. A peer without
  a known address has counts of its own.
* GATER-2: Otherwise the messages of an RPC are accepted with probability (1 + delivered) / (1 + delivered + w), where
  w is the sum of duplicate, ignored and rejected messages, each times its weight. If the messages are not accepted,
  only the other parts of the RPC are handled. Because of the 1, messages of every peer are accepted from time to
  time, so that the share of its good messages can grow.
* GATER-3: The peers of one address share its counts. The counts decay while one of the peers is connected, and are
  kept for `retain_ms` after the last one has disconnected. The number of addresses without connected peers is
  limited; the address whose peers disconnected first is forgotten first.
* GATER-4: Messages are accepted if the upper 53 bits of a hash, as a fraction of 2^53, are below the probability.
  Both sides are multiplied by the denominators, so that nothing is divided. A double holds 53 bits exactly, so only
  one product is rounded, and in the same way on every machine.
"""

from __future__ import annotations

from hearsay.core.language.actions import Reason
from hearsay.core.rules.randomness import Word

UNCOUNTED, TURNED_AWAY, IGNORED, REJECTED = range(4)
"""Kinds of unused messages that the gater distinguishes. TURNED_AWAY: throttled, or a queue was full. UNCOUNTED: the
message changes no count."""
TWO_TO_53 = 9007199254740992.0
_TURNED_AWAY = (int(Reason.QUEUE_FULL), int(Reason.THROTTLED))
_IGNORED = int(Reason.IGNORED)
_REJECTED = (int(Reason.REJECTED), int(Reason.BAD_SIGNATURE), int(Reason.SELF_ORIGIN))


def rejection(reason: int) -> int:
    """Return the kind of a message that is not used for this reason."""
    if reason in _TURNED_AWAY:
        return TURNED_AWAY
    if reason in _REJECTED:
        return REJECTED
    return IGNORED if reason == _IGNORED else UNCOUNTED


def is_open(since_throttled: int, quiet: int, throttled: float, validated: float, threshold: float) -> bool:
    """Return True if all messages are accepted (GATER-1).

    `since_throttled` is the time in microseconds since a message was throttled. `throttled` and `validated` are
    counts.
    """
    if since_throttled > quiet or throttled == 0.0:
        return True
    return validated != 0.0 and throttled / validated < threshold


def sent_by_address(delivered: float, duplicate: float, ignored: float, rejected: float) -> float:
    """Return the sum of the counts of an address, each already multiplied by its weight."""
    return delivered + duplicate + ignored + rejected


def is_let_in(draw: Word, delivered: float, sent: float) -> bool:
    """Return True if messages of a peer are accepted (GATER-2); `delivered` and `sent` are sums for the peer's
    address."""
    return float(draw >> 11) * (1.0 + sent) < (1.0 + delivered) * TWO_TO_53
