"""The scenario that a study starts from: a preset, a file, and keys that are set beside it.

In a study's file it is a table with `preset` or `file`, perhaps `router`, and beside them the sections of a scenario.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias, cast

from pydantic import ConfigDict, ValidationInfo, field_validator

from hearsay.core.shell.parameters import Violation
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.scenario_error import ScenarioError
from hearsay.sim.scenario.scenario_file import load_scenario, preset_names
from hearsay.sim.scenario.values import Text, broken, one_of
from hearsay.studies.checked_file import FileTable, Places
from hearsay.studies.errors import StudyError
from hearsay.studies.settings import flattened

Setting: TypeAlias = tuple[str, object]
"""The path of a scenario's key, and its value."""

_OVERRIDE = re.compile(r"--set ([^=]+)=(.*)", re.DOTALL)
_UNKNOWN = re.compile(r".*: (unknown key.*)", re.DOTALL)
_PATHS = ("network.edges_file", "links.regions_file")


class BaseTable(FileTable):
    """base – the scenario that all runs start from: preset or file, and beside them the keys of a scenario."""

    model_config = ConfigDict(extra="allow")

    preset: Annotated[str, one_of(preset_names())] | None = None
    """A scenario by its name."""
    file: Text | None = None
    """A scenario by its file, relative to this one."""

    @field_validator("file")
    @classmethod
    def _is_there(cls, file: str | None, info: ValidationInfo) -> str | None:
        if file is not None and not (cast("Path", info.context) / file).is_file():
            raise broken("no such file")
        return file

    def cross_rules(self) -> Iterator[Violation]:
        if self.preset is not None and self.file is not None:
            yield Violation("file", self.file, 'not together with preset (the file may say preset = "…")')


@dataclass(frozen=True, slots=True)
class Base:
    """A scenario before axes and seeds; `origins` says where the value of a key was written."""

    file: Path | None = None
    preset: str | None = None
    router: str | None = None
    settings: tuple[Setting, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of(cls, table: BaseTable, folder: Path, places: Places, *path: str | int) -> Base:
        """Of the table at a path of a file in `folder`; paths are relative to that."""
        sections: dict[str, Any] = dict(table.model_extra or {})
        router: str | None = sections.pop("router") if isinstance(sections.get("router"), str) else None
        settings = tuple(_resolved(setting, folder) for setting in flattened(sections))
        origins = {key: places.of(*path, *key.split(".")) for key, _ in settings}
        file = None if table.file is None else folder / table.file
        return cls(file, table.preset, router or None, settings, origins)

    def with_settings(self, settings: Sequence[Setting], origins: Mapping[str, str] | None = None) -> Base:
        """What has no origin is told as what the command sets, wherever the key stood before."""
        set_now = dict(settings)
        before = {key: place for key, place in self.origins.items() if key not in set_now}
        return replace(self, settings=(*self.settings, *settings), origins={**before, **(origins or {})})

    def scenario(self) -> Scenario:
        """The scenario; raises `StudyError` that names the places where bad values were written."""
        try:
            return load_scenario(self.file, self.preset, self.settings, router=self.router)
        except ScenarioError as error:
            raise StudyError(self._explained(problem) for problem in error.problems) from None

    def _explained(self, problem: str) -> str:
        override = _OVERRIDE.fullmatch(problem)
        if override is None or override[1] not in self.origins:
            return problem
        origin, key = self.origins[override[1]], override[1]
        unknown = _UNKNOWN.fullmatch(override[2])
        # A key is unknown whatever its value: of an axis that is the same line for each, and is said once.
        return f"{origin}: {key} = {override[2]}" if unknown is None else f"{origin}: {key}: {unknown[1]}"


def _resolved(setting: Setting, folder: Path) -> Setting:
    key, value = setting
    return (key, str((folder / value).absolute())) if key in _PATHS and isinstance(value, str) else setting
