"""What matters most: the share of a figure's variance over the whole space that each axis explains by itself.

Functional analysis of variance on a random forest over all points tried (Hutter, Hoos and Leyton-Brown, 2014), as
Optuna has it. All points count with the seeds that all of them had, so chance is the same for all. What no axis
explains by itself is their interplay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import optuna

from hearsay.metrics import Metric
from hearsay.studies.axes import Axis
from hearsay.studies.tables import values_at
from hearsay.studies.tuning.optimiser import distributions
from hearsay.studies.tuning.race import rungs
from hearsay.studies.tuning.search import Searched

FEWEST_POINTS = 10
_FOREST_SEED = 1


def explained(searched: Searched, figure: Metric) -> Mapping[str, float] | None:
    """The share of each axis by its name, the largest first; None if too few points differ to say."""
    axes = searched.tuning.axes
    seeds = searched.tuning.seeds[: rungs(len(searched.tuning.seeds))[0]]
    space = distributions(axes)
    trials: list[Any] = []
    for each in searched.tried:
        values = values_at(replace(each.point, seeds=seeds), searched.results, figure.name)
        if len(values) == len(seeds):
            steps = dict(zip(space, each.steps, strict=True))
            mean = sum(values) / len(values)
            trials.append(optuna.trial.create_trial(params=steps, distributions=space, value=mean))
    if len(trials) < FEWEST_POINTS or len({trial.value for trial in trials}) < 2:
        return None
    study = optuna.create_study()
    study.add_trials(trials)
    return _shares(axes, study)


def _shares(axes: Sequence[Axis], study: optuna.Study) -> dict[str, float]:
    # It brings scikit-learn, which takes seconds to import; a small search has too few points to ask for it.
    importance: Any = import_module("optuna.importance")
    evaluator = importance.FanovaImportanceEvaluator(seed=_FOREST_SEED)
    found = importance.get_param_importances(study, evaluator=evaluator, normalize=False)
    return {axes[int(number)].name: float(share) for number, share in found.items()}
