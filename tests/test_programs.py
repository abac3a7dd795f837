"""Programs outside the package, such as benchmarks and interoperation with other implementations, use names that the
package has. Most of them run only on a machine with other toolchains.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
PROGRAMS = sorted(
    path for folder in ("bench", "examples", "interop", "studies", "tools") for path in (ROOT / folder).rglob("*.py")
)


def missing_names(tree: ast.Module) -> Iterator[str]:
    """Yield each name that the program imports from the package, or reads in a module of it, and that is missing."""
    modules: dict[str, ModuleType] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "hearsay":
            package = import_module(node.module or "")
            for alias in node.names:
                value = getattr(package, alias.name, None)
                if value is None:
                    try:
                        value = import_module(f"{node.module}.{alias.name}")
                    except ModuleNotFoundError:
                        yield f"{node.module}.{alias.name}"
                if isinstance(value, ModuleType):
                    modules[alias.asname or alias.name] = value
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            module = modules[node.value.id]
            if not hasattr(module, node.attr):
                yield f"{module.__name__}.{node.attr}"


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: str(path.relative_to(ROOT)))
def test_programs_use_names_that_exist(path):
    assert list(missing_names(ast.parse(path.read_text(encoding="utf-8")))) == []
