"""Validated, frozen parameters of routers and scores, and presets, which are named sets of them.

A field declares its range or its choices together with its default; `cross_rules` states conditions between fields.
All errors of single fields are reported at once, each with the field, the value and the rule, so that the author of a
scenario file sees them together. Conditions between fields may be checked only when each field is valid. Times are
integers in milliseconds, and their names end in `_ms`.

A preset is a mapping from the names of parameters to values; presets are in the TOML files of `core/presets`. The
values of a preset can depend on a number, the preset's argument. Users set the argument next to the parameters:
`preset = "ethereum"`, `validators = 500_000`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from decimal import Decimal
from difflib import get_close_matches
from enum import StrEnum
from importlib.resources import files
from typing import Any, ClassVar, Self, TypeAlias, cast

from hearsay.core.language.identifiers import Micros

MAX_TIME_MS = 30 * 24 * 3600 * 1000
MAX_COUNT = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Violation:
    """A field whose value breaks a rule: the name of the field, the value, and the rule in words."""

    field: str
    value: object
    rule: str

    def __str__(self) -> str:
        return f"{self.field} = {self.value!r}: {self.rule}"


class ParameterError(ValueError):
    """The error for invalid parameters. It has all their violations, and a message with each of these."""

    def __init__(self, violations: tuple[Violation, ...]) -> None:
        super().__init__("; ".join(map(str, violations)))
        self.violations = violations


def integer(default: int, low: int, high: int = MAX_COUNT) -> Any:
    """Return a dataclass field for an integer from `low` to `high`, both included."""
    return field(default=default, metadata={"low": low, "high": high})


def milliseconds(default: int, low: int = 0) -> Any:
    """Return a dataclass field for a whole number of milliseconds from `low` to 30 days."""
    return field(default=default, metadata={"low": low, "high": MAX_TIME_MS})


def number(low: float, high: float, default: float = 0.0, words: str = "") -> Any:
    """Return a dataclass field for a number from `low` to `high`. In errors, `words` replace "in low…high"."""
    return field(default=default, metadata={"low": low, "high": high, "number": True, "words": words})


def share(default: float) -> Any:
    """Return a dataclass field for a number from 0 to 1."""
    return number(0, 1, default)


def table(kind: type) -> Any:
    """Return a dataclass field for an object of the class `kind`, which is a table in a file; None if the file has no
    such table.

    The methods `from_mapping` and `to_mapping` of `kind` read and write the table.
    """
    return field(default=None, metadata={"table": kind})


def pairs() -> Any:
    """Return a dataclass field for pairs of different nodes. A node is given by its number."""
    return field(default=(), metadata={"pairs": True})


def texts() -> Any:
    """Return a dataclass field for a tuple of strings, which is a list in a file."""
    return field(default=(), metadata={"texts": True})


def choice(default: StrEnum) -> Any:
    """Return a dataclass field for a member of the enumeration of `default`. A file has the value of the member."""
    return field(default=default, metadata={"choices": type(default)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """The base of classes whose fields have rules. The constructor raises `ParameterError` if values break rules."""

    owner: ClassVar[str] = "this object"
    """The thing that has the parameters, as error messages name it."""

    def __post_init__(self) -> None:
        violations = tuple(self.violations())
        if violations:
            raise ParameterError(violations)

    def violations(self) -> Iterator[Violation]:
        """Yield the rules that values break: first each field's own rule, then rules between fields."""
        declared = {each.name: each for each in fields(self)}
        found = tuple(_own_violations(declared, {name: getattr(self, name) for name in declared}))
        yield from found
        yield from self._rules_between({violation.field for violation in found})

    def _rules_between(self, faulty: set[str]) -> Iterator[Violation]:
        """Yield the broken rules between fields. `faulty` are the names of the fields that break their own rules; if
        there are any, yield nothing."""
        if not faulty:
            yield from self.cross_rules()

    def cross_rules(self) -> Iterator[Violation]:
        """Yield the broken rules between fields. Called only if no field breaks its own rule. By default there are no
        rules between fields."""
        yield from ()

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return tuple(declared.name for declared in fields(cls))

    @classmethod
    def from_mapping(cls, values: Mapping[str, object]) -> Self:
        """Return an object with the values of a file, where a choice is a word and a table is a mapping.

        Raise `ParameterError` with all violations; an unknown name is a violation, too. Rules between fields may
        be checked only when all values are valid.
        """
        known = {declared.name: declared for declared in fields(cls)}
        wrong: list[Violation] = []
        tables: list[Violation] = []
        arguments: dict[str, Any] = {}
        for name, value in values.items():
            if name not in known:
                nearest = _suggestion(name, tuple(known))
                wrong.append(Violation(name, value, f"is not a parameter of {cls.owner}; {nearest}"))
                continue
            try:
                arguments[name] = _plain_as_declared(known[name], value)
            except ParameterError as error:
                tables += [Violation(f"{name}.{each.field}", each.value, each.rule) for each in error.violations]
        if tables:  # rules between a faulty table and other fields cannot be checked
            raise ParameterError((*wrong, *tables, *_own_violations(known, arguments)))
        try:
            built = cls(**arguments)
        except ParameterError as error:
            raise ParameterError((*wrong, *error.violations)) from None
        if wrong:
            raise ParameterError(tuple(wrong))
        return built

    def to_mapping(self) -> dict[str, Any]:
        """Return the values of all fields as a file has them, without tables that are None."""
        plain: dict[str, Any] = {}
        for declared in fields(self):
            value: Any = getattr(self, declared.name)
            if "table" not in declared.metadata:
                plain[declared.name] = str(value) if isinstance(value, StrEnum) else value
            elif value is not None:
                plain[declared.name] = value.to_mapping()
        return plain


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterParameters(Parameters):
    """Parameters of every router: the hello, packing of RPCs, the seen cache, and bounds on state that peers can
    increase."""

    owner: ClassVar[str] = "this router"

    hello: bool = True
    """Send the node's subscriptions to each new peer, and changes to all peers (guide, "Subscribing")."""
    announce_again_ms: int = milliseconds(1_000, low=1)
    """Maximum time until a router without a heartbeat repeats subscriptions that could not be sent."""
    coalesce: bool = True
    """Send a peer all parts of an event in one RPC (r1, piggybacking); otherwise each part alone (simsub)."""
    validate: bool = False
    """Ask the application before a message is used (guide, "Sending messages")."""
    seen_ttl_ms: int = milliseconds(120_000, low=1)
    """Time that a message id is remembered (r1: two minutes, non-normative)."""
    allowed_topics: tuple[str, ...] = texts()
    """Topics that the router may use, as names or globs (`*`, `?`, `[...]`); empty: all."""
    max_subscriptions_per_rpc: int = integer(0, low=0)
    """Maximum subscriptions in one RPC; an RPC with more is ignored. 0 is unlimited."""
    max_seen: int = integer(2_000_000, low=1)
    """Maximum ids in the seen cache; the oldest is removed first."""
    max_seen_bytes: int = integer(0, low=0)
    """Bytes of memory for the seen cache; 0 is unlimited."""
    max_subscriptions_per_peer: int = integer(20_000, low=1)
    """Maximum subscriptions of one peer; more are dropped."""
    max_subscription_bytes_per_peer: int = integer(0, low=0)
    """Bytes of memory for one peer's subscriptions; 0 is unlimited."""
    max_subscription_bytes: int = integer(0, low=0)
    """Bytes of memory for all peers' subscriptions. Beyond it, only subscriptions to joined topics are accepted; 0 is
    unlimited."""
    max_messages_per_rpc: int = integer(10_000, low=1)
    """Maximum messages in one RPC; more are dropped."""
    max_control_per_rpc: int = integer(50_000, low=1)
    """Maximum control parts in one RPC; more are dropped."""
    max_pending_validations: int = integer(8_192, low=1)
    """Maximum messages that wait for the application; more are dropped."""

    @property
    def seen_ttl_us(self) -> Micros:
        return self.seen_ttl_ms * 1000


