"""The router of each node: [router] and [[population]]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Self, cast

from pydantic import PlainValidator

from hearsay.core.registry import RouterKind, find_router
from hearsay.core.shell.parameters import (
    ParameterError,
    RouterParameters,
    Violation,
    argument_of,
    arguments,
    merged,
    values_of,
)
from hearsay.sim.scenario.router_schema import router_schema
from hearsay.sim.scenario.values import (
    MILLION,
    NodeNumber,
    Section,
    Share,
    broken,
    scaled,
    unknown_key,
    violated,
)


@dataclass(frozen=True, slots=True)
class RouterChoice:
    """A kind of router with all of its parameters."""

    kind: str
    preset: str | None
    definition: RouterKind = field(repr=False, hash=False)
    parameters: RouterParameters
    argument: Mapping[str, int] = field(default_factory=dict[str, int], hash=False)
    """The argument of the preset and its value; empty for a preset without one."""

    @classmethod
    def from_mapping(cls, values: Mapping[str, object]) -> Self:
        """Build from `kind`, `preset` and parameters; raise `ParameterError` with all violations."""
        kind = values.get("kind", "gossipsub")
        if not isinstance(kind, str):
            raise ParameterError((Violation("kind", kind, "must be a string"),))
        try:
            definition = find_router(kind)
        except ValueError as error:
            raise ParameterError((Violation("kind", kind, str(error)),)) from None
        preset = values.get("preset", "r1" if "r1" in definition.presets else None)
        names = definition.parameters.names()
        known = ("kind", "preset", *arguments(definition.presets), *names)
        violations = [
            Violation(key, value, unknown_key(key, known)) for key, value in values.items() if key not in known
        ]
        base: Mapping[str, object] = {}
        argument: dict[str, int] = {}
        if isinstance(preset, str) and preset in definition.presets:
            try:
                argument = argument_of(definition.presets, preset, values)
                base = values_of(definition.presets[preset], argument)
            except ParameterError as error:
                violations += error.violations
        elif preset is not None:
            violations.append(Violation("preset", preset, f"must be one of {', '.join(definition.presets)}"))
        own = {key: value for key, value in values.items() if key in names}
        try:
            parameters = definition.parameters.from_mapping(merged(base, own))
        except ParameterError as error:
            raise ParameterError((*violations, *error.violations)) from None
        if violations:
            raise ParameterError(tuple(violations))
        return cls(kind, cast("str | None", preset), definition, parameters, argument)

    def preset_values(self) -> Mapping[str, object]:
        """Return the parameters that the preset sets."""
        return {} if self.preset is None else values_of(self.definition.presets[self.preset], self.argument)

    def to_mapping(self) -> dict[str, object]:
        """Return the table with every parameter."""
        preset = {} if self.preset is None else {"preset": self.preset}
        return {"kind": self.kind, **preset, **self.argument, **self.parameters.to_mapping()}

    def validating(self) -> RouterChoice:
        """Return the same router with `validate` on."""
        return replace(self, parameters=replace(self.parameters, validate=True))


def _router(value: object) -> RouterChoice:
    if isinstance(value, RouterChoice):
        return value
    if not isinstance(value, Mapping):
        raise broken("must be a table")
    try:
        return RouterChoice.from_mapping(cast("Mapping[str, object]", value))
    except ParameterError as error:
        raise violated(error.violations) from None


class _RouterSchema:
    def __get_pydantic_json_schema__(self, _core: object, _handler: object) -> dict[str, Any]:
        return router_schema()


RouterTable = Annotated[RouterChoice, PlainValidator(_router), _RouterSchema()]


class Population(Section):
    """[[population]]: a random share of the nodes, or those of a list, run another router."""

    share: Share | None = None
    """Share of all nodes, drawn from those that no population lists."""
    listed: tuple[NodeNumber, ...] | None = None
    """The nodes, by number; in place of `share`."""
    router: RouterTable
    """Their router, with the keys of `[router]`."""

    def cross_rules(self) -> Iterator[Violation]:
        if self.share is None and self.listed is None:
            yield Violation("share", None, "is required, or a list of nodes, listed")
        yield from self.exclusive("share", "listed")

    @property
    def share_millionths(self) -> int:
        """The share in millionths; 0 without one."""
        return 0 if self.share is None else scaled(self.share, MILLION)
