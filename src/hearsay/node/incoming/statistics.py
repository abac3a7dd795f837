"""Counters of a node. They only go up; gauges are read from the node itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hearsay.core.language.actions import Reason
from hearsay.node.conduct import Offence


@dataclass(slots=True)
class Statistics:
    published: int = 0
    delivered: int = 0
    duplicates: int = 0
    rejected: int = 0
    bad_signatures: int = 0
    rpcs_received: int = 0
    rpcs_sent: int = 0
    bytes_received: int = 0
    bytes_sent: int = 0
    malformed_rpcs: int = 0
    """Frames that could not be read; their stream was reset."""
    left_out_parts: int = 0
    """Parts of RPCs that said nothing."""
    parts_dropped: int = 0
    """Parts of received RPCs that the router did not act on."""
    dropped_because: Counter[Reason] = field(default_factory=Counter[Reason])
    """… and why: `GRAYLISTED`, `GATED`, `LOW_SCORE` and so on."""
    messages_dropped: int = 0
    """Copies that did not leave because a peer's queue was full."""
    messages_withdrawn: int = 0
    """Copies that did not leave because their peer did not want them any more."""
    gossip_dropped: int = 0
    control_dropped: int = 0
    test_messages: int = 0
    """Messages of the test extension."""
    validations_timed_out: int = 0
    abandoned_rpcs: int = 0
    """RPCs that were not handled to the end because their peer had gone; their other messages are not seen."""
    replays: int = 0
    """Messages whose sequence number was used before."""
    gave_up_waiting: int = 0
    """Own messages that waited for a peer and made room for later ones."""
    offences: Counter[Offence] = field(default_factory=Counter[Offence])
    """Offences of peers by kind (`hearsay.node.conduct`)."""
    slowed: int = 0
    """Pauses in reading from a peer because of its offences."""
    put_out: int = 0
    """Peers and addresses that were kept out from then on."""
    missed: int = 0
    """Messages the application did not take in time."""