def merged(base: Mapping[str, object], own: Mapping[str, object]) -> dict[str, object]:
    """Return all values of `base` and `own`. For a key in both, take the value of `own`; if both values are tables,
    merge them in this way."""
    found = dict(base)
    for key, value in own.items():
        below = found.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            value = merged(cast("Mapping[str, object]", below), cast("Mapping[str, object]", value))
        found[key] = value
    return found


def _own_violations(known: Mapping[str, Field[Any]], values: Mapping[str, object]) -> Iterator[Violation]:
    """Yield each value that breaks its field's own rule."""
    for name, value in values.items():
        rule = broken_rule(known[name], value)
        if rule is not None:
            yield Violation(name, value, rule)


def broken_rule(declared: Field[Any], value: object) -> str | None:
    """Return in words the own rule of a field that a value breaks; None if the value is valid."""
    rules = declared.metadata
    if "choices" in rules:
        return None if isinstance(value, rules["choices"]) else f"must be one of {', '.join(rules['choices'])}"
    if "texts" in rules:
        texts = isinstance(value, tuple) and all(isinstance(each, str) for each in cast("tuple[object, ...]", value))
        return None if texts else "must be a list of strings"
    if "table" in rules:
        return None if value is None or isinstance(value, rules["table"]) else "must be a table"
    if "pairs" in rules:
        return None if _are_pairs(value) else "must be a list of pairs of different nodes"
    if "low" not in rules:
        return None if isinstance(value, bool) else "must be true or false"
    if isinstance(value, bool) or not isinstance(value, int | float if "number" in rules else int):
        return "must be a number" if "number" in rules else "must be an integer"
    words = rules.get("words") or f"in {rules['low']}…{rules['high']}"
    return None if rules["low"] <= value <= rules["high"] else f"must be {words}"


