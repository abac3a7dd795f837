"""Routers from outside the package travel to the tasks with it: a module as its file, a package as a zip.

Routers that are entry points belong to an installed package, which the tasks' Python must have.
"""

from __future__ import annotations

import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hearsay.studies.points import Point


def carried_modules(points: Iterable[Point], work: Path) -> list[Path]:
    """The files that the tasks need for the routers of these points; zips are made in `work`."""
    roots: dict[str, None] = {}
    for scenario in {point.scenario for point in points}:
        for kind in _routers(tomllib.loads(scenario)):
            if ":" in kind:
                roots[kind.partition(":")[0].partition(".")[0]] = None
    return [file for root in sorted(roots) if root != "hearsay" and (file := _file_of(root, work)) is not None]


def _routers(scenario: dict[str, Any]) -> Iterator[str]:
    yield scenario["router"]["kind"]
    for population in scenario.get("population", ()):
        yield population["router"]["kind"]


def _file_of(root: str, work: Path) -> Path | None:
    spec = find_spec(root)
    if spec is None:
        return None
    if not spec.submodule_search_locations:
        return Path(spec.origin) if spec.origin is not None else None
    target = work / f"{root}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for location in map(Path, spec.submodule_search_locations):
            for file in sorted(location.rglob("*.py")):
                archive.write(file, Path(root) / file.relative_to(location))
    return target
