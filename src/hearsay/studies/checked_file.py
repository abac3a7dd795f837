"""A TOML file checked by a model: each error with file, line, key, value and rule."""

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
    """A study, budget or comparison that cannot be run as it is written: a line for each problem."""

    def __init__(self, problems: Iterable[str]) -> None:
        super().__init__(*problems)


class StudyFolderError(Failure):
    """A study's folder that cannot be written or read; one line that names the path."""


class FileTable(Section):
    """A table of a study's or budgets' file; what stands below a key is what editors show of it."""

    model_config = ConfigDict(use_attribute_docstrings=True)


@dataclass(frozen=True, slots=True)
class Places:
    """Where the keys of a file stand."""

    file: str
    lines: Mapping[KeyPath, int]

    def line(self, path: KeyPath) -> int:
        """The line of a key, or of the table that it is missing in; 0 is the whole file."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 0)

    def of(self, *path: str | int) -> str:
        line = self.line(path)
        return f"{self.file}:{line}" if line else self.file


FileModel = TypeVar("FileModel", bound=FileTable)


def read_checked(path: Path, model: type[FileModel], changes: Document | None = None) -> tuple[FileModel, Places]:
    """The file as its model, whose validators get its folder; raises `StudyError`, in the order of its lines.

    `changes` are keys at the top that have other values than the file's.
    """
    try:
        document, lines = parse_file(path)
    except ScenarioError as error:
        raise StudyError(error.problems) from None
    changes = changes or {}
    places = Places(str(path), {key: line for key, line in lines.items() if key[:1] not in {(at,) for at in changes}})
    return checked({**document, **changes}, places, model, path.parent), places


def checked(document: Document, places: Places, model: type[FileModel], folder: Path) -> FileModel:
    """A document as its model; raises `StudyError`."""
    try:
        return model.model_validate(document, context=folder)
    except ValidationError as error:
        found = mistakes(error, lambda path, _: unknown_key(str(path[-1]), known_keys(model, path[:-1])))
        ordered = sorted(found, key=lambda mistake: places.line(mistake.path))
        raise StudyError(f"{places.of(*each.path)}: {each.subject}{each.rule}" for each in ordered) from None
