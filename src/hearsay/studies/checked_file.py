"""TOML files of studies, budgets and tunings, which pydantic models validate. Each error message names the file, the
line, the key with its value, and the broken rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import ConfigDict, ValidationError

from hearsay.sim.scenario.layers import known_keys, mistakes
from hearsay.sim.scenario.reading import Document, KeyPath, ScenarioError, parse_file
from hearsay.sim.scenario.values import Section, unknown_key
from hearsay.user_errors import Failure, InvalidInput


class StudyError(InvalidInput, ValueError):
    """Mistakes in a study, budget file, tuning or comparison as the user wrote it. `problems` has a line for each."""

    def __init__(self, problems: Iterable[str]) -> None:
        super().__init__(*problems)


Made = TypeVar("Made")


def all_of(makers: Iterable[Callable[[], Made]]) -> list[Made]:
    """Call all functions and return their results. If some raise `StudyError`, raise one `StudyError` with all
    problems, each once.
    """
    made: list[Made] = []
    problems: dict[str, None] = {}
    for make in makers:
        try:
            made.append(make())
        except StudyError as error:
            problems |= dict.fromkeys(error.problems)
    if problems:
        raise StudyError(problems)
    return made


class StudyFolderError(Failure):
    """The failure to write or read a study's folder. Its message is one line."""


class FileTable(Section):
    """A table of a study, budget or tune file. Editors show the docstring below a key as its description."""

    model_config = ConfigDict(use_attribute_docstrings=True)


@dataclass(frozen=True, slots=True)
class KeyLines:
    """The line numbers of the keys of a file, by key path."""

    file: str
    lines: Mapping[KeyPath, int]

    def line(self, path: KeyPath) -> int:
        """Return the line of a key or, if the file lacks it, of the innermost table around it; 0 without either."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 0)

    def of(self, *path: str | int) -> str:
        """Return FILE:LINE for a key, with the line that `line` returns; return FILE if this line is 0."""
        line = self.line(path)
        return f"{self.file}:{line}" if line else self.file


FileModel = TypeVar("FileModel", bound=FileTable)


def read_checked(path: Path, model: type[FileModel], changes: Document | None = None) -> tuple[FileModel, KeyLines]:
    """Read a TOML file and validate it by a model. Return the instance of the model, and the lines of the keys. Raise
    `StudyError` with all mistakes, in the order of lines.

    `changes` replace top-level keys of the file. The model's validators get the folder of the file as context.
    """
    try:
        document, lines = parse_file(path)
    except ScenarioError as error:
        raise StudyError(error.problems) from None
    replaced = {(key,) for key in changes or {}}
    key_lines = KeyLines(str(path), {key: line for key, line in lines.items() if key[:1] not in replaced})
    return checked({**document, **(changes or {})}, key_lines, model, path.parent), key_lines


def checked(document: Document, key_lines: KeyLines, model: type[FileModel], folder: Path) -> FileModel:
    """Return a document as an instance of `model`. Raise `StudyError` with all mistakes, in the order of lines. Paths
    in the document are relative to `folder`.
    """
    try:
        return model.model_validate(document, context=folder)
    except ValidationError as error:
        found = mistakes(error, lambda path, _: unknown_key(str(path[-1]), known_keys(model, path[:-1])))
        ordered = sorted(found, key=lambda mistake: key_lines.line(mistake.path))
        raise StudyError(f"{key_lines.of(*each.path)}: {each.subject}{each.rule}" for each in ordered) from None
