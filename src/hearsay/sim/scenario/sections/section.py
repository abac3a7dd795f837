"""A table of a scenario."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from pydantic import BaseModel, ConfigDict, model_validator

from hearsay.core.shell.parameters import Violation
from hearsay.sim.scenario.sections.values import violated


class Section(BaseModel):
    """A table of the scenario: known keys only, frozen, checked as a whole once every key is in its own range."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="after")
    def _check_cross_rules(self) -> Self:
        violations = tuple(self.cross_rules())
        if violations:
            raise violated(violations)
        return self

    def cross_rules(self) -> Iterator[Violation]:
        yield from ()
