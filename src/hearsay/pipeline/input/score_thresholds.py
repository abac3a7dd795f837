"""Below which scores a peer gets less, read from a scenario by the names of its keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Thresholds:
    gossip: float
    publish: float
    graylist: float


def thresholds_in(scenario: Mapping[str, Any]) -> Thresholds | None:
    """Those of all routers that keep scores; None if none does, or they differ."""
    routers = [scenario.get("router", {}), *(each.get("router", {}) for each in scenario.get("population", ()))]
    tables = [router["score"]["thresholds"] for router in routers if "thresholds" in router.get("score", {})]
    found = {Thresholds(*(float(table[name]) for name in ("gossip", "publish", "graylist"))) for table in tables}
    return found.pop() if len(found) == 1 else None
