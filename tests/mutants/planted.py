"""Mutants: the defences of the node, each broken by a change of its source.

`*.toml` in this folder lists them: a file below `src/hearsay`, a text that occurs in it once, its replacement, and
the tests that must fail then. If another line has the same effect, `also` changes it too.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from security_page import TESTS, files_of_tests

SOURCE = TESTS.parent / "src" / "hearsay"


@dataclass(frozen=True)
class Change:
    file: str
    text: str
    replacement: str


@dataclass(frozen=True)
class Mutant:
    name: str
    changes: tuple[Change, ...]
    tests: tuple[str, ...]

    def plant(self, source: Path) -> dict[str, str]:
        """Return the changed files of this copy of the package with their new texts.

        Raise `ValueError` unless each old text occurs once.
        """
        changed: dict[str, str] = {}
        for change in self.changes:
            before = changed.get(change.file) or (source / change.file).read_text(encoding="utf-8")
            if before.count(change.text) != 1:
                raise ValueError(
                    f"{self.name}: {change.text!r} occurs {before.count(change.text)} times in {change.file}"
                )
            changed[change.file] = before.replace(change.text, change.replacement)
        return changed


FOLDER = Path(__file__).parent


def mutants() -> list[Mutant]:
    """Return all mutants, in the order of their files."""
    return [mutant for file in sorted(FOLDER.glob("*.toml")) for mutant in mutants_of(file.stem)]


def mutants_of(name: str) -> list[Mutant]:
    """Return the mutants of one file."""
    given = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    return [_mutant(**each) for each in given["mutant"]]


def _mutant(name: str, tests: list[str], also: Sequence[dict[str, str]] = (), **change: str) -> Mutant:
    return Mutant(name, tuple(Change(**each) for each in (change, *also)), tuple(tests))


_FILES = files_of_tests()


def node_id(test: str) -> str:
    """Return pytest's id of a test that is named as on the page docs/reference/security.md."""
    file = _FILES[test]
    if file.suffix == ".txt":
        return f"{file.with_name('test_conversations.py').relative_to(TESTS.parent)}::test_conversation[{file.stem}]"
    return f"{file.relative_to(TESTS.parent)}::{test.partition('::')[2]}"
