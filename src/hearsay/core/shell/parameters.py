"""Validated, frozen parameters: the rules that every router's parameter object obeys.

A field declares its range or its choices beside its default; `cross_rules` states what holds between fields.
Everything wrong is reported at once, each with the field, the value and the rule, so that a scenario file can show
all of its errors together. Times are integer milliseconds and say so in their names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, Self

from hearsay.core.language.identifiers import Micros

MAX_TIME_MS = 30 * 24 * 3600 * 1000
MAX_COUNT = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule: the field it is about, what was given, and the rule in words."""

    field: str
    value: object
    rule: str

    def __str__(self) -> str:
        return f"{self.field} = {self.value!r}: {self.rule}"


class ParameterError(ValueError):
    """Parameters that cannot be; carries every violation."""

    def __init__(self, violations: tuple[Violation, ...]) -> None:
        super().__init__("; ".join(map(str, violations)))
        self.violations = violations


def integer(default: int, low: int, high: int = MAX_COUNT) -> Any:
    """A field that takes an integer in low … high."""
    return field(default=default, metadata={"low": low, "high": high})


def milliseconds(default: int, low: int = 0) -> Any:
    """A field that takes a time in integer milliseconds."""
    return field(default=default, metadata={"low": low, "high": MAX_TIME_MS})


def choice(default: StrEnum) -> Any:
    """A field that takes one of an enum's words."""
    return field(default=default, metadata={"choices": type(default)})


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterParameters:
    """What all routers share: the hello, packing of RPCs, the seen cache and the bounds on what peers can grow.

    | field | rule | default |
    |---|---|---|
    | hello | send one's subscriptions when a peer connects, and changes to all peers (guide, "Subscribing") | on |
    | announce_again_ms | without a heartbeat: when to say again what of that did not leave | 1 000 |
    | coalesce | one RPC per peer and event carries all parts (r1, piggybacking); off: one per part (simsub) | on |
    | validate | ask the application before a message is used (guide, "Sending messages") | off |
    | seen_ttl_ms | how long a message id is remembered (r1: two minutes, non-normative) | 120 000 |
    | max_* | bounds: what is over is dropped and traced, the oldest goes first in caches | generous |
    | max_*_bytes, max_*_bytes_per_peer | … in bytes of memory (`footprint`), for live nodes; 0 is off | 0 |
    """

    hello: bool = True
    announce_again_ms: int = milliseconds(1_000, low=1)
    coalesce: bool = True
    validate: bool = False
    seen_ttl_ms: int = milliseconds(120_000, low=1)
    max_seen: int = integer(2_000_000, low=1)
    max_seen_bytes: int = integer(0, low=0)
    max_subscriptions_per_peer: int = integer(20_000, low=1)
    max_subscription_bytes_per_peer: int = integer(0, low=0)
    max_subscription_bytes: int = integer(0, low=0)
    max_messages_per_rpc: int = integer(10_000, low=1)
    max_control_per_rpc: int = integer(50_000, low=1)
    max_pending_validations: int = integer(8_192, low=1)

    def __post_init__(self) -> None:
        violations = tuple(self._field_violations()) or tuple(self.cross_rules())
        if violations:
            raise ParameterError(violations)

    def _field_violations(self) -> Iterator[Violation]:
        for declared in fields(self):
            value: object = getattr(self, declared.name)
            rules = declared.metadata
            if "choices" in rules:
                if not isinstance(value, rules["choices"]):
                    words = ", ".join(rules["choices"])
                    yield Violation(declared.name, value, f"must be one of {words}")
            elif "low" in rules:
                if not isinstance(value, int) or isinstance(value, bool):
                    yield Violation(declared.name, value, "must be an integer")
                elif not rules["low"] <= value <= rules["high"]:
                    yield Violation(declared.name, value, f"must be in {rules['low']}…{rules['high']}")
            elif not isinstance(value, bool):
                yield Violation(declared.name, value, "must be true or false")

    def cross_rules(self) -> Iterator[Violation]:
        """Rules between fields; asked only when every field is in its own range."""
        yield from ()

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return tuple(declared.name for declared in fields(cls))

    @classmethod
    def from_mapping(cls, values: Mapping[str, object]) -> Self:
        """Build from plain values, words standing for choices. Unknown names are violations too."""
        known = {declared.name: declared for declared in fields(cls)}
        unknown = tuple(
            Violation(name, value, f"is not a parameter of this router; {_nearest(name, tuple(known))}")
            for name, value in values.items()
            if name not in known
        )
        arguments: dict[str, Any] = {}
        for name, value in values.items():
            if name in known:
                choices = known[name].metadata.get("choices")
                words: dict[object, StrEnum] = {str(word): word for word in choices} if choices else {}
                arguments[name] = words.get(value, value) if isinstance(value, str) else value
        try:
            built = cls(**arguments)
        except ParameterError as error:
            raise ParameterError(unknown + error.violations) from None
        if unknown:
            raise ParameterError(unknown)
        return built

    def to_mapping(self) -> dict[str, bool | int | str]:
        """Plain values, as a scenario file writes them."""
        plain: dict[str, bool | int | str] = {}
        for declared in fields(self):
            value: Any = getattr(self, declared.name)
            plain[declared.name] = str(value) if isinstance(value, StrEnum) else value
        return plain

    @property
    def seen_ttl_us(self) -> Micros:
        return self.seen_ttl_ms * 1000


def _nearest(name: str, known: tuple[str, ...]) -> str:
    """What may have been meant, or all there is."""
    near = get_close_matches(name, known, 1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
