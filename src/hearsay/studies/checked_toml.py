"""Reading the tables of a TOML file key by key, collecting all that is wrong: file, line, key, value, rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TypeVar, cast

from hearsay.sim.scenario.scenario import ScenarioError
from hearsay.sim.scenario.sections.values import unknown_key
from hearsay.sim.scenario.toml_lines import KeyPath
from hearsay.sim.scenario.toml_text import Document, dotted, parse_file, shown_value
from hearsay.studies.errors import StudyError

Value = TypeVar("Value")


class Table:
    """One table of a file. What is asked for and wrong is noted, and the default taken; `finish` notes the rest."""

    def __init__(
        self, file: str, values: Document, lines: Mapping[KeyPath, int], problems: list[str], path: KeyPath = ()
    ) -> None:
        self._file = file
        self.values = values
        self._lines = lines
        self.problems = problems
        self.path = path
        self._asked: list[str] = []

    @classmethod
    def of_file(cls, path: Path) -> Table:
        try:
            values, lines = parse_file(path)
        except ScenarioError as error:
            raise StudyError(error.problems) from None
        return cls(str(path), values, lines, [])

    def where(self, *keys: str | int) -> str:
        """The file and the line of a key, or of the table that it is missing in."""
        path = (*self.path, *keys)
        while path and path not in self._lines:
            path = path[:-1]
        return f"{self._file}:{self._lines[path]}" if path else self._file

    def wrong(self, rule: str, *keys: str | int) -> None:
        """Note a rule that the value of a key breaks."""
        value: object = self.values
        for key in keys:
            value = cast("dict[str | int, object]", value)[key]
        self.problems.append(f"{self.where(*keys)}: {dotted((*self.path, *keys))} = {shown_value(value)}: {rule}")

    def lacks(self, rule: str) -> None:
        """Note something that is missing in the table."""
        name = f"{dotted(self.path)}: " if self.path else ""
        self.problems.append(f"{self.where()}: {name}{rule}")

    def has(self, key: str) -> bool:
        return key in self.values

    def raw(self, key: str) -> object:
        self._asked.append(key)
        return self.values.get(key)

    def text(self, key: str, default: str = "", words: Sequence[str] = ()) -> str:
        value = self._typed(key, str, default, "must be a string")
        if words and self.has(key) and value not in words:
            self.wrong(f"must be one of {', '.join(words)}", key)
            return default
        return value

    def flag(self, key: str, default: bool) -> bool:
        return self._typed(key, bool, default, "must be true or false")

    def integer(self, key: str, default: int, low: int, high: int) -> int:
        value = self._typed(key, int, default, f"must be an integer in {low}…{high}")
        if not low <= value <= high:
            self.wrong(f"must be in {low}…{high}", key)
            return default
        return value

    def number(self, key: str) -> Decimal | None:
        """A finite number; None when it is not there."""
        value = self.raw(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | Decimal) or not Decimal(value).is_finite():
            self.wrong("must be a number", key)
            return None
        return Decimal(value)

    def array(self, key: str) -> list[object] | None:
        """An array; None when it is not there."""
        value = self.raw(key)
        if value is not None and not isinstance(value, list):
            self.wrong("must be an array", key)
            return None
        return cast("list[object] | None", value)

    def table(self, key: str) -> Table:
        """The table of a key, empty when it is not there."""
        value = self.raw(key)
        if value is not None and not isinstance(value, dict):
            self.wrong("must be a table", key)
            value = None
        return Table(self._file, cast(Document, value or {}), self._lines, self.problems, (*self.path, key))

    def tables(self, key: str) -> list[Table]:
        """The tables of an array of tables."""
        found: list[Table] = []
        for number, value in enumerate(self.array(key) or []):
            if isinstance(value, dict):
                path = (*self.path, key, number)
                found.append(Table(self._file, cast(Document, value), self._lines, self.problems, path))
            else:
                self.wrong("must be a table", key, number)
        return found

    def finish(self) -> None:
        """Note the keys that nobody asked for."""
        for key in self.values:
            if key not in self._asked:
                self.wrong(unknown_key(key, self._asked), key)

    def _typed(self, key: str, kind: type[Value], default: Value, rule: str) -> Value:
        value = self.raw(key)
        if value is None:
            return default
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            self.wrong(rule, key)
            return default
        return value
