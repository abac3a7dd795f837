"""TOML files checked by a model. Each error has file, line, key, value and rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import ConfigDict, ValidationError

from hearsay.sim.scenario.mistakes import known_keys, mistakes
from hearsay.sim.scenario.scenario_error import ScenarioError
from hearsay.sim.scenario.toml_text import Document, KeyPath, parse_file
from hearsay.sim.scenario.values import Section, unknown_key
from hearsay.user_errors import Failure, InvalidInput


class StudyError(InvalidInput, ValueError):
    """A study, budget or comparison that cannot be run as written. It has a line for each problem."""

    def __init__(self, problems: Iterable[str]) -> None:
        super().__init__(*problems)


class StudyFolderError(Failure):
    """A study's folder that cannot be written or read. Its message is one line with the path."""


class FileTable(Section):
    """A table of a study or budget file. The docstring below a key describes it in editors."""

    model_config = ConfigDict(use_attribute_docstrings=True)


@dataclass(frozen=True, slots=True)
class KeyLines:
    """The lines of a file's keys."""

    file: str
    lines: Mapping[KeyPath, int]

    def line(self, path: KeyPath) -> int:
        """Return the line of a key, or of the table in which it is missing; 0 stands for the whole file."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 0)

    def of(self, *path: str | int) -> str:
        """Return the place of a key as FILE:LINE, or as FILE if its line is unknown."""
        line = self.line(path)
        return f"{self.file}:{line}" if line else self.file


FileModel = TypeVar("FileModel", bound=FileTable)


def read_checked(path: Path, model: type[FileModel], changes: Document | None = None) -> tuple[FileModel, KeyLines]:
    """Read a TOML file and validate it by a model. Raise `StudyError` with all mistakes, in the order of lines.

    `changes` replace top-level keys of the file. The validators get the file's folder as context.
    """
    try:
        document, lines = parse_file(path)
    except ScenarioError as error:
        raise StudyError(error.problems) from None
    replaced = {(key,) for key in changes or {}}
    key_lines = KeyLines(str(path), {key: line for key, line in lines.items() if key[:1] not in replaced})
    return checked({**document, **(changes or {})}, key_lines, model, path.parent), key_lines


def checked(document: Document, key_lines: KeyLines, model: type[FileModel], folder: Path) -> FileModel:
    """Return a document as its model; `folder` is for relative paths. Raise `StudyError` with all mistakes."""
    try:
        return model.model_validate(document, context=folder)
    except ValidationError as error:
        found = mistakes(error, lambda path, _: unknown_key(str(path[-1]), known_keys(model, path[:-1])))
        ordered = sorted(found, key=lambda mistake: key_lines.line(mistake.path))
        raise StudyError(f"{key_lines.of(*each.path)}: {each.subject}{each.rule}" for each in ordered) from None
