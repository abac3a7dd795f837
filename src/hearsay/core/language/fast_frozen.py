"""Fast constructors for the most frequent actions.

The constructor of a frozen dataclass sets each field through `object.__setattr__`, because its own `__setattr__`
refuses; that costs more than the rest of the object. `fast_init` makes the same objects from a *draft*: an object of
a plain class with the same slots, filled by plain assignment, which then becomes one of the frozen class. It does so
in a function, since a call of a function costs less than one of a constructor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def fast_init(frozen: Callable[P, T]) -> Callable[P, T]:
    """Return a constructor for a frozen slotted dataclass of plain fields, equal to the class itself."""
    declared: Any = fields(frozen)  # pyright: ignore[reportArgumentType]
    names = [field.name for field in declared]
    parameters = ", ".join(
        field.name if field.default is MISSING else f"{field.name}=defaults[{field.name!r}]" for field in declared
    )
    body = "".join(f" draft.{name} = {name}\n" for name in names)
    source = (
        f"class Draft:\n __slots__ = {tuple(names)}\n"
        f"def make({parameters}):\n draft = Draft()\n{body} draft.__class__ = frozen\n return draft\n"
    )
    scope: dict[str, Any] = {"frozen": frozen, "defaults": {field.name: field.default for field in declared}}
    exec(source, scope)
    return scope["make"]
