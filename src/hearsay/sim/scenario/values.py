"""The types of scenario keys: tables, numbers in a range, strings from a fixed set, and integers from decimals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import ROUND_HALF_EVEN, Context, Decimal
from difflib import get_close_matches
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, model_validator
from pydantic_core import PydanticCustomError

from hearsay.core.shell.parameters import MAX_TIME_MS, Violation

MILLION = 1_000_000
MAX_NODES = 100_000_000
MAX_DEGREE = 10_000
MAX_TIME_S = 1_000_000_000
MAX_BYTES = 1 << 40
_EXACT = Context(prec=60, rounding=ROUND_HALF_EVEN)
_SYMBOLS = {
    "d": "degree",
    "dlo": "degree_low",
    "dlow": "degree_low",
    "dhi": "degree_high",
    "dhigh": "degree_high",
    "dlazy": "degree_lazy",
    "mcachelen": "history_length",
    "mcachegossip": "history_gossip",
    "idontwant": "idontwant_threshold_bytes",
}
"""Names of router parameters, by the specification's names in lower case and without underscores."""


def scaled(number: Decimal, factor: int) -> int:
    """Return the integer nearest to number × factor; the even one of two. The result is exact for valid scenarios."""
    return int(_EXACT.to_integral_value(_EXACT.multiply(number, Decimal(factor))))


class Scaled:
    """A descriptor for a field of a section. Its value is that of the decimal key `key`, scaled with `factor`."""

    def __init__(self, key: str, factor: int) -> None:
        self._key = key
        self._factor = factor

    def __get__(self, section: BaseModel, owner: type[BaseModel]) -> int:
        return scaled(getattr(section, self._key), self._factor)


class ScaledIfGiven(Scaled):
    """A descriptor like `Scaled` for an optional key. The field is None if the key has no value."""

    def __get__(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, section: BaseModel, owner: type[BaseModel]
    ) -> int | None:
        return None if getattr(section, self._key) is None else super().__get__(section, owner)


class Section(BaseModel):
    """A table of a scenario, which is frozen and accepts no unknown keys.

    The docstring below a key is its description in the schema. `cross_rules` is called only if each key is in its own
    range.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, ignored_types=(Scaled,))

    @model_validator(mode="after")
    def _check_cross_rules(self) -> Self:
        violations = tuple(self.cross_rules())
        if violations:
            raise violated(violations)
        return self

    def cross_rules(self) -> Iterator[Violation]:
        """Yield a violation for each broken rule between keys of this table."""
        yield from ()

    def exclusive(self, *keys: str) -> Iterator[Violation]:
        """Yield the violations of the rule that at most one of these keys may have a value: one violation for each
        key with a value, except the first."""
        given = [key for key in keys if getattr(self, key) is not None]
        for key in given[1:]:
            yield Violation(key, getattr(self, key), f"not together with {given[0]}")


def near_key(key: str, known: Iterable[str]) -> str | None:
    """Return the known key that the specification calls `key`, or else the one with the most similar spelling.

    Return None if no known key is similar.
    """
    names = list(known)
    symbol = _SYMBOLS.get(key.lower().replace("_", ""))
    return symbol if symbol in names else next(iter(get_close_matches(key, names, n=1)), None)


def unknown_key(key: str, known: Iterable[str]) -> str:
    """Return the message for an unknown key, with the nearest known key if there is one."""
    near = near_key(key, known)
    return f"unknown key, did you mean {near!r}?" if near else "unknown key"


def broken(rule: str) -> PydanticCustomError:
    """Return pydantic's error for a value that breaks a rule; `rule` is the message."""
    return PydanticCustomError("rule", "{rule}", {"rule": rule})


def violated(violations: tuple[Violation, ...]) -> PydanticCustomError:
    """Return one error of pydantic with all of these violations.

    The field of a violation is relative to the validated value. For example, the key `count` of the first entry of
    `topics` is `topics.0.count` in a validator of the scenario, and `count` in a validator of the entry.
    """
    return PydanticCustomError("violations", "broken rules", {"violations": violations})


