"""What a score is enough for (gossipsub v1.1, "Score thresholds").

Rules; direct peers are exempt from all of them:

* THRESHOLD-1: Below 0 a peer is pruned from meshes without other peers' names, is not grafted, has its GRAFTs
  refused, and is not named to others.
* THRESHOLD-2: Below `gossip` it gets no IHAVE, and its IHAVE and IWANT are not looked at.
* THRESHOLD-3: Below `publish` it gets none of one's own messages, and is in no fan-out.
* THRESHOLD-4: Below `graylist` its RPCs are not looked at.
* THRESHOLD-5: From `accept_exchange` on, the peers that it names in a PRUNE are dialled.
* THRESHOLD-6: A mesh whose median is below `opportunistic_graft` grafts some with scores above the median.
"""

from __future__ import annotations


def may_be_in_mesh(score: float) -> bool:
    return score >= 0.0


def may_gossip(score: float, gossip: float) -> bool:
    return score >= gossip


def gets_published(score: float, publish: float) -> bool:
    return score >= publish


def is_graylisted(score: float, graylist: float) -> bool:
    return score < graylist


def exchange_is_accepted(score: float, accept_exchange: float) -> bool:
    return score >= accept_exchange


def mesh_is_poor(median: float, opportunistic_graft: float) -> bool:
    return median < opportunistic_graft
