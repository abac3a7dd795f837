"""The kinds of routers by name, and the presets of each kind.

Drivers find a `RouterKind` by its name, and make a router with `create`. The name of a kind of another package is its
import path `module:attribute`, or the name of an entry point of the group `hearsay.routers`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pkgutil import resolve_name
from typing import Any

from hearsay.core.episub.episub import Episub
from hearsay.core.episub.parameters import EpisubParameters
from hearsay.core.flooding import Floodsub, FloodsubParameters, Randomsub, RandomsubParameters
from hearsay.core.language.identifiers import Micros, PeerId
from hearsay.core.mesh.gossipsub import Gossipsub
from hearsay.core.mesh.meshsub import Meshsub, MeshsubParameters
from hearsay.core.mesh.parameters import GossipsubParameters
from hearsay.core.rules.randomness import Randomness
from hearsay.core.scores.gater import GaterParameters
from hearsay.core.scores.named_sets import FIXED, MAX_VALIDATORS, MIN_VALIDATORS, VALIDATORS, named_set
from hearsay.core.shell.parameters import PresetWithArgument, RouterParameters, Values, preset_tables
from hearsay.core.shell.router import Router
from hearsay.core.shell.strategy import Strategy

ENTRY_POINT_GROUP = "hearsay.routers"


@dataclass(frozen=True, slots=True)
class RouterKind:
    """A kind of router: its name, parameters, strategy and presets."""

    name: str
    parameters: type[RouterParameters]
    strategy: Callable[[Any], Strategy]
    """Function that returns a new strategy; its argument is an object of the type `parameters`."""
    presets: Mapping[str, Mapping[str, object]]
    """For the name of each preset, the values of the parameters that the preset sets."""

    def protocols(self, parameters: RouterParameters) -> tuple[str, ...]:
        """Return the protocol ids of a router with these parameters, the preferred one first."""
        return self.strategy(parameters).protocols


class UnknownRouter(ValueError):
    """No router was found by its name, or the router that was found cannot be loaded."""


def _presets(tables: Mapping[str, dict[str, Any]]) -> dict[str, Values]:
    """Return the presets of one router from the tables of its presets.

    The key `extends` of a table lists earlier tables. The table has their values too, unless it has its own. Tables
    whose name begins with `_` are only for `extends`.
    """
    whole: dict[str, dict[str, Any]] = {}
    for name, own in tables.items():
        whole[name] = {key: value for base in own.pop("extends", ()) for key, value in whole[base].items()} | own
    return {name: _with_scores(values) for name, values in whole.items() if not name.startswith("_")}


def _with_scores(values: Mapping[str, Any]) -> Values:
    """Return the values of a preset, with a score set under the key `score` in place of the set's name.

    If `score_topics` is False, a fixed set loses its topics. If the set depends on the number of validators, the
    result is a preset with this number as its argument.
    """
    values = dict(values)
    name, topics = values.pop("score", None), values.pop("score_topics", True)
    if "gater" in values:
        values["gater"] = GaterParameters.from_mapping(values["gater"]).to_mapping()
    if name is None:
        return values
    if name in FIXED:
        return values | {"score": (FIXED[name] if topics else replace(FIXED[name], topics={})).to_mapping()}

    @lru_cache(maxsize=4)
    def make(validators: int) -> Values:
        return values | {"score": named_set(name, validators).to_mapping()}

    return PresetWithArgument("validators", MIN_VALIDATORS, MAX_VALIDATORS, VALIDATORS, make)


_PRESETS = {name: _presets(tables) for name, tables in preset_tables("routers").items()}
ROUTERS: Mapping[str, RouterKind] = {
    name: RouterKind(name, parameters, strategy, _PRESETS[name])
    for name, parameters, strategy in (
        ("floodsub", FloodsubParameters, Floodsub),
        ("randomsub", RandomsubParameters, Randomsub),
        ("meshsub", MeshsubParameters, Meshsub),
        ("gossipsub", GossipsubParameters, Gossipsub),
        ("episub", EpisubParameters, Episub),
    )
}


def find_router(name: str) -> RouterKind:
    """Return the kind of router with this name: a key of `ROUTERS`, an entry point, or a path `module:attribute`.

    Raises `UnknownRouter` if there is no such kind, or if it cannot be loaded.
    """
    if name in ROUTERS:
        return ROUTERS[name]
    try:
        found = resolve_name(name) if ":" in name else _entry_point(name)
    except UnknownRouter:
        raise
    except Exception as error:
        kind = "" if isinstance(error, ImportError | AttributeError) else f"{type(error).__name__}: "
        raise UnknownRouter(f"router {name!r} cannot be loaded: {kind}{error}") from error
    if not isinstance(found, RouterKind):
        raise UnknownRouter(f"router {name!r} is not a RouterKind but {type(found).__name__}")
    return found


def _entry_point(name: str) -> object:
    from importlib.metadata import entry_points

    points = {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
    if name not in points:
        known = ", ".join(sorted({*ROUTERS, *points}))
        raise UnknownRouter(f"no router {name!r}; use one of {known}, or an import path module:attribute")
    return points[name].load()


def create(
    kind: RouterKind, node: PeerId, parameters: RouterParameters, randomness: Randomness, now: Micros = 0
) -> Router:
    return Router(node, kind.strategy(parameters), randomness, now)


def negotiate(ours: tuple[str, ...], theirs: tuple[str, ...]) -> str | None:
    """Return the protocol for a connection: the first of `ours` that is also in `theirs`; None if there is none."""
    return next((protocol for protocol in ours if protocol in theirs), None)
