"""Tuning of metrics that scatter so much that the seeds of the races do not distinguish points: finals do better.

The rows of runs are artificial. The aim is the sum of a true value of the combination, a random value of the seed and
a random value of the run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from known_best import write_problem

from hearsay.number_text import plain
from hearsay.studies.tuning.optimiser import Ended, final_rungs
from hearsay.studies.tuning.output import as_good_words, searched_words
from hearsay.studies.tuning.search import Search, Searched
from hearsay.studies.tuning.space import spaces
from hearsay.studies.tuning.tune import answer_of, most_runs
from hearsay.studies.tuning.tune_file import FINALISTS, Tuning, load_tuning

STEPS = 8
SEEDS, FINAL = 12, 48
BEST = 5
FILE = f"""
aim = "control_per_delivery"
seeds = {SEEDS}
final_seeds = {FINAL}
runs = 400
[base]
router.kind = "MODULE:KIND"
network.nodes = 6
[bounds]
bytes_per_node = {{ at_most = 100, judge = "worst" }}
[[axes]]
key = "router.x"
from = 12
to = {12 + STEPS - 1}
step = 1
"""


@pytest.fixture(scope="module")
def tuning(tmp_path_factory):
    folder = tmp_path_factory.mktemp("noisy")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield load_tuning(write_problem(folder, FILE, module="hill_in_noise"))


def truth(step: int) -> float:
    return 10 + 0.35 * abs(step - BEST)


def search(
    tuning: Tuning, noise: int, scatter: float = 1.5, load: Callable[[int, int], float] = lambda _step, _seed: 0
) -> Searched:
    """Search with artificial rows. `noise` seeds the random values; all points have the same `luck` on a seed."""
    rows = {}

    def make(points):
        for point in points:
            step = point.steps[0] if point.steps else 0
            for seed in point.seeds:
                luck = Random(f"{noise} {seed}").gauss(0, 5)
                chance = scatter * Random(f"{noise} {seed} {step}").gauss(0, 1)
                rows[point.run_name(seed)] = {
                    "error": None,
                    "control_per_delivery": truth(step) + luck + chance,
                    "bytes_per_node": load(step, seed),
                }
        return rows

    (space,) = spaces(tuning)
    return Search(space, make, ()).run()


def without_finals(tuning: Tuning) -> Tuning:
    return replace(tuning, final_seeds=())


PROBLEMS = range(40)
"""Seeds of the random values, each for one search."""


@pytest.mark.thorough
def test_finals_find_the_best_more_often_than_races_alone(tuning):
    with_finals = [search(tuning, noise) for noise in PROBLEMS]
    without = [search(without_finals(tuning), noise) for noise in PROBLEMS]

    def hits(found):
        return sum(each.best.steps == (BEST,) for each in found)

    def regret(found):
        return sum(truth(each.best.steps[0]) - truth(BEST) for each in found) / len(found)

    assert hits(with_finals) >= hits(without) + 4
    assert regret(with_finals) < regret(without) / 2
    for found in with_finals:
        assert found.runs <= tuning.runs
        assert found.final_runs <= FINALISTS * (FINAL - SEEDS)
        assert found.runs + found.final_runs <= most_runs(spaces(tuning))
        assert max(len(each.point.seeds) for each in found.tried) <= FINAL


@pytest.mark.thorough
def test_finals_leave_fewer_points_that_are_as_good_as_the_answer(tuning):
    """In at most 6 % of the searches, the true best is neither the answer nor as good."""
    few = many = missed = 0
    for noise in PROBLEMS:
        answer, without = (answer_of(search(each, noise)) for each in (tuning, without_finals(tuning)))
        few, many = few + len(answer.as_good), many + len(without.as_good)
        missed += (BEST,) not in {answer.best.steps, *(each.steps for each in answer.as_good)}
        if answer.as_good:
            assert as_good_words(answer).startswith("as good, within ")
        if answer.searched.final_runs:
            said = f"; {answer.searched.finalists} in finals of {answer.searched.final_runs} runs"
            assert plain(searched_words(answer.searched)).endswith(said)
    assert few < many * 0.6
    assert missed <= len(PROBLEMS) * 0.06


def test_without_chance_there_are_no_finals(tuning):
    found = search(tuning, 1, scatter=0)
    assert (found.best.steps, found.finalists, found.final_runs) == ((BEST,), 0, 0)
    assert "finals" not in searched_words(found)


def test_seeds_of_the_finals_are_used_nowhere_else(tuning):
    assert len(tuning.final_seeds) == FINAL - SEEDS
    assert not {*tuning.final_seeds} & {*tuning.seeds, *tuning.fresh_seeds}
    assert tuning.never_seen_seed > max(tuning.final_seeds)
    assert final_rungs(tuning) == [24, 48]
    assert final_rungs(without_finals(tuning)) == []


def test_a_point_that_breaks_a_bound_in_the_finals_is_no_answer(tuning):
    """The best point keeps the bound on all seeds of the races, and breaks it on all seeds of the finals."""
    late = set(tuning.final_seeds)

    def load(step, seed):
        return 200 if step == BEST and seed in late else 0

    broke = 0
    for noise in range(8):
        found = search(tuning, noise, load=load)
        (best,) = [each for each in found.tried if each.steps == (BEST,)]
        if len(best.point.seeds) > SEEDS:
            broke += 1
            assert best.ended is Ended.BREAKS
            assert best.broken.figure.name == "bytes_per_node"
            assert found.best.steps != (BEST,)
            assert len(found.best.point.seeds) > SEEDS
    assert broke >= 4
