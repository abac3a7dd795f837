"""What JSON may look like: one declaration, by which files are checked and from which their JSON Schema is made.

A shape allows no more than it says: tables have no other keys, and lists, texts and numbers have their bounds. So how
deep a file goes, and how much work it asks for, is bounded too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, TypeAlias, cast

MOST_CHARACTERS = 200
Schemas: TypeAlias = dict[str, dict[str, Any]]


class Misshapen(Exception):
    """A value that its shape does not allow: the place, and what may stand there."""

    def __init__(self, place: str, rule: str) -> None:
        super().__init__(f"{place}: {rule}" if place else rule)


class Shape(ABC):
    @abstractmethod
    def check(self, value: object, place: str) -> None:
        """Raise `Misshapen` for the first thing that is wrong."""

    @abstractmethod
    def schema(self, shared: Schemas) -> dict[str, Any]:
        """The same as JSON Schema; parts with names of their own go to `shared`."""


@dataclass(frozen=True, slots=True)
class Number(Shape):
    low: float
    high: float
    meaning: str = ""

    def check(self, value: object, place: str) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float) or not self.low <= value <= self.high:
            raise Misshapen(place, f"must be a number in {_bound(self.low)}…{_bound(self.high)}")

    def schema(self, shared: Schemas) -> dict[str, Any]:
        return {"type": "number", "minimum": self.low, "maximum": self.high, **_described(self.meaning)}


@dataclass(frozen=True, slots=True)
class Whole(Shape):
    """An integer; `step` divides it."""

    low: int
    high: int
    meaning: str = ""
    step: int = 1

    def check(self, value: object, place: str) -> None:
        right = type(value) is int and self.low <= value <= self.high and value % self.step == 0
        if not right:
            multiple = f", a multiple of {self.step}" if self.step > 1 else ""
            raise Misshapen(place, f"must be an integer in {self.low}…{self.high}{multiple}")

    def schema(self, shared: Schemas) -> dict[str, Any]:
        multiple = {"multipleOf": self.step} if self.step > 1 else {}
        own = {"type": "integer", "minimum": self.low, "maximum": self.high}
        return {**own, **multiple, **_described(self.meaning)}


@dataclass(frozen=True, slots=True)
class Text(Shape):
    meaning: str = ""
    most: int = MOST_CHARACTERS

    def check(self, value: object, place: str) -> None:
        if not isinstance(value, str) or not 1 <= len(value) <= self.most:
            raise Misshapen(place, f"must be a text of 1…{self.most} characters")

    def schema(self, shared: Schemas) -> dict[str, Any]:
        return {"type": "string", "minLength": 1, "maxLength": self.most, **_described(self.meaning)}


@dataclass(frozen=True, slots=True)
class Address(Text):
    """An IP address."""

    def check(self, value: object, place: str) -> None:
        super(Address, self).check(value, place)
        try:
            ip_address(str(value))
        except ValueError:
            raise Misshapen(place, "must be an IP address") from None


@dataclass(frozen=True, slots=True)
class Word(Shape):
    """One of a few words or numbers."""

    words: tuple[str | int, ...]
    meaning: str = ""

    def check(self, value: object, place: str) -> None:
        if type(value) not in (str, int) or value not in self.words:
            raise Misshapen(place, f"must be {' or '.join(map(str, self.words))}")

    def schema(self, shared: Schemas) -> dict[str, Any]:
        return {"enum": list(self.words), **_described(self.meaning)}


@dataclass(frozen=True, slots=True)
class Truth(Shape):
    meaning: str = ""

    def check(self, value: object, place: str) -> None:
        if not isinstance(value, bool):
            raise Misshapen(place, "must be true or false")

    def schema(self, shared: Schemas) -> dict[str, Any]:
        return {"type": "boolean", **_described(self.meaning)}


@dataclass(frozen=True, slots=True)
class Listing(Shape):
    of: Shape
    most: int
    meaning: str = ""
    least: int = 0

    def check(self, value: object, place: str) -> None:
        if not isinstance(value, list) or not self.least <= len(cast("list[object]", value)) <= self.most:
            raise Misshapen(place, f"must be a list of {self.least}…{self.most} elements")
        for number, each in enumerate(cast("list[object]", value)):
            self.of.check(each, f"{place}[{number}]")

    def schema(self, shared: Schemas) -> dict[str, Any]:
        own = {"type": "array", "items": self.of.schema(shared), "minItems": self.least, "maxItems": self.most}
        return {**own, **_described(self.meaning)}


@dataclass(frozen=True, slots=True)
class Named(Shape):
    """An object whose keys are names of the file's own."""

    of: Shape
    most: int
    meaning: str = ""

    def check(self, value: object, place: str) -> None:
        found = _object(value, place)
        if len(found) > self.most:
            raise Misshapen(place, f"must have {self.most} keys at most")
        for name, each in found.items():
            if not 1 <= len(name) <= MOST_CHARACTERS:
                raise Misshapen(place, f"keys must have 1…{MOST_CHARACTERS} characters")
            self.of.check(each, f"{place}.{name}")

    def schema(self, shared: Schemas) -> dict[str, Any]:
        names = {"minLength": 1, "maxLength": MOST_CHARACTERS}
        own = {"type": "object", "additionalProperties": self.of.schema(shared), "propertyNames": names}
        return {**own, "maxProperties": self.most, **_described(self.meaning)}


