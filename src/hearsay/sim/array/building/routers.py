"""Parameters of the routers as integers, what two of them are to each other, and what follows from both."""

from __future__ import annotations

import numpy as np

from hearsay.core.language.rpc import FLOODSUB, knows_backoff
from hearsay.core.mesh.parameters import GossipsubParameters
from hearsay.core.registry import negotiate
from hearsay.core.shell.strategy import Strategy
from hearsay.sim.array.router_parameters import columns_of
from hearsay.sim.array.world import event_words
from hearsay.sim.array.world import layout as at
from hearsay.sim.array.world.event_words import GOSSIP_SPAN
from hearsay.sim.array.world.layout import Arrays
from hearsay.sim.plan.plan import Plan

_FOREVER = 1 << 60


def set_routers(arrays: Arrays, plan: Plan) -> None:
    arrays["parameters"] = np.array(
        [columns_of(kind.name, parameters) for kind, parameters in plan.routers], dtype=np.int64
    )
    arrays.world[at.ROUTERS] = len(plan.routers)
    strategies = [kind.strategy(parameters) for kind, parameters in plan.routers]
    table = [[_peering(ours, theirs) for theirs in strategies] for ours in strategies]
    arrays["natives"] = np.array(table, dtype=np.uint8)
    arrays.world[at.ALL_NATIVE] = not arrays.world[at.HAS_LINKS] and bool(arrays["natives"].all())
    longest = max(parameters.seen_ttl_us for _, parameters in plan.routers)
    shortest = min(parameters.seen_ttl_us for _, parameters in plan.routers)
    arrays.world[at.SEEN_EXPIRES] = min(longest, shortest) <= plan.end_us
    most = len(plan.publications)
    arrays.world[at.MAX_SEEN_BINDS] = any(parameters.max_seen < most for _, parameters in plan.routers)
    arrays.world[at.MAX_CACHED_BINDS] = any(
        isinstance(parameters, GossipsubParameters) and parameters.max_cached_messages < most
        for _, parameters in plan.routers
    )
    _set_sure_duplicates(arrays, plan)


def _set_sure_duplicates(arrays: Arrays, plan: Plan) -> None:
    """What may be counted as heard before it arrives, see `send_ring.py`."""
    w = arrays.world
    table = arrays["parameters"]
    if not (w[at.HAS_LINKS] or w[at.SERVICE] or w[at.MAX_SEEN_BINDS]):
        times = table[:, at.SEEN_TTL]
        windows = (table[:, at.SEEN_WINDOWS] - 1) * table[:, at.INTERVAL]
        forgets = table[:, at.SEEN_WINDOWS] > 0
        w[at.SEEN_FOR] = min(times[times > 0].min(initial=_FOREVER), windows[forgets].min(initial=_FOREVER))
    stays = all(timed.join for timed in plan.timed)
    listens = (table[:, at.MAX_CONTROL] > 0) & (table[:, at.MAX_IHAVE] > GOSSIP_SPAN)
    listens &= table[:, at.ROUTER_KIND] == at.GOSSIPSUB
    w[at.HEARD] = event_words.INLINE | (event_words.GOSSIP if stays and listens.all() else 0)
    w[at.DEFERS] = bool(w[at.LOOKAHEAD] and w[at.SEEN_FOR])


def _peering(ours: Strategy, theirs: Strategy) -> int:
    """What a router is to another, by the protocol that the two speak."""
    protocol = negotiate(ours.protocols, theirs.protocols) or FLOODSUB
    if protocol not in ours.native_protocols:
        return at.FLOODED
    return at.TOLD_BACKOFFS if knows_backoff(protocol) else at.MESHED
