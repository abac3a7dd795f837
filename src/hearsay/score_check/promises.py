"""How many promises one peer can break per heartbeat, with the limits that a router has."""

from __future__ import annotations

from hearsay.core.mesh.parameters import GossipsubParameters
from hearsay.core.scores.declarations import TrackedPromises
from hearsay.core.scores.promises import PromiseParameters

MOST_OF_A_PEER = PromiseParameters().max_promises_per_peer
"""That are followed at a time."""


def promises_per_heartbeat(parameters: GossipsubParameters) -> int:
    """At most; 0: none is tracked. Of an IHAVE that is looked at there is one promise, or one of each id."""
    match parameters.tracked_promises:
        case TrackedPromises.ONE:
            return min(parameters.max_ihave_messages or MOST_OF_A_PEER, MOST_OF_A_PEER)
        case TrackedPromises.ALL:
            return MOST_OF_A_PEER
        case TrackedPromises.NONE:
            return 0