def integer_in(low: int, high: int) -> PlainValidator:
    """Return the validator of integers from `low` to `high`, both included."""

    def check(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise broken(f"must be an integer in {low}…{high}")
        if not low <= value <= high:
            raise broken(f"must be in {low}…{high}")
        return value

    return PlainValidator(check, json_schema_input_type=Annotated[int, Field(ge=low, le=high)])


def number_in(low: str, high: int | str) -> PlainValidator:
    """Return the validator of decimals from `low` to `high`, both included."""
    lowest, highest = Decimal(low), Decimal(high)

    def check(value: object) -> Decimal:
        number = _number(value)
        if not lowest <= number <= highest:
            raise broken(f"must be in {low}…{high}")
        return number

    return PlainValidator(check, json_schema_input_type=Annotated[float, Field(ge=float(low), le=float(high))])


def one_of(words: Iterable[str]) -> PlainValidator:
    """Return the validator of the strings in `words`, such as the members of an enum.

    The validator returns the element of `words` that is equal to the value.
    """
    known = {str(word): word for word in words}

    def check(value: object) -> str:
        if not isinstance(value, str) or value not in known:
            raise broken(f"must be one of {', '.join(known)}")
        return known[value]

    return PlainValidator(check, json_schema_input_type=Literal[*known])


def _number(value: object) -> Decimal:
    if isinstance(value, float):
        value = Decimal(repr(value))
    if not isinstance(value, int | Decimal) or isinstance(value, bool):
        raise broken("must be a number")
    number = Decimal(value)
    if not number.is_finite():
        raise broken("must be a finite number")
    return number


def _perhaps_empty(value: object) -> str:
    if not isinstance(value, str):
        raise broken("must be a string")
    return value


def _text(value: object) -> str:
    text = _perhaps_empty(value)
    if not text:
        raise broken("must not be empty")
    return text


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise broken("must be true or false")
    return value


def _link(value: object) -> tuple[int, int]:
    match value:
        case [int(a), int(b)] if not isinstance(a, bool) and not isinstance(b, bool):
            return a, b
        case _:
            raise broken("must be a pair of node numbers")


Flag = Annotated[bool, PlainValidator(_flag, json_schema_input_type=bool)]
Text = Annotated[str, PlainValidator(_text, json_schema_input_type=Annotated[str, Field(min_length=1)])]
PerhapsEmptyText = Annotated[str, PlainValidator(_perhaps_empty, json_schema_input_type=str)]
Number = Annotated[Decimal, PlainValidator(_number, json_schema_input_type=float)]
Seconds = Annotated[Decimal, number_in("0", MAX_TIME_S)]
Milliseconds = Annotated[Decimal, number_in("0", MAX_TIME_MS)]
Share = Annotated[Decimal, number_in("0", 1)]
Count = Annotated[int, integer_in(0, MAX_NODES)]
NodeNumber = Annotated[int, integer_in(0, MAX_NODES - 1)]
Bytes = Annotated[int, integer_in(0, MAX_BYTES)]
Link = Annotated[tuple[int, int], PlainValidator(_link, json_schema_input_type=tuple[int, int])]


class SomeNodes(Section):
    """A selection of nodes: those of a list, a random share, or those of a population; without a key, all nodes."""

    listed: tuple[NodeNumber, ...] | None = None
    """The nodes, by number."""
    share: Share | None = None
    """A random share of all nodes."""
    population: Annotated[int, integer_in(0, 65_534)] | None = None
    """The nodes of this `[[population]]`, counted from 0."""
    share_millionths = ScaledIfGiven("share", MILLION)

    def cross_rules(self) -> Iterator[Violation]:
        yield from self.exclusive("listed", "share", "population")
