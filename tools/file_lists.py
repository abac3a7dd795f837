"""Prints packages, or the files of a package, with the subjects that their docstrings state.

python tools/file_lists.py [PACKAGE, such as core or sim/array]
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "hearsay"


def subject(file: Path) -> str:
    """Return the first paragraph of a module's docstring in one line."""
    paragraph, _, _ = (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").partition("\n\n")
    return " ".join(paragraph.split())


def lines(package: str = "") -> list[str]:
    """Return a line for each package, or for each folder and file below one."""
    files = sorted((SOURCE / package).rglob("*.py") if package else SOURCE.glob("*/__init__.py"))
    named = [(file.parent if file.name == "__init__.py" else file, subject(file)) for file in files]
    return [f"{path.relative_to(SOURCE).as_posix():40} {text}" for path, text in named]


if __name__ == "__main__":
    print("\n".join(lines(*sys.argv[1:2])))
