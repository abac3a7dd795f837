"""Every subpackage with the first sentence of its docstring: writes docs/design/files.md.

python tools/file_lists.py
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "hearsay"
PAGE = ROOT / "docs" / "design" / "files.md"
_HEAD = """# Subpackages

| below `src/hearsay/` | subject |
| --- | --- |
"""
_FOOT = """
`python tools/file_lists.py` writes this page from the first sentences of docstrings.
[ARCHITECTURE](../../ARCHITECTURE.md) lists the packages, their order and what they import.
The first line of a file states its subject.
"""


def first_sentence(path: Path) -> str:
    """Return the first sentence of a module's docstring."""
    lines = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n\n")[0].split("\n")
    sentence, _, _ = " ".join(line.strip() for line in lines).partition(". ")
    return f"{sentence.removesuffix('.')}."


def page() -> str:
    """Return the page: a row for each folder below a package."""
    files = sorted(SOURCE.glob("*/*/**/__init__.py"))
    rows = (f"| `{file.parent.relative_to(SOURCE).as_posix()}/` | {first_sentence(file)} |\n" for file in files)
    return _HEAD + "".join(rows) + _FOOT


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
