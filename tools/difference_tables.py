"""Where implementations of gossipsub differ, as a table of parameters, in its place in docs/routers/gossipsub-1.1.md.

python tools/difference_tables.py
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from textwrap import dedent

from hearsay.core.mesh.gossip_parameters import GossipsubParameters
from hearsay.core.scores.peer_parameters import PeerScoreParameters
from hearsay.core.shell.parameters import Parameters

PAGE = Path(__file__).parents[1] / "docs" / "routers" / "gossipsub-1.1.md"
_NO_DIFFERENCE = ("validation", "validate", "hello", "coalesce")
"""Between implementations; simulations differ in them."""
_MADE = re.compile(r"(<!-- made: differences -->\n).*?(<!-- end -->)", re.DOTALL)


def page() -> str:
    """The page with its table as it should be."""
    return _MADE.sub(lambda found: f"{found[1]}\n{table()}\n{found[2]}", PAGE.read_text(encoding="utf-8"))


def table() -> str:
    rows = [*_rows(GossipsubParameters, ""), *_rows(PeerScoreParameters, "score.")]
    head = ["| parameter | words, the default first | what it says |", "| --- | --- | --- |"]
    return "\n".join([*head, *rows, ""])


def _rows(kind: type[Parameters], place: str) -> Iterator[str]:
    for declared in fields(kind):
        choices = declared.metadata.get("choices")
        if declared.name in _NO_DIFFERENCE:
            continue
        if choices is not None and issubclass(choices, StrEnum):
            meaning = " ".join((inspect.getdoc(choices) or "").split())
            words = ", ".join(_words(choices, str(declared.default)))
            yield f"| `{place}{declared.name}` | {words} | {meaning} |"
        elif isinstance(declared.default, bool):
            meaning = declared.metadata.get("meaning") or _told(kind, declared.name)
            words = "on, off" if declared.default else "off, on"
            yield f"| `{place}{declared.name}` | {words} | {meaning[:1].upper()}{meaning[1:]}. |"


def _told(kind: type[Parameters], name: str) -> str:
    """What the table of a class says of a parameter."""
    said = (
        re.search(rf"^ *\| {name} \| ([^|]+) \|", inspect.getdoc(base) or "", re.MULTILINE) for base in kind.__mro__
    )
    return next((found[1] for found in said if found), name)


def _words(choices: type[StrEnum], default: str) -> Iterator[str]:
    """The words of a choice with what their docstrings say of each."""
    notes = _notes(choices)
    for word in sorted(choices, key=lambda word: str(word) != default):
        note = notes.get(word.name, "").strip(".")
        yield f"`{word}` ({note[:1].lower()}{note[1:]})" if note else f"`{word}`"


def _notes(choices: type[StrEnum]) -> dict[str, str]:
    [declared] = ast.parse(dedent(inspect.getsource(choices))).body
    assert isinstance(declared, ast.ClassDef)
    found: dict[str, str] = {}
    for said, after in zip(declared.body, declared.body[1:], strict=False):
        if isinstance(said, ast.Assign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            [name] = said.targets
            found[ast.unparse(name)] = " ".join(str(after.value.value).split())
    return found


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
