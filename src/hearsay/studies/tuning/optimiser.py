"""What to try next: Optuna's tree-structured Parzen estimator over the steps of the axes.

Rules:

* It is asked for a batch and told of the whole batch, in the order asked: its way follows from its seed and from what
  it was told, so a search that goes on after a kill goes the same way.
* Nothing is tried twice, and nothing that is no scenario. Where it comes up with nothing new, what lies beside the
  best is tried, and after that what chance finds.
* Axes of ascending numbers are numbers to it, all others are choices.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

from hearsay.studies.axes import Axis
from hearsay.studies.tuning.space import Space, Steps

_ATTEMPTS_EACH = 20


def distributions(axes: Sequence[Axis]) -> dict[str, BaseDistribution]:
    """The steps of each axis, by its place."""
    found: dict[str, BaseDistribution] = {}
    for number, axis in enumerate(axes):
        last = len(axis.steps) - 1
        numbers = axis.numbers is not None
        found[str(number)] = IntDistribution(0, last) if numbers else CategoricalDistribution(range(last + 1))
    return found


class Optimiser:
    def __init__(self, space: Space, seed: int, first: Sequence[Steps]) -> None:
        """`first` are tried before all others."""
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        warnings.filterwarnings("ignore", module="optuna")
        self._space = space
        self._chance = Random(seed)
        self._distributions = distributions(space.axes)
        self._study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
        self._asked: dict[Steps, Any] = {}
        self._best: tuple[float, float, Steps] | None = None
        """The least excess, the least aim, and what has both."""
        for steps in first:
            self._study.enqueue_trial(self._parameters(steps))

    def ask(self, count: int) -> list[Steps]:
        """As many as there are left, at most so many."""
        batch: list[Steps] = []
        for _ in range(count * _ATTEMPTS_EACH):
            if len(batch) == count:
                return batch
            trial = self._study.ask(self._distributions)
            steps: Steps = tuple(trial.params[name] for name in self._distributions)
            if steps in self._asked or not self._space.has(steps):
                self._study.tell(trial, state=optuna.trial.TrialState.FAIL)
            else:
                self._asked[steps] = trial
                batch.append(steps)
        near = None if self._best is None else self._best[-1]
        for steps in self._space.others(near, self._chance):
            if len(batch) == count:
                break
            if steps not in self._asked:
                self._study.enqueue_trial(self._parameters(steps))
                self._asked[steps] = self._study.ask(self._distributions)
                batch.append(steps)
        return batch

    def tell(self, steps: Steps, aim: float | None, excesses: Mapping[str, float]) -> None:
        """What a combination came to: the aim, if it was measured, where less is better; and how far each bound is
        exceeded."""
        trial = self._asked[steps]
        for name, excess in excesses.items():
            trial.set_constraint(name, excess)
        trial.set_constraint("measured", float(aim is None))
        self._study.tell(trial, 0.0 if aim is None else aim)
        if aim is not None:
            worth = (sum(excesses.values()), aim, steps)
            self._best = worth if self._best is None else min(self._best, worth)

    def _parameters(self, steps: Steps) -> dict[str, int]:
        return dict(zip(self._distributions, steps, strict=True))
