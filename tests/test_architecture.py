"""The arrows of ARCHITECTURE.md: imports point one way, and the core knows the standard library alone."""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path

import file_lists
import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "hearsay"
EVERYWHERE = {"version", "extras"}
"""Two files that everybody may read: the version, and what an installation may lack."""
MAY_IMPORT = {
    "version": set(),
    "extras": set(),
    "text": {"text"},
    "core": {"core"},
    "partial": {"partial", "core"},
    "trace": {"trace", "core", "text"},
    "sim": {"sim", "partial", "trace", "core", "text"},
    "ingest": {"ingest", "libp2p", "trace", "core"},
    "pipeline": {"pipeline", "trace", "core"},
    "score_check": {"score_check", "sim", "core", "text"},
    "explain": {"explain", "pipeline", "sim", "trace", "core", "text"},
    "graph_layout": set(),
    "http": {"http"},
    "watch": {"watch", "http", "graph_layout", "sim", "trace", "core", "text"},
    "report": {"report", "graph_layout", "explain", "score_check", "studies", "pipeline", "trace", "core", "text"},
    "libp2p": {"libp2p"},
    "py_libp2p": {"py_libp2p", "libp2p"},
    "wire": {"wire", "libp2p", "core"},
    "node": {"node", "http", "wire", "py_libp2p", "libp2p", "partial", "trace", "core"},
    "studies": {"studies", "pipeline", "sim", "trace", "core", "text"},
    "api": {"api", "explain", "score_check", "studies", "pipeline", "sim", "trace", "core", "text"},
    "routers": {"core"},
    "vectors": {"vectors", "core", "text"},
    "__init__": {"api", "score_check", "studies", "node", "wire", "sim", "trace", "core"},
    "__main__": {"cli"},
    "cli": {
        "cli",
        "api",
        "studies",
        "report",
        "explain",
        "score_check",
        "pipeline",
        "ingest",
        "node",
        "wire",
        "py_libp2p",
        "libp2p",
        "sim",
        "trace",
        "vectors",
        "watch",
        "core",
        "text",
    },
}
MODULES = sorted(SOURCE.rglob("*.py"))


@cache
def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def room_of(path: Path) -> str:
    """A folder, or a file beside the folders."""
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def test_every_room_has_its_rule():
    assert {room_of(path) for path in MODULES} == set(MAY_IMPORT)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path):
    room = room_of(path)
    rooms = {name.split(".")[1] for name in imported(path) if name.startswith("hearsay.")}
    assert rooms <= MAY_IMPORT[room] | EVERYWHERE


@pytest.mark.parametrize("path", sorted(SOURCE.glob("core/**/*.py")), ids=lambda path: path.name)
def test_the_core_imports_the_standard_library_alone(path):
    outside = {name.split(".")[0] for name in imported(path)} - {"hearsay"}
    assert outside <= sys.stdlib_module_names


INSIDE = {
    "core": [{"language"}, {"rules"}, {"shell"}, {"scores"}, {"flooding", "mesh", "episub"}, {"registry"}],
    "trace": [{"language"}, {"folder"}, {"write"}, {"read"}, {"series"}],
    "sim": [{"scenario"}, {"plan"}, {"results"}, {"reference"}, {"checks", "array"}, {"witnesses"}, {"simulate"}],
    "sim/array": [
        {"machine"},
        {"world"},
        {"travel"},
        {"rules"},
        {"network"},
        {"run"},
        {"router_parameters"},
        {"building"},
        {"engine"},
    ],
    "libp2p": [{"names"}, {"limits"}, {"secure"}, {"mux"}, {"host"}, {"services"}],
    "watch": [{"picture"}, {"places", "history"}, {"broadcast"}, {"row_stream", "server", "touches"}, {"sources"}],
    "ingest": [{"decoding"}, {"formats"}, {"run"}],
    "partial": [{"claims"}, {"formats", "application", "asking"}, {"counted_parts", "exchange"}],
    "pipeline": [
        {"spark"},
        {"input"},
        {"output"},
        {"task_tables"},
        {"kernels"},
        {"metrics"},
        {"run_tasks"},
        {"scan"},
        {"small_runs", "large_runs"},
        {"analyze"},
        {"stream"},
    ],
    "explain": [
        {"books", "link_model", "subject", "connections", "mesh_links", "partial_traffic"},
        {"last_parts"},
        {"story", "announcements", "refused_parts", "reasons", "score_samples"},
        {"path"},
        {"one_node", "fastest"},
        {"shortcut", "slowest", "missing"},
        {"node_words"},
        {"slow_words", "missing_words", "answer_json"},
        {"explained"},
    ],
}
"""The rooms in a room, lowest first; those of one line know nothing of each other."""
INSIDE_ARROWS = [
    (room, path)
    for room in INSIDE
    for path in sorted((SOURCE / room).rglob("*.py"))
    if path != SOURCE / room / "__init__.py"
]


@pytest.mark.parametrize(("room", "path"), INSIDE_ARROWS, ids=lambda value: str(value).removeprefix(f"{SOURCE}/"))
def test_imports_point_one_way_inside_a_room_too(room, path):
    floors = {name: floor for floor, names in enumerate(INSIDE[room]) for name in names}
    own = path.relative_to(SOURCE / room).with_suffix("").parts[0]
    inside = "hearsay." + room.replace("/", ".") + "."
    below = {name.removeprefix(inside).split(".")[0] for name in imported(path) if name.startswith(inside)} - {own}
    if own in floors:
        assert {name for name in below if floors.get(name, 99) >= floors[own]} == set()


def test_no_file_imports_itself_by_way_of_others():
    names = {".".join(("hearsay", *path.relative_to(SOURCE).with_suffix("").parts)): path for path in MODULES}
    graph = {name: {other for other in imported(path) if other in names} for name, path in names.items()}
    free = set(graph)
    while removable := {name for name in free if not graph[name] & free}:
        free -= removable
    while removable := {name for name in free if not any(name in graph[other] for other in free)}:
        free -= removable
    assert free == set()


def test_the_page_of_files_is_made_from_their_docstrings():
    assert file_lists.PAGE.read_text(encoding="utf-8") == file_lists.page(), "run `python tools/file_lists.py`"
