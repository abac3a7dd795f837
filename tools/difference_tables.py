"""Writes the tables of differences between implementations of gossipsub: of choices in docs/routers/gossipsub-1.1.md,
of presets in docs/routers/implementations.md.

    python tools/difference_tables.py
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import fields
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from textwrap import dedent

from page_tables import with_tables

from hearsay.core.mesh.parameters import GossipsubParameters
from hearsay.core.registry import ROUTERS
from hearsay.core.scores.score_parameters import PeerScoreParameters
from hearsay.core.shell.parameters import Parameters

_ROUTERS = Path(__file__).parents[1] / "docs" / "routers"
PAGE = _ROUTERS / "gossipsub-1.1.md"
PRESETS_PAGE = _ROUTERS / "implementations.md"
_IMPLEMENTATIONS = ("go", "rust", "js", "nim", "jvm")
_NO_DIFFERENCE = ("validation", "validate", "hello", "coalesce")
"""Parameters in which implementations do not differ, but simulations do."""


def page() -> str:
    """Return the page of choices with an up-to-date table."""
    return with_tables(PAGE, lambda _: table())


def presets_page() -> str:
    """Return the page of presets with an up-to-date table."""
    return with_tables(PRESETS_PAGE, lambda _: presets_table())


def table() -> str:
    rows = [*_rows(GossipsubParameters, ""), *_rows(PeerScoreParameters, "score.")]
    head = ["|parameter|words, the default first|meaning|", "|-|-|-|"]
    return "\n".join([*head, *rows, ""])


def presets_table() -> str:
    """Return a table with a row for each parameter in which implementations differ."""
    presets = ROUTERS["gossipsub"].presets
    shipped = [GossipsubParameters.from_mapping(presets[name]).to_mapping() for name in _IMPLEMENTATIONS]
    head = ["parameter", *_IMPLEMENTATIONS]
    lines = [head, ["-"] * len(head)]
    for name in GossipsubParameters.names():
        values = [_shown(each.get(name)) for each in shipped]
        if name != "score" and len(set(values)) > 1:
            lines.append([f"`{name}`", *values])
    return "\n".join([*(f"|{'|'.join(cells)}|" for cells in lines), ""])


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:,}".replace(",", " ") if isinstance(value, int) else str(value)


def _rows(kind: type[Parameters], place: str) -> Iterator[str]:
    for declared in fields(kind):
        choices = declared.metadata.get("choices")
        if declared.name in _NO_DIFFERENCE:
            continue
        if choices is not None and issubclass(choices, StrEnum):
            meaning = " ".join((inspect.getdoc(choices) or "").split())
            words = ", ".join(_words(choices, str(declared.default)))
            yield f"|`{place}{declared.name}`|{words}|{meaning}|"


def _words(choices: type[StrEnum], default: str) -> Iterator[str]:
    """Yield the words of a choice, the default first, each with its docstring."""
    notes = _docstrings(choices)
    for word in sorted(choices, key=lambda word: str(word) != default):
        note = notes.get(word.name, "").strip(".")
        yield f"`{word}` ({note[:1].lower()}{note[1:]})" if note else f"`{word}`"


def _docstrings(choices: type[StrEnum]) -> dict[str, str]:
    [declared] = ast.parse(dedent(inspect.getsource(choices))).body
    assert isinstance(declared, ast.ClassDef)
    found: dict[str, str] = {}
    for member, after in pairwise(declared.body):
        if isinstance(member, ast.Assign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            [name] = member.targets
            found[ast.unparse(name)] = " ".join(str(after.value.value).split())
    return found


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    PRESETS_PAGE.write_text(presets_page(), encoding="utf-8")