@dataclass(frozen=True, slots=True)
class Table(Shape):
    """An object with these keys; those that are not required may be left out."""

    fields: Mapping[str, Shape]
    required: Sequence[str] = ()
    meaning: str = ""

    def check(self, value: object, place: str) -> None:
        self.check_fields(_object(value, place), place)

    def check_fields(self, found: Mapping[str, object], place: str, beside: Sequence[str] = ()) -> None:
        """`beside` are keys of the object that are checked elsewhere."""
        for name in self.required:
            if name not in found:
                raise Misshapen(_below(place, name), "is missing")
        for name, each in found.items():
            if name not in self.fields:
                keys = ", ".join((*beside, *self.fields))
                raise Misshapen(_below(place, name[:MOST_CHARACTERS]), f"no such key; there are {keys}")
            self.fields[name].check(each, _below(place, name))

    def schema(self, shared: Schemas) -> dict[str, Any]:
        properties = {name: shape.schema(shared) for name, shape in self.fields.items()}
        own = {"type": "object", "properties": properties, "required": list(self.required)}
        return {**own, "additionalProperties": False, **_described(self.meaning)}


@dataclass(frozen=True, slots=True)
class Cases(Shape):
    """Tables, of which one key says which of them it is."""

    key: str
    tables: Mapping[str, Table]

    def check(self, value: object, place: str) -> None:
        found = _object(value, place)
        if self.key not in found:
            raise Misshapen(_below(place, self.key), "is missing")
        Word(tuple(self.tables)).check(found[self.key], _below(place, self.key))
        rest = {name: each for name, each in found.items() if name != self.key}
        self.tables[str(found[self.key])].check_fields(rest, place, (self.key,))

    def schema(self, shared: Schemas) -> dict[str, Any]:
        return {"oneOf": [self._case(word, table, shared) for word, table in self.tables.items()]}

    def _case(self, word: str, table: Table, shared: Schemas) -> dict[str, Any]:
        own = table.schema(shared)
        own["properties"] = {self.key: {"const": word}, **own["properties"]}
        own["required"] = [self.key, *own["required"]]
        return own


@dataclass(frozen=True, slots=True)
class Shared(Shape):
    """A shape that stands in several places, and once in the schema."""

    name: str
    of: Shape

    def check(self, value: object, place: str) -> None:
        self.of.check(value, place)

    def schema(self, shared: Schemas) -> dict[str, Any]:
        if self.name not in shared:
            shared[self.name] = {}
            shared[self.name] = self.of.schema(shared)
        return {"$ref": f"#/$defs/{self.name}"}


def _object(value: object, place: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise Misshapen(place, "must be an object")
    return cast("Mapping[str, object]", value)


def _bound(number: float) -> str:
    """As short as it is exact."""
    short = f"{number:g}"
    return short if float(short) == number else repr(number)


def _below(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _described(meaning: str) -> dict[str, str]:
    return {"description": meaning} if meaning else {}
