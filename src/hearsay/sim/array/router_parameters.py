"""Routers' parameters as the columns that kernels read.

Rule: each parameter of a router with kernels is carried by a column, or is on the list of those that the reference
engine alone knows (`plan/engines.py`). Any other is an error when the arrays are built: a kernel that reads it by a
default would run another router than the one that was asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hearsay.core.mesh.parameters import FanoutTopUp, GossipTargets, SeenBy, ShortMesh, UnknownGraft
from hearsay.core.shell.parameters import RouterParameters
from hearsay.sim.array.world import layout as at
from hearsay.sim.plan.engines import PART_OF, REFERENCE_ONLY, WITH_KERNELS

_Value: TypeAlias = Callable[[Any], int]


class NoKernel(Exception):
    """A parameter that no column carries."""


@dataclass(frozen=True, slots=True)
class _Column:
    """Where a value stands, the parameters it is made of, and how; without that it is the parameter itself."""

    place: int
    names: tuple[str, ...]
    value: _Value | None = None


def _by_time(given: Any) -> bool:
    return getattr(given, "seen_by", SeenBy.TIME) is SeenBy.TIME


_SHARED = (
    _Column(at.HELLO, ("hello",)),
    _Column(at.ANNOUNCE_AGAIN, ("announce_again_ms",)),
    _Column(at.COALESCE, ("coalesce",)),
    _Column(at.VALIDATE, ("validate",)),
    _Column(at.SEEN_TTL, ("seen_ttl_ms",), lambda given: given.seen_ttl_us if _by_time(given) else 0),
    _Column(at.MAX_SEEN, ("max_seen",)),
    _Column(at.MAX_SUBSCRIPTIONS, ("max_subscriptions_per_peer",)),
    _Column(at.MAX_MESSAGES, ("max_messages_per_rpc",)),
    _Column(at.MAX_CONTROL, ("max_control_per_rpc",)),
    _Column(at.MAX_PENDING, ("max_pending_validations",)),
)
_RANDOMSUB = (_Column(at.REACH, ("degree", "network_size"), lambda given: given.reach),)
_MESHSUB = (
    _Column(at.DEGREE, ("degree",)),
    _Column(at.DEGREE_LOW, ("degree_low",)),
    _Column(at.PRUNE_FROM, ("degree_high", "prune_trigger"), lambda given: given.prune_from),
    _Column(at.REFUSE_FROM, ("degree_high", "full_mesh"), lambda given: given.refuse_from),
    _Column(at.EXCHANGE, ("exchange_peers",)),
    _Column(at.UNKNOWN_GRAFT_PRUNES, ("unknown_graft",), lambda given: given.unknown_graft is UnknownGraft.PRUNE),
    _Column(at.INTERVAL, ("heartbeat_interval_ms",)),
    _Column(at.FIRST_BEAT, ("first_heartbeat_ms",)),
    _Column(at.BEAT_SPREAD, ("first_heartbeat_spread_ms",)),
    _Column(at.BACKOFF, ("prune_backoff_ms",)),
    _Column(at.UNSUBSCRIBE_BACKOFF, ("unsubscribe_backoff_ms",)),
    _Column(at.MAX_BACKOFF, ("max_backoff_ms",)),
    _Column(at.BACKOFF_SLACK, ("backoff_slack_heartbeats",), lambda given: given.backoff_slack_us),
    _Column(at.MAX_BACKOFFS, ("max_backoffs",)),
)
_GOSSIPSUB = (
    _Column(at.LAZY, ("degree_lazy",)),
    _Column(
        at.FILTER_FIRST,
        ("gossip_targets",),
        lambda given: given.gossip_targets is GossipTargets.FILTER_THEN_SELECT,
    ),
    _Column(at.HISTORY, ("history_length",)),
    _Column(at.GOSSIP_WINDOWS, ("history_gossip",)),
    _Column(
        at.SEEN_WINDOWS,
        ("seen_by", "history_length"),
        lambda given: 0 if _by_time(given) else given.history_length,
    ),
    _Column(at.FANOUT_TTL, ("fanout_ttl_ms",)),
    _Column(at.FANOUT_AT_PUBLISH, ("fanout_top_up",), lambda given: given.fanout_top_up is FanoutTopUp.PUBLISH),
    _Column(at.TOP_UP_MESH, ("short_mesh",), lambda given: given.short_mesh is ShortMesh.TOP_UP),
    _Column(at.GRAFT_ON_MISSING, ("graft_on_missing",)),
    _Column(at.MISSING_WINDOW, ("missing_window_heartbeats",)),
    _Column(at.MAX_IHAVE, ("max_ids_per_ihave",)),
    _Column(at.MAX_IWANT, ("max_ids_per_iwant",)),
    _Column(at.ANSWERS_LIMIT, ("iwant_answers_per_id",)),
    _Column(at.MAX_CACHED, ("max_cached_messages",)),
)
_COLUMNS = {
    "floodsub": _SHARED,
    "randomsub": (*_SHARED, *_RANDOMSUB),
    "meshsub": (*_SHARED, *_MESHSUB),
    "gossipsub": (*_SHARED, *_MESHSUB, *_GOSSIPSUB),
}


def columns_of(router: str, parameters: RouterParameters) -> NDArray[np.int64]:
    """Return a router's line in the table `parameters`; `NoKernel` if that would leave out a parameter."""
    columns = _COLUMNS[router]
    carried = {name for column in columns for name in column.names}
    missing = set(parameters.names()) - carried - set(REFERENCE_ONLY) - set(PART_OF)
    if missing:
        raise NoKernel(f"{router}: no column carries {', '.join(sorted(missing))}")
    line = np.zeros(at.PARAMETERS, dtype=np.int64)
    line[at.ROUTER_KIND] = WITH_KERNELS.index(router)
    for column in columns:
        name = column.names[0]
        unit = 1000 if name.endswith("_ms") else 1
        line[column.place] = column.value(parameters) if column.value else unit * getattr(parameters, name)
    return line
