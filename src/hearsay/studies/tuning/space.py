"""The combinations that may be tried: steps of all axes that together are a valid scenario.

Rules:

* Parameters that must fit each other (degree_low ≤ degree ≤ degree_high) need no declaration: an invalid combination
  is left out before any run.
* A step that is in no valid combination is a mistake, reported with its file and line.
* Up to `MOST_LISTED` combinations are checked before the search begins; otherwise each is checked when it is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement, product
from random import Random
from typing import TypeAlias

from hearsay.studies.checked_file import StudyError
from hearsay.studies.points import Point, point_of
from hearsay.studies.tuning.tune_file import Tuning

Steps: TypeAlias = tuple[int, ...]
"""The index of a step on each axis that is searched."""

MOST_LISTED = 2000
MOST_TRIES = 300


class Space:
    """The combinations in one condition."""

    def __init__(self, tuning: Tuning, condition: int | None) -> None:
        self.tuning = tuning
        self.axes = tuning.axes
        self.condition = condition
        self._base = tuning.base
        if tuning.conditions is not None and condition is not None:
            self._base = tuning.base.at([tuning.conditions], [condition])
        self._fits: dict[Steps, bool] = {}
        self.listed: list[Steps] | None = None
        """All valid combinations, if there are few enough to check all."""
        self.start = point_of(self._base.scenario(), tuning.seeds, ())
        """The unchanged base."""
        if tuning.combinations <= MOST_LISTED:
            every = product(*(range(len(axis.steps)) for axis in self.axes))
            self.listed = [steps for steps in every if self.has(steps)]
        self.examples = self._examples()
        """Points that together have every step of every axis."""

    def has(self, steps: Steps) -> bool:
        """Return True if a combination is a valid scenario."""
        if steps not in self._fits:
            try:
                self._base.at(self.axes, steps).scenario()
            except StudyError:
                self._fits[steps] = False
            else:
                self._fits[steps] = True
        return self._fits[steps]

    def point(self, steps: Steps, seeds: tuple[int, ...]) -> Point:
        """Return the point of a valid combination."""
        return point_of(self._base.at(self.axes, steps).scenario(), seeds, self._study_steps(steps))

    def others(self, near: Steps | None, chance: Random) -> Iterator[Steps]:
        """Yield valid combinations in random order: neighbours of `near` first, then any."""
        if near is not None:
            yield from filter(self.has, self._neighbours(near, chance))
        if self.listed is not None:
            yield from chance.sample(self.listed, len(self.listed))
        else:
            yield from filter(self.has, (self._any(chance) for _ in range(MOST_TRIES)))

    def _neighbours(self, steps: Steps, chance: Random) -> list[Steps]:
        """Return the combinations one step away on one axis or two."""
        found: set[Steps] = set()
        for number, other in combinations_with_replacement(range(len(steps)), 2):
            for move, other_move in product((-1, 1), (-1, 0, 1)):
                moved = list(steps)
                moved[number] += move
                moved[other] += other_move
                if all(0 <= step < len(axis.steps) for step, axis in zip(moved, self.axes, strict=True)):
                    found.add(tuple(moved))
        return chance.sample(sorted(found), len(found))

    def _study_steps(self, steps: Steps) -> Steps:
        """Return the steps on the axes of `Tuning.study`: the condition's step, if there is one, then `steps`."""
        return steps if self.condition is None else (self.condition, *steps)

    def _any(self, chance: Random) -> Steps:
        return tuple(chance.randrange(len(axis.steps)) for axis in self.axes)

    def _examples(self) -> list[Point]:
        found: list[Point] = []
        problems: dict[str, None] = {}
        for number, axis in enumerate(self.axes):
            for step in range(len(axis.steps)):
                example = self._example(number, step)
                if example is None:
                    problems |= dict.fromkeys(self._mistakes(number, step))
                else:
                    found.append(example)
        if problems:
            raise StudyError(problems)
        return found

    def _example(self, number: int, step: int) -> Point | None:
        """Return a valid point with this step of axis `number`; None if none is found."""
        if self.listed is not None:
            fitting = (steps for steps in self.listed if steps[number] == step)
        else:
            chance = Random(step)
            drawn = (self._any(chance) for _ in range(MOST_TRIES))
            moved = ((*steps[:number], step, *steps[number + 1 :]) for steps in drawn)
            fitting = (steps for steps in moved if self.has(steps))
        steps = next(fitting, None)
        return None if steps is None else self.point(steps, self.tuning.seeds)

    def _mistakes(self, number: int, step: int) -> list[str]:
        """Return why a step is in no valid combination: its errors with the first step of each other axis, if any."""
        first = [0] * len(self.axes)
        first[number] = step
        try:
            self._base.at(self.axes, first).scenario()
        except StudyError as error:
            return error.problems
        return [f"{self.axes[number].places[step]}: {self.axes[number].labels[step]} fits with no other axis"]


def spaces(tuning: Tuning) -> list[Space]:
    """Return a space for each condition, or one without conditions. Raise `StudyError` with every invalid value."""
    conditions = range(len(tuning.conditions.steps)) if tuning.conditions is not None else [None]
    found: list[Space] = []
    problems: dict[str, None] = {}
    for condition in conditions:
        try:
            found.append(Space(tuning, condition))
        except StudyError as error:
            problems |= dict.fromkeys(error.problems)
    if problems:
        raise StudyError(problems)
    return found
