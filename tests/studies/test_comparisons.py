"""Comparisons of two scenarios: which differences are significant, and the text about differences."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace

import pytest
from local_runs import run_locally
from small_study import hearsay

from hearsay.number_text import plain
from hearsay.studies.axes import Base
from hearsay.studies.checked_file import StudyError
from hearsay.studies.comparison import (
    ComparisonRequest,
    FigureComparison,
    Verdict,
    base_named,
    by_itself_words,
    compare,
    figure_named,
    interval_words,
    overall_words,
    short_verdict,
    side_words,
    study_of_sides,
    verdict_words,
)
from hearsay.studies.packs import BY_NAME
from hearsay.studies.points import point_of
from hearsay.studies.results import StudyFolder
from hearsay.studies.statistics import paired

TINY = (("network.nodes", 12), ("network.degree", 3), ("workload.messages", 2), ("warmup_s", 2), ("linger_s", 2))


def compared(a: Base, b: Base, seeds: int, *, same_seeds: bool = True) -> dict[str, FigureComparison]:
    study, points = study_of_sides(a, b, ("A", "B"), seeds, same_seeds=same_seeds, engine="auto")
    return {line.figure.name: line for line in compare(points, run_locally(study, points))}


def test_the_same_scenario_on_the_same_seeds_is_equal_in_all():
    base = Base(preset="r1", settings=TINY)
    lines = compared(base, base, 4)
    assert {line.verdict for line in lines.values()} == {Verdict.EQUAL}
    words = overall_words(list(lines.values()), ("A", "B"))
    assert words.startswith("B against A: the same in delivered, p50 latency, ")
    assert {interval_words(line) for line in lines.values()} == {"the same"}


@pytest.mark.thorough
def test_the_same_scenario_on_different_seeds_is_called_different_in_at_most_5_of_100_cases():
    """Each of forty comparisons has its own seeds. Two wrong verdicts are expected."""
    base = Base(preset="r1", settings=TINY)
    study, _ = study_of_sides(Base(preset="r1"), Base(preset="r1"), ("A", "B"), 2, same_seeds=False, engine="auto")
    called = 0
    for number in range(40):
        first = number * 12
        points = [point_of(base, tuple(range(first + at, first + at + 6)), (0,)) for at in (0, 6)]
        verdicts = [line.verdict for line in compare(points, run_locally(study, points))]
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
    assert re.search(r"worse in copies per delivery \(\d+ % more\)", plain(words))
    same = [line.figure.title for line in lines.values() if line.verdict is Verdict.EQUAL]
    assert re.split(", | and ", words.partition("; the same in ")[2]) == [*same[:-1], f"{same[-1]}."]


def test_bytes_are_compared_and_shares_of_uplinks_where_there_are_limits():
    a = Base(preset="r1", settings=TINY)
    lines = compared(a, a.with_settings([("workload.size_bytes", 5000)]), 4)
    assert lines["bytes_per_node"].verdict is Verdict.WORSE
    assert "uplink_share" not in lines
    narrow = a.with_settings([("links.uplink_mbit", 1)])
    lines = compared(narrow, narrow.with_settings([("workload.size_bytes", 5000)]), 4)
    assert lines["uplink_share"].verdict is Verdict.WORSE
    assert 0 < lines["uplink_share"].difference.mean_a < lines["uplink_share"].difference.mean_b < 1


def line_of(name: str, a: list[float], b: list[float], verdict: Verdict, figures: int = 1) -> FigureComparison:
    difference = paired(a, b)
    return FigureComparison(BY_NAME[name], difference, verdict, difference.detectable(figures))


def verdict_text(line: FigureComparison) -> str:
    return plain(verdict_words(line))


def test_words_of_verdicts():
    faster = line_of("latency_p99_ms", [100, 110, 90, 100], [90, 98, 80, 92], Verdict.BETTER)
    assert verdict_text(faster) == "better: 10 % less (between 7.4 % and 13 %)"
    fewer = line_of("delivery_ratio", [1, 1, 1, 1], [0.9, 0.91, 0.89, 0.9], Verdict.WORSE)
    assert verdict_text(fewer) == "worse: 10 percentage points less (between 8.7 and 11 percentage points)"
    unseen = line_of("hops_mean", [3.0, 3.2, 3.1, 2.9], [3.1, 3.1, 3.0, 3.05], Verdict.UNDETECTED)
    assert verdict_text(unseen) == "no difference detectable with 4 seeds (would see 9.0 %)"
    twice = line_of("copies_per_delivery", [2, 2.1, 1.9, 2], [4, 4.2, 3.8, 4.01], Verdict.WORSE)
    assert verdict_text(twice) == "worse: 100 % more (between 94 % and 110 %)"
    unknown = FigureComparison(BY_NAME["hops_mean"], None, Verdict.UNKNOWN, 0.0)
    assert verdict_text(unknown) == "not measured: fewer than two seeds have it"


def test_a_side_that_ran_well_keeps_its_figures_when_the_other_failed():
    r1 = Base(preset="r1")
    _, (a, b) = study_of_sides(
        r1, r1.with_settings([("router.degree", 9)]), ("A", "B"), 2, same_seeds=True, engine="auto"
    )
    results = {a.run_name(seed): {"error": None, "hops_mean": 3.0 + seed} for seed in a.seeds}
    results |= {b.run_name(seed): {"error": "boom"} for seed in b.seeds}
    (line,) = compare([a, b], results, ["hops_mean"])
    assert side_words(line) == ("4.5", "–")
    assert short_verdict(line) == "not measured in B"
    assert verdict_text(line) == "not measured in B: fewer than two seeds have it"


def test_a_figure_is_found_by_its_name():
    (line,) = figures = [FigureComparison(BY_NAME["hops_mean"], None, Verdict.UNKNOWN, 0.0)]
    assert figure_named(figures, "hops_mean") is line
    with pytest.raises(KeyError, match="no figure 'hops'; there are hops_mean"):
        figure_named(figures, "hops")


def test_an_unknown_scenario_is_refused():
    with pytest.raises(StudyError, match=r"r2: no such file, and no such preset; there are churn-30"):
        base_named("r2")


def test_the_command_compares_stored_runs(tmp_path):
    """The runs are in the folder, so no Spark is needed."""
    a = Base(preset="r1", settings=TINY)
    b = a.with_settings([("router.degree", 9), ("router.degree_low", 8)])
    study, points = study_of_sides(a, b, ("A", "B"), 5, same_seeds=True, engine="auto")
    StudyFolder.open(tmp_path / "out").add(run_locally(study, points).values())
    both = [f"--both={key}={value}" for key, value in TINY]
    changes = ("--set", "router.degree=9", "--set", "router.degree_low=8")
    done = hearsay("compare", "r1", *changes, *both, "--seeds", 5, "--out", tmp_path / "out", "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "sweep: 10 of 10 runs are there already\n"
    document = json.loads(done.stdout)
    assert (document["a"], document["b"]) == ("r1", "r1 with router.degree=9, router.degree_low=8")
    assert (document["paired"], document["seeds"]) == (True, 5)
    assert [line["figure"] for line in document["figures"]][:2] == ["delivery_ratio", "latency_p50_ms"]
    assert "Content-Security-Policy" in (tmp_path / "out" / "report.html").read_text()


def test_a_comparison_shows_the_shared_settings_and_has_its_own_folder(tmp_path):
    both = tuple(f"{key}={value}" for key, value in TINY)
    a = Base(preset="r1", settings=TINY)
    for loss in ("0.3", "0.4"):
        asked = ComparisonRequest("r1", None, ("router.degree=9",), (*both, f"loss.rate={loss}"), 3)
        base = a.with_settings([("loss.rate", loss)])
        study, points = study_of_sides(
            base, base.with_settings([("router.degree", 9)]), asked.names, 3, same_seeds=True, engine="auto"
        )
        StudyFolder.open(tmp_path / "sweeps" / asked.folder_name).add(run_locally(study, points).values())
        done = hearsay(*shlex.split(asked.command)[1:], cwd=tmp_path, variables={"COLUMNS": "80"})
        assert done.returncode == 0, done.stderr
        assert f"both: with {', '.join(asked.both)}\nseeds: 3, the same on both sides" in done.stdout
        assert f"again: {asked.command}\n" in done.stdout
        table = done.stdout.split("\n\n")[2]
        assert "B − A (95 % interval)          verdict" in table
        assert "sent per node" in table
        assert max(map(len, table.splitlines())) <= 80
        assert f"report: sweeps/{asked.folder_name}/report.html" in done.stdout
    assert len(list((tmp_path / "sweeps").iterdir())) == 2


def test_nothing_to_compare_is_a_usage_error(tmp_path):
    done = hearsay("compare", "r1", cwd=tmp_path)
    assert done.returncode == 2
    assert "nothing to compare" in done.stderr


def test_an_interval_without_0_that_is_not_significant_is_explained():
    line = line_of("control_per_delivery", [3.0, 3.2, 3.1, 2.9], [2.7, 3.0, 2.7, 2.6], Verdict.UNDETECTED)
    assert by_itself_words([line]) == ""
    alone = replace(line, by_itself=True)
    assert by_itself_words([alone]) == (
        "Not significant, although 0 is not in the interval: control per delivery. One of 1 may be chance."
    )
    hops = replace(line_of("hops_mean", [3.0, 3.2], [2.9, 3.0], Verdict.UNDETECTED), by_itself=True)
    assert by_itself_words([alone, hops, line]).startswith(
        "Not significant, although 0 is not in the interval: control per delivery and hops. One of 3 "
    )
