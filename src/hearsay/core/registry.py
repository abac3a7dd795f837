"""The routers by name, and their named parameter sets.

`create` is the one way to a router for drivers that know it by name. A router written outside the package is named
by its import path `module:attribute`, or by an entry point of the group `hearsay.routers`; the attribute is a
`RouterKind`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from hearsay.core.episub.episub import Episub
from hearsay.core.episub.parameters import EpisubParameters
from hearsay.core.flooding import Floodsub, FloodsubParameters, Randomsub, RandomsubParameters
from hearsay.core.language.identifiers import Micros, PeerId
from hearsay.core.mesh import presets as deployed_presets
from hearsay.core.mesh import presets as implementation_presets
from hearsay.core.mesh import presets as network_presets
from hearsay.core.mesh.judging_gossipsub import gossipsub
from hearsay.core.mesh.meshsub import Meshsub, MeshsubParameters
from hearsay.core.mesh.parameters import GossipsubParameters
from hearsay.core.shell.parameters import RouterParameters
from hearsay.core.shell.randomness import Randomness
from hearsay.core.shell.router import Router
from hearsay.core.shell.strategy import Strategy

ENTRY_POINT_GROUP = "hearsay.routers"

_BARE: Mapping[str, object] = {"hello": False, "coalesce": False}
_SIMSUB: Mapping[str, object] = {
    **_BARE,
    "seen_by": "history",
    "history_length": 121,  # the actor keeps 120 closed windows beside the open one
    "iwant_answers_per_id": 1_000_000,
}
_EPISUB: Mapping[str, Mapping[str, object]] = {
    "episub": {},
    "episub-single-source": {"optimisation_threshold": 2, "repair": "eager"},
    "hyparview-plumtree-10k": {
        "overlay": "hyparview",
        "random_links": 5,
        "near_links": 0,
        "passive_size": 30,
        "probe_count": 0,
        "contacts_interval_ms": 0,
        "leave_by": "disconnect",
        "optimisation_threshold": 7,
        "repair": "lazy",
        "flush_ms": 1,
        "announce_recent_ms": 0,
    },
    "gocast": {
        "random_links": 1,
        "near_links": 5,
        "stabilise_max_ms": 3000,
        "probe_interval_ms": 2000,
        "probe_count": 4,
    },
}
_GUIDE: Mapping[str, object] = {
    "gossip_targets": "filter_then_select",
    "fanout_ttl_ms": 120_000,
    "fanout_top_up": "publish",
    "graft_on_missing": 3,
}
_V11: Mapping[str, object] = {
    "prune_backoff_ms": 60_000,
    "unknown_graft": "ignore",
    "full_mesh": "refuse",
    "first_heartbeat_ms": 100,
    "first_heartbeat_spread_ms": 100,
}


@dataclass(frozen=True, slots=True)
class RouterKind:
    """A kind of router: its parameters, its strategy, and named sets of parameters."""

    name: str
    parameters: type[RouterParameters]
    strategy: Callable[[Any], Strategy]
    presets: Mapping[str, Mapping[str, object]]

    def protocols(self, parameters: RouterParameters) -> tuple[str, ...]:
        """What a router with these parameters speaks, preferred first."""
        return self.strategy(parameters).protocols


class UnknownRouter(ValueError):
    """No router of that name; the message says what there is."""


ROUTERS: Mapping[str, RouterKind] = {
    kind.name: kind
    for kind in (
        RouterKind("floodsub", FloodsubParameters, Floodsub, {"r1": {}, "simsub": _BARE}),
        RouterKind("randomsub", RandomsubParameters, Randomsub, {"r1": {}, "simsub": _BARE}),
        RouterKind("meshsub", MeshsubParameters, Meshsub, {"r1": {}, "simsub": _BARE, "v1.1": _V11}),
        RouterKind(
            "gossipsub",
            GossipsubParameters,
            gossipsub,
            {
                "r1": {},
                "simsub": _SIMSUB,
                "guide": _GUIDE,
                "v1.1": {**_V11, "gossip_targets": "filter_then_select", "short_mesh": "top_up"},
                "spec": deployed_presets.SPEC,
                "go": deployed_presets.GO,
                "rust": implementation_presets.RUST,
                "js": implementation_presets.JS,
                "nim": implementation_presets.NIM,
                "jvm": implementation_presets.JVM,
                "ethereum": network_presets.ETHEREUM,
                "ethereum-prysm": network_presets.ETHEREUM_PRYSM,
                "filecoin": network_presets.FILECOIN,
                "filecoin-bootstrap": network_presets.FILECOIN_BOOTSTRAP,
                "hardening": deployed_presets.HARDENING,
                "bootstrapper": deployed_presets.BOOTSTRAPPER,
            },
        ),
        RouterKind("episub", EpisubParameters, Episub, _EPISUB),
    )
}


def find_router(name: str) -> RouterKind:
    """The router of a name, an entry point or an import path `module:attribute`."""
    if name in ROUTERS:
        return ROUTERS[name]
    found: object
    if ":" in name:
        module_name, _, attribute = name.partition(":")
        try:
            found = getattr(import_module(module_name), attribute)
        except Exception as error:
            raise _not_loaded(name, error) from error
    else:
        from importlib.metadata import entry_points

        points = {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
        if name not in points:
            known = ", ".join(sorted({*ROUTERS, *points}))
            raise UnknownRouter(f"no router {name!r}; there are {known}, or an import path module:attribute")
        try:
            found = points[name].load()
        except Exception as error:
            raise _not_loaded(name, error) from error
    if not isinstance(found, RouterKind):
        raise UnknownRouter(f"router {name!r} is not a RouterKind but {type(found).__name__}")
    return found


def _not_loaded(name: str, error: Exception) -> UnknownRouter:
    """Whatever its module raises on the way in is its author's to hear of."""
    kind = "" if isinstance(error, ImportError | AttributeError) else f"{type(error).__name__}: "
    return UnknownRouter(f"router {name!r} cannot be loaded: {kind}{error}")


def create(
    kind: RouterKind, node: PeerId, parameters: RouterParameters, randomness: Randomness, now: Micros = 0
) -> Router:
    return Router(node, kind.strategy(parameters), randomness, now)


def negotiate(ours: tuple[str, ...], theirs: tuple[str, ...]) -> str | None:
    """The protocol two peers speak: the first of ours that they know."""
    return next((protocol for protocol in ours if protocol in theirs), None)