def _plain_as_declared(declared: Field[Any], value: object) -> object:
    """Return a value of a file in the type of its field: the member for a word, a tuple for a list, a float for a
    decimal, an object for a table. Return an invalid value unchanged; a table with violations raises
    `ParameterError`."""
    rules = declared.metadata
    if "table" in rules and isinstance(value, Mapping):
        return rules["table"].from_mapping(cast("Mapping[str, object]", value))
    if "number" in rules and isinstance(value, Decimal):
        return float(value)
    if "pairs" in rules and isinstance(value, list | tuple):
        found = cast("list[object]", value)
        return tuple(tuple(cast("list[object]", each)) if isinstance(each, list) else each for each in found)
    choices = rules.get("choices")
    if isinstance(value, str) and choices:
        words: dict[str, object] = {str(word): word for word in choices}
        return words.get(value, value)
    return tuple(cast("list[object]", value)) if isinstance(value, list) else value


def _are_pairs(value: object) -> bool:
    return isinstance(value, tuple) and all(map(_is_pair, cast("tuple[object, ...]", value)))


def _is_pair(value: object) -> bool:
    if not isinstance(value, tuple):
        return False
    nodes = cast("tuple[object, ...]", value)
    return len(nodes) == len(set(nodes)) == 2 and all(type(node) is int and node >= 0 for node in nodes)


def _suggestion(name: str, known: tuple[str, ...]) -> str:
    """Return the end of an error message: the known name that is most similar to `name`, or all known names if none
    is similar."""
    near = get_close_matches(name, known, 1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"


def preset_tables(name: str) -> dict[str, Any]:
    """Return the content of the file `core/presets/NAME.toml`: a table for each preset."""
    file = files("hearsay.core") / "presets" / f"{name}.toml"  # the package may be in a zip
    return tomllib.loads(file.read_text(encoding="utf-8"))


Values: TypeAlias = Mapping[str, object]
"""Values by the name of a parameter."""


@dataclass(frozen=True, slots=True)
class PresetWithArgument(Mapping[str, object]):
    """A preset whose values depend on a number, its argument. As a mapping it has the values for the default."""

    argument: str
    """The name of the argument."""
    low: int
    high: int
    """The range of the argument is `low` to `high`, both included."""
    default: int
    make: Callable[[int], Values]
    """Returns the values of the preset for this number."""

    def __getitem__(self, name: str) -> object:
        return self.make(self.default)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.make(self.default))

    def __len__(self) -> int:
        return len(self.make(self.default))


def arguments(presets: Mapping[str, Values]) -> dict[str, PresetWithArgument]:
    """Return the names of all arguments of the presets, each with one preset that has this argument."""
    return {preset.argument: preset for preset in presets.values() if isinstance(preset, PresetWithArgument)}


def preset_values(presets: Mapping[str, Values], name: str, given: Values) -> tuple[dict[str, int], Values]:
    """Return a mapping from the name of a preset's argument to its value, and the parameters that the preset sets.

    The value is the one in `given`, or the default. The mapping is empty for a preset without an argument. Raise
    `ParameterError` if the value is invalid, or if `given` has an argument that only other presets have.
    """
    preset = presets[name]
    own = preset.argument if isinstance(preset, PresetWithArgument) else None
    wrong = [
        Violation(argument, given[argument], f"is for the presets {', '.join(_presets_with(presets, argument))}")
        for argument in arguments(presets)
        if argument in given and argument != own
    ]
    if wrong:
        raise ParameterError(tuple(wrong))
    if not isinstance(preset, PresetWithArgument):
        return {}, preset
    number = given.get(preset.argument, preset.default)
    if not isinstance(number, int) or isinstance(number, bool) or not preset.low <= number <= preset.high:
        rule = f"must be an integer in {preset.low}…{preset.high}"
        raise ParameterError((Violation(preset.argument, number, rule),))
    return {preset.argument: number}, preset.make(number)


def _presets_with(presets: Mapping[str, Values], argument: str) -> list[str]:
    return [name for name, one in presets.items() if isinstance(one, PresetWithArgument) and one.argument == argument]
