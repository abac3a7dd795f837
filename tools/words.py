"""Finds words that the glossary advises against in names, docstrings, comments, texts and pages.

    python tools/words.py [FOLDER or FILE ...]
    python tools/words.py --changed             only in uncommitted lines of tracked files

The list is the table "Words to avoid" of docs/reference/glossary.md. `tools/word_budgets.toml` bounds the counts;
a bound only falls.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

ROOT = Path(__file__).parents[1]
GLOSSARY = ROOT / "docs" / "reference" / "glossary.md"
BUDGETS = Path(__file__).with_name("word_budgets.toml")
_TEXTS = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", -1)}
_OPENING = re.compile(
    r"(?:^[ \t]*|[.!?:]\s+|\"\"\"\s*|#\s*|^[-*]\s+)(Who(?:m|ever)?|Whether|Of|What)\b", re.MULTILINE
)
_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def avoided() -> list[str]:
    """Return the words of the table, in its order."""
    section = GLOSSARY.read_text(encoding="utf-8").partition("## Words to avoid\n")[2].partition("\n## ")[0]
    return [row.split("|")[1].strip() for row in section.splitlines() if row.startswith("|")][2:]


def occurrences(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and word of each occurrence in a Python file or a page."""
    text = path.read_text(encoding="utf-8")
    words = "|".join(map(re.escape, avoided()))
    prose = re.compile(rf"\b(?:{words})\b", re.IGNORECASE)
    if path.suffix != ".py":
        if path != GLOSSARY:
            plain = _CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), text)
            for pattern in (prose, _OPENING):
                for match in pattern.finditer(plain):
                    yield plain.count("\n", 0, match.start()) + 1, match[0].strip(' \n.!?:"#-*')
        return
    name = re.compile(rf"(?:^|_)(?:{words})(?=_|$)", re.IGNORECASE)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        line = token.start[0]
        if token.type == tokenize.NAME:
            yield from ((line, token.string) for _ in name.finditer(token.string))
        elif token.type in _TEXTS:
            patterns = (prose, _OPENING) if token.string.startswith(('"""', "#")) else (prose,)
            for pattern in patterns:
                for match in pattern.finditer(token.string):
                    yield line + token.string.count("\n", 0, match.start()), match[0].strip(' \n.!?:"#-*')


def files(place: str) -> list[Path]:
    """Return the Python files and pages of a folder, or one file."""
    path = ROOT / place
    if path.is_file():
        return [path]
    return sorted(file for file in path.rglob("*") if file.suffix in {".py", ".md"})


def count(place: str) -> int:
    return sum(1 for file in files(place) for _ in occurrences(file))


def budgets() -> dict[str, int]:
    return tomllib.loads(BUDGETS.read_text(encoding="utf-8"))


def changed_lines() -> dict[str, set[int]]:
    """Return the numbers of the lines that differ from the last commit, by file."""
    command = ["git", "-C", str(ROOT), "diff", "-U0", "HEAD", "--"]
    changed: dict[str, set[int]] = {}
    file = ""
    for line in subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines():
        if line.startswith("+++ "):
            file = line.removeprefix("+++ b/")
        elif (place := re.match(r"@@ .*\+(\d+)(?:,(\d+))? @@", line)) is not None:
            first = int(place[1])
            changed.setdefault(file, set()).update(range(first, first + int(place[2] or 1)))
    return changed


def lines_of(place: str, only: Mapping[str, Set[int]] | None = None) -> Iterator[str]:
    """Yield a text of file, line and word for each occurrence in a place; `only` has the accepted lines by file."""
    for file in files(place):
        name = file.relative_to(ROOT).as_posix()
        for line, word in occurrences(file):
            if only is None or line in only.get(name, ()):
                yield f"{name}:{line}: {word}"


if __name__ == "__main__":
    changed = changed_lines() if "--changed" in sys.argv else None
    for wanted in [each for each in sys.argv[1:] if each != "--changed"] or budgets():
        for text in lines_of(wanted, changed):
            print(text)
