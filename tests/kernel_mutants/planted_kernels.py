"""Faults in kernels, all in one build: a number in the world (the array with the engine's state) activates one of
them.

A mutant replaces an expression or leaves out a statement, in one function of a kernel that gets the world as `w`. In
a copy of the package, `(becomes if w[79] == 3 else text)` replaces the expression. So sixty faults need one
compilation, and with the number 0 the engine has no fault.
"""

from __future__ import annotations

import ast
import os
import shutil
import tomllib
from collections import defaultdict
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import hearsay
from hearsay.sim.array.compiling import KEPT
from hearsay.sim.array.world import layout

SOURCE = Path(hearsay.__file__).parent
COPIES = Path(__file__).parents[2] / "build" / "kernel-mutants"
LIST = Path(__file__).with_name("mutants.toml")
ACTIVE_FAULT = layout.SCALARS - 1
"""Index in the world of the active fault's number: the last scalar before the arrays, which is otherwise unused."""


@dataclass(frozen=True, slots=True)
class Mutant:
    number: int
    name: str
    file: str
    function: str
    text: str
    becomes: str | None
    """The replacing expression; None if the statement is left out."""
    rule: str | None
    """The id of the rule that no longer holds."""
    unseen: str | None
    """The reason why no comparison of the engines can see the fault; None if one can."""


def mutants() -> list[Mutant]:
    found: list[Mutant] = []
    for file, entries in tomllib.loads(LIST.read_text(encoding="utf-8")).items():
        for entry in entries:
            place = (f"sim/array/{file}.py", entry["in"], entry["text"])
            more = (entry.get(key) for key in ("becomes", "rule", "unseen"))
            found.append(Mutant(len(found) + 1, entry["name"], *place, *more))
    return found


def text_index(source: str, mutant: Mutant) -> int:
    """Return the index of a mutant's text in a source file. Raise `ValueError` unless the text occurs once in the
    function, and the function's first parameter is the world.
    """
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == mutant.function:
            if node.args.args[0].arg != "w":
                raise ValueError(f"the first parameter of {mutant.function} in {mutant.file} is not the world, w")
            lines = source.splitlines(keepends=True)
            start = sum(map(len, lines[: node.body[0].lineno - 1]))
            body = "".join(lines[node.body[0].lineno - 1 : node.end_lineno])
            if body.count(mutant.text) != 1:
                raise ValueError(
                    f"{mutant.text!r} occurs {body.count(mutant.text)} times in {mutant.function} of {mutant.file}"
                )
            return start + body.index(mutant.text)
    raise ValueError(f"no function {mutant.function} in {mutant.file}")


def planted(source: str, wanted: list[Mutant]) -> str:
    """Return the source with these mutants, all of them inactive."""
    by_place: defaultdict[tuple[int, str], list[Mutant]] = defaultdict(list)
    for mutant in wanted:
        by_place[text_index(source, mutant), mutant.text].append(mutant)
    end = len(source)
    for (start, text), same in sorted(by_place.items(), reverse=True):
        if start + len(text) > end:
            raise ValueError(f"{text!r} overlaps another mutant's text in {same[0].file}")
        end = start
        left_out = [mutant for mutant in same if mutant.becomes is None]
        if left_out:
            inactive = " and ".join(f"w[{ACTIVE_FAULT}] != {mutant.number}" for mutant in left_out)
            new = f"if {inactive}: {text}"
        else:
            choices = " else ".join(f"({mutant.becomes}) if w[{ACTIVE_FAULT}] == {mutant.number}" for mutant in same)
            new = f"({choices} else ({text}))"
        source = source[:start] + new + source[start + len(text) :]
    return source


def plant(package: Path) -> None:
    """Write all mutants into a copy of the package."""
    by_file: defaultdict[str, list[Mutant]] = defaultdict(list)
    for mutant in mutants():
        by_file[mutant.file].append(mutant)
    for file, wanted in by_file.items():
        path = package / file
        path.write_text(planted(path.read_text(encoding="utf-8"), wanted), encoding="utf-8")


def planted_copy() -> Path:
    """Return a folder for PYTHONPATH in which the package has all mutants; create it if the sources have changed."""
    sources = blake2b(KEPT.digest(SOURCE).encode() + LIST.read_bytes(), digest_size=8)
    folder = COPIES / sources.hexdigest()
    if not folder.exists():
        shutil.rmtree(COPIES, ignore_errors=True)
        made = COPIES / f"making-{os.getpid()}"
        shutil.copytree(SOURCE, made / "hearsay", ignore=shutil.ignore_patterns("__pycache__"))
        plant(made / "hearsay")
        made.rename(folder)
    return folder
