"""Comparisons of real runs: what is called a difference, what is not, and in which words."""

from __future__ import annotations

import json

import pytest
from made_here import results_of
from small_study import hearsay

from hearsay.studies.base import Base
from hearsay.studies.comparison import Compared, Verdict, compare, side, sides
from hearsay.studies.comparison_words import overall_words, verdict_words
from hearsay.studies.errors import StudyError
from hearsay.studies.figures import BY_NAME
from hearsay.studies.folder import StudyFolder
from hearsay.studies.points import point_of
from hearsay.studies.statistics import paired

TINY = (("network.nodes", 12), ("network.degree", 3), ("workload.messages", 2), ("warmup_s", 2), ("linger_s", 2))


def compared(a: Base, b: Base, seeds: int, *, same_seeds: bool = True) -> dict[str, Compared]:
    study, points = sides(a, b, ("A", "B"), seeds, same_seeds=same_seeds, engine="auto")
    return {line.figure.name: line for line in compare(points, results_of(study, points))}


def test_the_same_scenario_on_the_same_seeds_is_equal_in_all():
    base = Base(preset="r1", settings=TINY)
    lines = compared(base, base, 4)
    assert {line.verdict for line in lines.values()} == {Verdict.EQUAL}
    assert overall_words(list(lines.values()), ("A", "B")) == "No difference detectable with 4 seeds."


def test_the_same_scenario_on_different_seeds_is_called_different_in_at_most_5_of_100_cases():
    """Forty comparisons with seeds of their own; two false calls are to be expected."""
    scenario = Base(preset="r1", settings=TINY).scenario()
    study, _ = sides(Base(preset="r1"), Base(preset="r1"), ("A", "B"), 2, same_seeds=False, engine="auto")
    called = 0
    for number in range(40):
        first = number * 12
        points = [point_of(scenario, tuple(range(first + at, first + at + 6)), (0,)) for at in (0, 6)]
        verdicts = [line.verdict for line in compare(points, results_of(study, points))]
        called += Verdict.BETTER in verdicts or Verdict.WORSE in verdicts
    assert called <= 5


def test_more_links_in_the_mesh_are_faster_and_cost_copies():
    a = Base(preset="r1", settings=(("network.nodes", 60), ("workload.messages", 4), ("router.degree", 4)))
    b = a.with_settings([("router.degree", 10)])
    lines = compared(a, b, 8)
    assert lines["latency_p50_ms"].verdict is Verdict.BETTER
    assert lines["copies_per_delivery"].verdict is Verdict.WORSE
    assert lines["delivery_ratio"].verdict is Verdict.EQUAL
    words = overall_words(list(lines.values()), ("four", "ten"))
    assert words.startswith("ten against four: better in ")
    assert "worse in copies per delivery" in words
    assert "No difference detectable in delivered" in words


def line_of(name: str, a: list[float], b: list[float], verdict: Verdict, figures: int = 1) -> Compared:
    difference = paired(a, b)
    return Compared(BY_NAME[name], difference, verdict, difference.detectable(figures))


def test_words():
    faster = line_of("latency_p99_ms", [100, 110, 90, 100], [90, 98, 80, 92], Verdict.BETTER)
    assert verdict_words(faster) == "better: 10 % less (between 7.4 % and 13 %)"
    fewer = line_of("delivery_ratio", [1, 1, 1, 1], [0.9, 0.91, 0.89, 0.9], Verdict.WORSE)
    assert verdict_words(fewer) == "worse: 10 percentage points less (between 8.7 and 11 percentage points)"
    unseen = line_of("hops_mean", [3.0, 3.2, 3.1, 2.9], [3.1, 3.1, 3.0, 3.05], Verdict.UNDETECTED)
    assert verdict_words(unseen) == "no difference detectable with 4 seeds (would see 9 %)"
    unknown = Compared(BY_NAME["hops_mean"], None, Verdict.UNKNOWN, 0.0)
    assert verdict_words(unknown) == "not measured: fewer than two seeds have it"


def test_what_is_no_scenario_is_said():
    with pytest.raises(StudyError, match=r"r2: no such file, and no such preset; there are churn-30"):
        side("r2")


def test_the_command_tells_what_is_kept(tmp_path):
    """The runs are in the folder, so no Spark is needed."""
    a = Base(preset="r1", settings=TINY)
    b = a.with_settings([("router.degree", 9), ("router.degree_low", 8)])
    study, points = sides(a, b, ("A", "B"), 5, same_seeds=True, engine="auto")
    StudyFolder.open(tmp_path / "out").add(results_of(study, points).values())
    both = [f"--both={key}={value}" for key, value in TINY]
    changes = ("--set", "router.degree=9", "--set", "router.degree_low=8")
    done = hearsay("compare", "r1", *changes, *both, "--seeds", 5, "--out", tmp_path / "out", "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "sweep: 10 of 10 runs are there already\n"
    told = json.loads(done.stdout)
    assert (told["a"], told["b"]) == ("r1", "r1 with router.degree=9, router.degree_low=8")
    assert (told["paired"], told["seeds"]) == (True, 5)
    assert [line["figure"] for line in told["figures"]][:2] == ["delivery_ratio", "latency_p50_ms"]
    assert "Content-Security-Policy" in (tmp_path / "out" / "report.html").read_text()


def test_nothing_to_compare_is_a_usage_error(tmp_path):
    done = hearsay("compare", "r1", cwd=tmp_path)
    assert done.returncode == 2
    assert "nothing to compare" in done.stderr
