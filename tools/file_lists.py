"""Every room and every file, from the first lines of docstrings: writes docs/design/files.md."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "hearsay"
PAGE = ROOT / "docs" / "design" / "files.md"
_HEAD = """# Rooms and files

Made by `python tools/file_lists.py` from the first line of every docstring. How the rooms hang together:
[ARCHITECTURE](../../ARCHITECTURE.md).
"""


def first_line(path: Path) -> str:
    lines = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n\n")[0].split("\n")
    return " ".join(line.strip() for line in lines)


def page() -> str:
    parts = [_HEAD]
    for folder in sorted({path.parent for path in SOURCE.rglob("*.py")} - {SOURCE}):
        place = folder.relative_to(SOURCE).as_posix()
        depth = "##" if "/" not in place else "###"
        parts.append(f"{depth} {place}\n\n{first_line(folder / '__init__.py')}\n")
        files = [path for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]
        if files:
            rows = "\n".join(f"| `{path.name}` | {first_line(path)} |" for path in files)
            parts.append(f"| file | subject |\n| --- | --- |\n{rows}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
