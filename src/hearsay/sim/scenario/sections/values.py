"""What a key of a scenario may hold: ranges, words, decimals that become integers once."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_HALF_EVEN, Context, Decimal
from difflib import get_close_matches
from typing import Annotated, Any, Literal, cast

from pydantic import Field, PlainValidator
from pydantic_core import PydanticCustomError

from hearsay.core.shell.parameters import MAX_TIME_MS, Violation

MILLION = 1_000_000
MAX_NODES = 100_000_000
MAX_DEGREE = 10_000
MAX_TIME_S = 1_000_000_000
MAX_BYTES = 1 << 40
_EXACT = Context(prec=60, rounding=ROUND_HALF_EVEN)


def scaled(number: Decimal, factor: int) -> int:
    """The integer nearest to number × factor (ties to even), exact for all that a scenario may say."""
    return int(_EXACT.to_integral_value(_EXACT.multiply(number, Decimal(factor))))


_SYMBOLS = {
    "d": "degree",
    "dlo": "degree_low",
    "dlow": "degree_low",
    "dhi": "degree_high",
    "dhigh": "degree_high",
    "dlazy": "degree_lazy",
    "mcachelen": "history_length",
    "mcachegossip": "history_gossip",
}
"""What the specification calls some of the routers' parameters, without case and underscores."""


def near_key(key: str, known: Iterable[str]) -> str | None:
    """The known key that was probably meant: the specification's name for it, or one that looks alike."""
    names = list(known)
    symbol = _SYMBOLS.get(key.lower().replace("_", ""))
    return symbol if symbol in names else next(iter(get_close_matches(key, names, n=1)), None)


def unknown_key(key: str, known: Iterable[str]) -> str:
    """The rule that an unknown key breaks, with the nearest known one."""
    near = near_key(key, known)
    return f"unknown key, did you mean {near!r}?" if near else "unknown key"


def broken(rule: str) -> PydanticCustomError:
    return PydanticCustomError("rule", "{rule}", {"rule": rule})


def violated(violations: tuple[Violation, ...]) -> PydanticCustomError:
    """One pydantic error that carries many violations, each with its field below the value checked."""
    return PydanticCustomError("violations", "broken rules", {"violations": violations})


def integer_in(low: int, high: int) -> PlainValidator:
    def check(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise broken(f"must be an integer in {low}…{high}")
        if not low <= value <= high:
            raise broken(f"must be in {low}…{high}")
        return value

    return PlainValidator(check, json_schema_input_type=Annotated[int, Field(ge=low, le=high)])


def number_in(low: str, high: int) -> PlainValidator:
    least = Decimal(low)

    def check(value: object) -> Decimal:
        number = _number(value)
        if not least <= number <= high:
            raise broken(f"must be in {low}…{high}")
        return number

    return PlainValidator(check, json_schema_input_type=Annotated[float, Field(ge=float(low), le=high)])


def share_up_to(highest: str = "1") -> PlainValidator:
    most = Decimal(highest)
    number = number_in("0", 1)

    def check(value: object) -> Decimal:
        share = cast(Decimal, cast(Any, number.func)(value))
        if share > most:
            raise broken(f"must be in 0…{highest}")
        return share

    return PlainValidator(check, json_schema_input_type=Annotated[float, Field(ge=0, le=float(most))])


def one_of(words: Iterable[str]) -> PlainValidator:
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
Share = Annotated[Decimal, share_up_to()]
Count = Annotated[int, integer_in(0, MAX_NODES)]
NodeNumber = Annotated[int, integer_in(0, MAX_NODES - 1)]
Bytes = Annotated[int, integer_in(0, MAX_BYTES)]
Link = Annotated[tuple[int, int], PlainValidator(_link, json_schema_input_type=tuple[int, int])]
