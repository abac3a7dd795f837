"""Named parameters of a router, of which some are made from a number that is given beside the name.

* A preset is a mapping from parameters to values. One that is made is a mapping, too: that of its argument's default.
* The argument is given where parameters are, and is none of them: `preset = "ethereum"`, `validators = 500_000`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from hearsay.core.shell.parameters import ParameterError, Violation

Values: TypeAlias = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class MadePreset(Mapping[str, object]):
    """Parameters made from a number."""

    argument: str
    low: int
    high: int
    default: int
    make: Callable[[int], Values]

    def made(self, number: object) -> Values:
        """The parameters for a number; `ParameterError` if it is none of the right size."""
        if not isinstance(number, int) or isinstance(number, bool) or not self.low <= number <= self.high:
            rule = f"must be an integer in {self.low}…{self.high}"
            raise ParameterError((Violation(self.argument, number, rule),))
        return self.make(number)

    def __getitem__(self, name: str) -> object:
        return self.make(self.default)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.make(self.default))

    def __len__(self) -> int:
        return len(self.make(self.default))


def arguments(presets: Mapping[str, Values]) -> dict[str, MadePreset]:
    """The arguments of presets, by name, each with one of those that it is for."""
    return {preset.argument: preset for preset in presets.values() if isinstance(preset, MadePreset)}


def argument_of(presets: Mapping[str, Values], name: str | None, values: Values) -> dict[str, int]:
    """The preset's argument with its value, given or not; nothing if it has none.

    `ParameterError` names what cannot be: an argument beside a preset that has another one or none.
    """
    preset = presets.get(name) if name is not None else None
    own = preset.argument if isinstance(preset, MadePreset) else None
    wrong = [
        Violation(argument, values[argument], f"is for the presets {_having(presets, argument)}")
        for argument in arguments(presets)
        if argument in values and argument != own
    ]
    if wrong:
        raise ParameterError(tuple(wrong))
    if not isinstance(preset, MadePreset):
        return {}
    number = values.get(preset.argument, preset.default)
    preset.made(number)
    assert isinstance(number, int)
    return {preset.argument: number}


def values_of(preset: Values, argument: Mapping[str, int]) -> Values:
    """The values of a preset with its argument."""
    return preset.made(argument[preset.argument]) if isinstance(preset, MadePreset) else preset


def _having(presets: Mapping[str, Values], argument: str) -> str:
    return ", ".join(
        name for name, preset in presets.items() if isinstance(preset, MadePreset) and preset.argument == argument
    )
