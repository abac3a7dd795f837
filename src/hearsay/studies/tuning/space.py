"""The combinations that may be tried. A combination is one step of each axis; the steps must make a valid scenario.

Rules:

* Parameters that must fit each other (degree_low ≤ degree ≤ degree_high) need no declaration: an invalid combination
  is left out before any run.
* A step that is in no valid combination is a mistake, reported with its file and line.
* If there are at most `MOST_LISTED` combinations, all are checked before the search begins; otherwise each is checked
  when it is drawn. Then a step also counts as a mistake if `MOST_TRIES` draws find no valid combination with it, and
  the combination with the first steps of the other axes is invalid.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import combinations_with_replacement, product
from random import Random
from typing import TypeAlias

from hearsay.studies.checked_file import StudyError, all_of
from hearsay.studies.points import Point, point_of
from hearsay.studies.tuning.tune_file import Tuning

Steps: TypeAlias = tuple[int, ...]
"""The index of a step on each axis that is searched."""

MOST_LISTED = 2000
MOST_TRIES = 300


class Space:
    """The valid combinations in one condition. `condition` is the index of the condition; None without conditions."""

    def __init__(self, tuning: Tuning, condition: int | None) -> None:
        self.tuning = tuning
        self.axes = tuning.axes
        self.condition = condition
        self._base = tuning.base
        if tuning.conditions is not None and condition is not None:
            self._base = tuning.base.at([tuning.conditions], [condition])
        self._fits: dict[Steps, bool] = {}
        self.listed: list[Steps] | None = None
        """All valid combinations; None if there are more than `MOST_LISTED` combinations."""
        self.start = point_of(self._base, tuning.seeds, ())
        """The point of the base in this condition, without steps of the searched axes."""
        if tuning.combinations <= MOST_LISTED:
            every = product(*(range(len(axis.steps)) for axis in self.axes))
            self.listed = [steps for steps in every if self.has(steps)]
        steps = [(number, step) for number, axis in enumerate(self.axes) for step in range(len(axis.steps))]
        self.examples = all_of(partial(self._example, *each) for each in steps)
        """Valid points, one for each step of each axis."""

    def has(self, steps: Steps) -> bool:
        """Return True if a combination makes a valid scenario."""
        if steps not in self._fits:
            try:
                self._base.at(self.axes, steps).scenario()
            except StudyError:
                self._fits[steps] = False
            else:
                self._fits[steps] = True
        return self._fits[steps]

    def point(self, steps: Steps, seeds: tuple[int, ...]) -> Point:
        """Return the point of a combination. Raise `StudyError` if the combination is invalid."""
        study_steps = steps if self.condition is None else (self.condition, *steps)
        return point_of(self._base.at(self.axes, steps), seeds, study_steps)

    def others(self, near: Steps | None, chance: Random) -> Iterator[Steps]:
        """Yield valid combinations in random order: first the neighbours of `near` unless it is None, then others. A
        combination may come more than once.
        """
        if near is not None:
            yield from filter(self.has, self._neighbours(near, chance))
        if self.listed is not None:
            yield from chance.sample(self.listed, len(self.listed))
        else:
            yield from filter(self.has, (self._any(chance) for _ in range(MOST_TRIES)))

    def _neighbours(self, steps: Steps, chance: Random) -> list[Steps]:
        """Return in random order `steps` itself and the combinations, valid or not, that differ from `steps` by one
        step on one or two axes, or by two steps on one axis.
        """
        found: set[Steps] = set()
        for number, other in combinations_with_replacement(range(len(steps)), 2):
            for move, other_move in product((-1, 1), (-1, 0, 1)):
                moved = list(steps)
                moved[number] += move
                moved[other] += other_move
                if all(0 <= step < len(axis.steps) for step, axis in zip(moved, self.axes, strict=True)):
                    found.add(tuple(moved))
        return chance.sample(sorted(found), len(found))

    def _any(self, chance: Random) -> Steps:
        return tuple(chance.randrange(len(axis.steps)) for axis in self.axes)

    def _example(self, number: int, step: int) -> Point:
        """Return a valid point with this step on axis `number`. If no combination that is listed or drawn is valid,
        use the first step of each other axis, or raise `StudyError` with the mistakes in that combination.
        """
        if self.listed is not None:
            fitting = (steps for steps in self.listed if steps[number] == step)
        else:
            chance = Random(step)
            drawn = (self._any(chance) for _ in range(MOST_TRIES))
            moved = ((*steps[:number], step, *steps[number + 1 :]) for steps in drawn)
            fitting = (steps for steps in moved if self.has(steps))
        steps = next(fitting, None)
        if steps is None:
            steps = tuple(step if place == number else 0 for place in range(len(self.axes)))
        return self.point(steps, self.tuning.seeds)


def spaces(tuning: Tuning) -> list[Space]:
    """Return a space for each condition, or one space without conditions. Raise `StudyError` with all
    invalid values.
    """
    conditions = range(len(tuning.conditions.steps)) if tuning.conditions is not None else [None]
    return all_of(partial(Space, tuning, condition) for condition in conditions)
