"""`make size`: prints the code lines and files of each package, and their budgets in size_budgets.toml.

    python tools/size.py

Code lines are all lines except blank lines, comments, docstrings and imports. The exit code is 1 if a package is
above its budget.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "hearsay"
BUDGETS = Path(__file__).with_name("size_budgets.toml")
TOP = "(top)"
"""The name of the modules next to the packages in tables."""
_LAYOUT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
}  # fmt: skip


def code_lines(source: str) -> int:
    """Return the number of code lines of a module."""
    left_out = {line for node in _imports_and_docstrings(ast.parse(source)) for line in _lines(node)}
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _LAYOUT:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - left_out)


def sizes() -> dict[str, tuple[int, int]]:
    """Return code lines and files by package."""
    found: dict[str, tuple[int, int]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).parts
        package = place[0] if len(place) > 1 else TOP
        lines, files = found.get(package, (0, 0))
        found[package] = lines + code_lines(path.read_text(encoding="utf-8")), files + 1
    return found


def budgets() -> dict[str, tuple[int, int]]:
    """Return the allowed code lines and files by package."""
    tables = tomllib.loads(BUDGETS.read_text(encoding="utf-8"))
    return {package: (table["code_lines"], table["files"]) for package, table in tables.items()}


def excesses() -> list[str]:
    """Return a line for each package that has no budget, is above it, or does not exist."""
    found, allowed = sizes(), budgets()
    lines = [f"{package}: no budget in {BUDGETS.name}" for package in sorted(found.keys() - allowed.keys())]
    lines += [f"{package}: a budget, but no package" for package in sorted(allowed.keys() - found.keys())]
    for package in sorted(found.keys() & allowed.keys()):
        for unit, number, most in zip(("code lines", "files"), found[package], allowed[package], strict=True):
            if number > most:
                lines.append(f"{package}: {number:,} {unit}, the budget is {most:,}")
    return lines


def table() -> str:
    """Return sizes and budgets as text, the largest package first."""
    found, allowed = sizes(), budgets()
    rows = sorted(((package, *found[package], *allowed.get(package, (0, 0))) for package in found), key=_by_lines)
    rows.append(("total", *(sum(column) for column in list(zip(*rows, strict=True))[1:])))
    head = f"{'package':14}{'code lines':>12}{'files':>8}{'budget':>12}{'files':>8}"
    return "\n".join([head, *(f"{name:14}{a:12,}{b:8,}{c:12,}{d:8,}" for name, a, b, c, d in rows)])


def _imports_and_docstrings(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield imports, and statements that consist of a string."""
    for node in ast.walk(tree):
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant(value=str())):
                yield node
            case _:
                pass


def _lines(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _by_lines(row: tuple[str, int, int, int, int]) -> int:
    return -row[1]


if __name__ == "__main__":
    print(table())
    print("\n".join(excesses()))
    sys.exit(bool(excesses()))
