"""The imports that ARCHITECTURE.md allows: they point one way, and the core imports the standard library alone."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import file_lists
import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "hearsay"
EVERYWHERE = {"version", "foreign_files", "listener", "user_errors", "metrics", "number_text"}
"""Modules that every package may import."""
MAY_IMPORT = {
    "version": set(),
    "foreign_files": set(),
    "metrics": set(),
    "user_errors": set(),
    "listener": set(),
    "text": set(),
    "number_text": set(),
    "core": {"core"},
    "partial": {"partial", "core"},
    "trace": {"trace", "core", "text"},
    "sim": {"sim", "partial", "trace", "core", "text"},
    "ingest": {"ingest", "libp2p", "trace", "core"},
    "pipeline": {"pipeline", "trace", "core"},
    "score_check": {"score_check", "sim", "core", "text"},
    "explain": {"explain", "pipeline", "sim", "trace", "core", "text"},
    "graph_layout": set(),
    "http_server": set(),
    "watch": {"watch", "http_server", "graph_layout", "sim", "trace", "core", "text"},
    "report": {"report", "graph_layout", "explain", "score_check", "studies", "pipeline", "trace", "core", "text"},
    "libp2p": {"libp2p"},
    "py_libp2p": {"py_libp2p", "libp2p"},
    "wire": {"wire", "libp2p", "core"},
    "node": {"node", "http_server", "wire", "py_libp2p", "libp2p", "partial", "trace", "core"},
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


def statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements of a tree at any depth, but no expressions: they have no imports, and are many."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for node in getattr(tree, name, ()):
            if isinstance(node, ast.stmt):
                yield node
            yield from statements(node)


@cache
def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in statements(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def package_of(path: Path) -> str:
    """Return the package of a file, or the module next to the packages."""
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def test_every_package_has_its_rule():
    assert {package_of(path) for path in MODULES} == set(MAY_IMPORT)


def wrong_by_file(paths: Iterable[Path], wrong: Callable[[Path], set[str]]) -> dict[str, set[str]]:
    """Return the wrong imports by file, for the files that have any."""
    return {str(path.relative_to(SOURCE)): found for path in paths if (found := wrong(path))}


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_point_one_way(package):
    def above(path: Path) -> set[str]:
        packages = {name.split(".")[1] for name in imported(path) if name.startswith("hearsay.")}
        return packages - MAY_IMPORT[package] - EVERYWHERE

    assert wrong_by_file((path for path in MODULES if package_of(path) == package), above) == {}


def test_the_core_imports_the_standard_library_alone():
    def outside(path: Path) -> set[str]:
        return {name.split(".")[0] for name in imported(path)} - {"hearsay"} - sys.stdlib_module_names

    assert wrong_by_file(SOURCE.glob("core/**/*.py"), outside) == {}


LAYERS = {
    "core": [{"language"}, {"rules"}, {"shell"}, {"scores"}, {"flooding", "mesh", "episub"}, {"registry"}],
    "trace": [{"language"}, {"folder"}, {"reader"}, {"compare_runs", "run_series"}],
    "sim": [
        {"scenario"},
        {"plan"},
        {"recorder"},
        {"summary"},
        {"reference"},
        {"checks", "array"},
        {"witnesses"},
        {"simulate"},
    ],
    "sim/array": [
        {"views"},
        {"compiling"},
        {"world"},
        {"travel"},
        {"episub"},
        {"rules"},
        {"run"},
        {"router_parameters"},
        {"build_nodes"},
        {"build"},
        {"engine"},
    ],
    "libp2p": [
        {"names"},
        {"resources", "rates"},
        {"frames"},
        {"noise"},
        {"mux"},
        {"node_host"},
        {"host"},
        {"rendezvous"},
        {"identify", "rendezvous_streams"},
    ],
    "watch": [
        {"links"},
        {"spreads"},
        {"picture"},
        {"broadcast"},
        {"pacing", "server"},
        {"node", "run_folder", "simulation"},
        {"joined_nodes"},
    ],
    "ingest": [
        {"protobuf_fields"},
        {"event_decoder", "records", "source_record"},
        {"hermes", "live_runs", "pubsub_traces", "skew"},
        {"sources", "partition"},
        {"import_traces"},
        {"spark_import"},
    ],
    "partial": [{"formats"}, {"exchange"}],
    "pipeline": [
        {"spark"},
        {"run_facts"},
        {"output"},
        {"rows"},
        {"questions"},
        {"tables"},
        {"analyze"},
    ],
    "explain": [
        {"rows"},
        {"copies", "links"},
        {"requests"},
        {"message"},
        {"path"},
        {"fastest"},
        {"deliveries"},
        {"missing"},
        {"words"},
        {"answers"},
    ],
}
"""The layers of a package, the lowest first. Names in one layer do not import each other."""


@pytest.mark.parametrize("package", LAYERS)
def test_imports_point_one_way_inside_a_package_too(package):
    layers = {name: layer for layer, names in enumerate(LAYERS[package]) for name in names}
    inside = "hearsay." + package.replace("/", ".") + "."

    def not_below(path: Path) -> set[str]:
        own = path.relative_to(SOURCE / package).with_suffix("").parts[0]
        used = {name.removeprefix(inside).split(".")[0] for name in imported(path) if name.startswith(inside)} - {own}
        return {name for name in used if own in layers and layers.get(name, 99) >= layers[own]}

    paths = sorted(set((SOURCE / package).rglob("*.py")) - {SOURCE / package / "__init__.py"})
    assert wrong_by_file(paths, not_below) == {}


def test_no_imports_form_a_cycle():
    names = {".".join(("hearsay", *path.relative_to(SOURCE).with_suffix("").parts)): path for path in MODULES}
    graph = {name: {other for other in imported(path) if other in names} for name, path in names.items()}
    free = set(graph)
    while removable := {name for name in free if not graph[name] & free}:
        free -= removable
    while removable := {name for name in free if not any(name in graph[other] for other in free)}:
        free -= removable
    assert free == set()


def test_every_file_states_its_subject():
    assert [path for path in MODULES if not file_lists.subject(path)] == []
