"""Fast constructors for the most frequent actions.

The constructor of a frozen dataclass sets each field through `object.__setattr__`, because its own `__setattr__`
refuses; these calls take most of the time. `fast_init` makes equal objects from a *draft*: an object of a plain class
with the same slots, filled by plain assignment, whose class is then changed to the frozen one. The constructor is a
function, since calling a function costs less than calling a class.
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
