"""The arrows of ARCHITECTURE.md: imports point one way, and the core knows the standard library alone."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "hearsay"
MAY_IMPORT = {
    "words": set(),
    "core": {"core"},
    "trace": {"trace", "core"},
    "sim": {"sim", "trace", "core"},
    "ingest": {"ingest", "libp2p", "trace", "core"},
    "pipeline": {"pipeline", "trace", "core"},
    "report": {"report", "studies", "pipeline", "trace", "core", "words"},
    "libp2p": {"libp2p"},
    "py_libp2p": {"py_libp2p", "libp2p"},
    "wire": {"wire", "libp2p", "core"},
    "node": {"node", "wire", "py_libp2p", "libp2p", "trace", "core"},
    "studies": {"studies", "pipeline", "sim", "trace", "core", "words"},
    "cli": {
        "cli",
        "studies",
        "report",
        "pipeline",
        "ingest",
        "node",
        "wire",
        "py_libp2p",
        "libp2p",
        "sim",
        "trace",
        "core",
        "words",
    },
}
MODULES = sorted(SOURCE.glob("*/**/*.py"))
PAGES = {"report": "docs/report.md", "sim/array": "docs/array-engine.md"}
"""Rooms whose files a page lists; the others have a section of ARCHITECTURE.md."""


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.add(node.module or "")
    return names


def test_every_room_has_its_rule():
    assert {path.relative_to(SOURCE).parts[0] for path in MODULES} == set(MAY_IMPORT)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path):
    room = path.relative_to(SOURCE).parts[0]
    rooms = {name.split(".")[1] for name in imported(path) if name.startswith("hearsay.")}
    assert rooms <= MAY_IMPORT[room]


@pytest.mark.parametrize("path", sorted(SOURCE.glob("core/**/*.py")), ids=lambda path: path.name)
def test_the_core_imports_the_standard_library_alone(path):
    outside = {name.split(".")[0] for name in imported(path)} - {"hearsay"}
    assert outside <= sys.stdlib_module_names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_file_is_named_where_its_room_is_described(path):
    if path.name == "__init__.py":
        return
    place = path.relative_to(SOURCE).as_posix()
    page = next((page for room, page in PAGES.items() if place.startswith(room + "/")), None)
    text = (ROOT / (page or "ARCHITECTURE.md")).read_text(encoding="utf-8")
    if page is None:
        room = path.relative_to(SOURCE).parts[0].replace("py_libp2p", "libp2p")
        text = "".join(re.findall(rf"^## [^\n]*\b{room}\b.*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    assert re.search(rf"[`/]{re.escape(path.name)}`", text), f"{place} is not named in {page or 'ARCHITECTURE.md'}"
