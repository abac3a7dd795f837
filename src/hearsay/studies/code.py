"""Which code makes a run: part of a run's name, so that figures of yesterday's router are never taken for today's.

Routers from outside the package count, and travel to the tasks: a module as its file, a package as a zip. Routers
that are entry points belong to an installed package, which the tasks' Python must have; its version counts.
"""

from __future__ import annotations

import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hearsay.core.registry import ENTRY_POINT_GROUP, ROUTERS
from hearsay.version import __version__

_PACKAGE = Path(__file__).parents[1]
_ROOMS = ("core", "trace", "sim")
_FIGURES = "studies/packs.py"


def code_digest(scenario: str) -> str:
    """A hash of this program's rooms that make a run, and of the routers of this scenario from outside."""
    digest = sha256(_own_digest().encode())
    for kind in sorted(set(_routers(scenario)) - set(ROUTERS)):
        digest.update(f"\0{kind}".encode())
        if ":" in kind:
            for name, file in _module_files(_root_of(kind)):
                digest.update(f"\0{name}\0".encode() + file.read_bytes())
        else:
            digest.update("".join(str(point.dist and point.dist.version) for point in _points(kind)).encode())
    return digest.hexdigest()


def carried_modules(scenarios: Iterable[str], work: Path) -> list[Path]:
    """What the tasks need for the routers of these scenarios; zips are made in `work`."""
    roots = sorted({_root_of(kind) for text in set(scenarios) for kind in _routers(text) if ":" in kind})
    carried: list[Path] = []
    for root in roots:
        files = list(_module_files(root))
        if root == "hearsay" or not files:
            continue
        if len(files) == 1 and "/" not in files[0][0]:
            carried.append(files[0][1])
            continue
        carried.append(work / f"{root}.zip")
        with zipfile.ZipFile(carried[-1], "w", zipfile.ZIP_DEFLATED) as archive:
            for name, file in files:
                archive.write(file, name)
    return carried


@lru_cache(maxsize=1)
def _own_digest() -> str:
    digest = sha256(__version__.encode())
    files = [file for room in _ROOMS for file in sorted((_PACKAGE / room).rglob("*.py"))]
    for file in (*files, _PACKAGE / _FIGURES):
        digest.update(f"\0{file.relative_to(_PACKAGE).as_posix()}\0".encode() + file.read_bytes())
    return digest.hexdigest()


def _routers(scenario: str) -> Iterator[str]:
    document: dict[str, Any] = tomllib.loads(scenario)
    yield document["router"]["kind"]
    for population in document.get("population", ()):
        yield population["router"]["kind"]


def _root_of(kind: str) -> str:
    return kind.partition(":")[0].partition(".")[0]


def _module_files(root: str) -> Iterator[tuple[str, Path]]:
    """The files of a module or package, with the names they are imported under."""
    spec = find_spec(root)
    if spec is None:
        return
    if spec.submodule_search_locations:
        for location in map(Path, spec.submodule_search_locations):
            for file in sorted(location.rglob("*.py")):
                yield f"{root}/{file.relative_to(location).as_posix()}", file
    elif spec.origin is not None:
        yield Path(spec.origin).name, Path(spec.origin)


def _points(kind: str) -> list[Any]:
    return [point for point in entry_points(group=ENTRY_POINT_GROUP) if point.name == kind]
