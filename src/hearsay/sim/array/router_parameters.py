"""The parameters of routers as lines of numbers in the arrays `parameters`, `reals`, … of the kernels.

`router_parameters.toml` describes the fields of these lines. A field carries a parameter if its value is computed
from the parameter. If no field carries a parameter of a router, kernels would ignore it: building the arrays is an
error, except for the parameters in `REFERENCE_ONLY`, whose values are their defaults.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hearsay.core.language.sizes import SEEN_BYTES, length_of
from hearsay.core.mesh.parameters import GossipsubParameters, OutboundRepair, SeenBy
from hearsay.core.scores.score_parameters import TopicNumbers
from hearsay.core.shell.parameters import RouterParameters
from hearsay.sim.array.world import layout as at
from hearsay.sim.plan.engines import REFERENCE_ONLY, WITH_KERNELS

FIELDS: Mapping[str, Mapping[str, Any]] = tomllib.loads(
    files("hearsay.sim.array").joinpath("router_parameters.toml").read_text(encoding="utf-8")
)
"""The tables of `router_parameters.toml`, by name."""
_TABLES = {"meshsub": ("shared", "meshsub"), "gossipsub": ("shared", "meshsub", "gossipsub", "reals")}
"""The names of the tables of two routers. All other routers have the table `shared`, and one with the router's name
if there is one."""
_ID_BYTES = SEEN_BYTES + length_of(0)
"""The number of bytes in memory of an id in a seen cache, for the numbers that are ids in a simulation."""


class NoKernel(Exception):
    """The error that no field carries a parameter of a router."""


def _by_time(given: Any) -> bool:
    """Return whether a router forgets seen messages after a time, not after a number of heartbeats."""
    return getattr(given, "seen_by", SeenBy.TIME) is SeenBy.TIME


def _most_seen(given: RouterParameters) -> int:
    return min(given.max_seen, given.max_seen_bytes // _ID_BYTES) if given.max_seen_bytes else given.max_seen


_COMPUTED: dict[str, Callable[[Any], int]] = {
    "SEEN_TTL": lambda given: given.seen_ttl_us if _by_time(given) else 0,
    "SEEN_WINDOWS": lambda given: 0 if _by_time(given) else given.history_length,
    "MAX_SEEN": _most_seen,
    "FILTERS": lambda given: bool(given.allowed_topics),
    "REPAIR_TO": lambda given: (
        given.degree if given.outbound_repair is OutboundRepair.TO_DEGREE else given.degree_out
    ),
    "SCORES": lambda given: given.score is not None,
    "GATES": lambda given: given.gater is not None,
    "OWN_FEATURES": lambda given: at.EXCHANGES_PARTS * given.partial_messages + at.TESTS * given.test_extension,
}
"""The function that computes a field from the parameters of a router, for each field that needs one."""


def _read(given: RouterParameters, path: str) -> Any:
    """Return the value at a path such as `score.peer.topic_cap`, in microseconds if the path ends in `_ms`. Return 0
    if an object on the path is None: the router has no scores, or no gater."""
    found: Any = given
    for name in path.split("."):
        found = None if found is None else getattr(found, name)
    return 0 if found is None else found * 1000 if path.endswith("_ms") else found


def _value(given: RouterParameters, field: str, entry: Any) -> int:
    """Return the value of a field of `parameters`; `entry` is the field's description in the file."""
    if field in _COMPUTED:
        return _COMPUTED[field](given)
    if isinstance(entry, str):
        return _read(given, entry)
    value = _read(given, entry["of"])
    words = entry.get("values") or entry.get("one_of")
    if not words or value == 0:
        return value
    choices = [type(value)(word) for word in words]  # a misspelled word is an error
    return choices.index(value) if "values" in entry else value in choices


def _carried(entry: Any) -> list[str]:
    """Return the names of the parameters that a field carries; `entry` is the field's description in the file."""
    if isinstance(entry, str):
        return [entry.partition(".")[0]]
    return entry.get("from") or [entry["of"].partition(".")[0]]


def parameter_line(router: str, parameters: RouterParameters) -> NDArray[np.int64]:
    """Return a router's line in the array `parameters`. Raise `NoKernel` if no field carries one of the router's
    parameters."""
    tables = {name: FIELDS.get(name, {}) for name in _TABLES.get(router, ("shared", router))}
    carried = {name for table in tables.values() for entry in table.values() for name in _carried(entry)}
    missing = set(parameters.names()) - carried - set(REFERENCE_ONLY.get(router, ()))
    if missing:
        names = ", ".join(sorted(missing))
        raise NoKernel(
            f"router_parameters.toml: no field of {router} carries {names}; add one, or add the parameter to "
            "REFERENCE_ONLY in sim/plan/engines.py"
        )
    line = np.zeros(at.PARAMETERS, dtype=np.int64)
    line[at.ROUTER_KIND] = WITH_KERNELS.index(router)
    for name, table in tables.items():
        for field, entry in table.items() if name != "reals" else ():
            line[getattr(at, field)] = _value(parameters, field, entry)
    return line


def real_line(parameters: RouterParameters) -> list[float]:
    """Return a router's line in the array `reals`; all values are 0 unless the router is gossipsub."""
    line = [0.0] * at.REALS
    if isinstance(parameters, GossipsubParameters):
        for field, path in FIELDS["reals"].items():
            line[getattr(at, field)] = float(_read(parameters, path))
    return line


def topic_lines(parameters: RouterParameters, topic: str) -> tuple[list[float], list[int]]:
    """Return a router's lines for a topic in the arrays `topic_reals` and `topic_times`."""
    score = parameters.score if isinstance(parameters, GossipsubParameters) else None
    scored = None if score is None else score.of_topic(topic)
    numbers = TopicNumbers() if scored is None else scored.numbers()
    times = ("quantum", "window", "activation")
    line = [value for name, value in numbers._asdict().items() if name not in times]
    line.append(1.0 if scored is None else float(scored.gater_weight))
    return line, [int(scored is not None), *(getattr(numbers, name) for name in times)]
