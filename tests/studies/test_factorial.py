"""Comparisons of several changed settings: warnings, the sides of a factorial, and its effects."""

from __future__ import annotations

import json
import re
import shlex
from math import isclose

import pytest
from local_runs import run_locally
from small_study import hearsay

from hearsay.metrics import shown_in, without_unknown
from hearsay.report.comparison_page import write_comparison_report
from hearsay.studies.comparison import ComparisonRequest, Verdict, compare
from hearsay.studies.factorial import (
    Effect,
    changed_words,
    effects,
    insignificant_words,
    planned,
    side_names,
    significant_effects,
)
from hearsay.studies.results import StudyFolder

TINY = ("network.nodes=40", "network.degree=12", "workload.messages=3", "warmup_s=3", "linger_s=2")
DEGREES = ("router.degree=10", "router.degree_low=9")
LOSSY = ("router.degree=4", "router.degree_low=3", "loss.rate=0.3")


def asked_for(*changes: str, seeds: int = 4, factorial: bool = True, **more) -> ComparisonRequest:
    return ComparisonRequest("r1", None, changes, TINY, seeds, factorial=factorial, **more)


def latency_effects(sides: list[list[float]]) -> dict[str, Effect]:
    """Return the effects on the p50 latency by name. `sides` has the latencies of each side, by seed."""
    changes = ("router.degree=8", "loss.rate=0.1", "links.jitter_ms=3")[: len(sides).bit_length() - 1]
    points = planned(asked_for(*changes, seeds=len(sides[0]))).points
    assert len(points) == len(sides)
    results = {
        point.run_name(seed): {"error": None, "latency_p50_ms": value}
        for point, values in zip(points, sides, strict=True)
        for seed, value in zip(point.seeds, values, strict=True)
    }
    lines = compare(points, results, ["latency_p50_ms"])
    return {effect.name: effect for effect in effects(points, results, lines)}


def test_two_settings_that_add_up_have_no_interaction():
    found = latency_effects([[100, 200, 300], [131, 231, 331], [60, 160, 260], [91, 191, 291]])
    changes = {name: effect.line.difference.estimate for name, effect in found.items()}
    assert changes == {
        "X alone": 31, "Y alone": -40, "X and Y": -9, "X on average": 31, "Y on average": -40, "X × Y": 0
    }  # fmt: skip
    assert found["X alone"].verdict == "worse"
    assert found["X × Y"].verdict == "the sum"


def test_what_settings_change_together_is_their_interaction():
    found = latency_effects([[100, 200, 300], [131, 232, 330], [100, 201, 300], [71, 170, 270]])
    assert isclose(found["X on average"].line.difference.estimate, (31 - 30) / 2, abs_tol=0.5)
    assert isclose(found["X × Y"].line.difference.estimate, -61, abs_tol=1)
    assert found["X × Y"].verdict == "better than sum"
    assert found["Y alone"].verdict == "not significant"


def test_intervals_without_0_that_are_not_significant_are_counted():
    found = list(latency_effects([[100, 200, 300], [108, 211, 314], [100, 201, 299], [108, 212, 313]]).values())
    without_0 = [each.name for each in found if each.line.difference.low > 0 and each.verdict == "not significant"]
    assert "X alone" in without_0
    words = (
        f"Not significant, although 0 is not in the interval: {len(without_0)} of {len(found)}, which may be chance."
    )
    assert insignificant_words(found).endswith(words)


def test_three_settings_have_eight_sides():
    base = [[100.0, 150.0]]
    singles, pairs, whole = [[110.0, 160.0]] * 3, [[120.0, 170.0]] * 3, [[150.0, 200.0]]
    found = latency_effects([*base, *singles, *pairs, *whole])
    assert side_names(8) == ["A", "X", "Y", "Z", "XY", "XZ", "YZ", "B"]
    assert {name: effect.line.difference.estimate for name, effect in found.items()} == {
        **dict.fromkeys(("X alone", "Y alone", "Z alone"), 10),
        **dict.fromkeys(("X and Y", "X and Z", "Y and Z"), 20),
        "X and Y and Z": 50,
        **dict.fromkeys(("X on average", "Y on average", "Z on average"), 15),
        **dict.fromkeys(("X × Y", "X × Z", "Y × Z"), 10),
        "X × Y × Z": 20,
    }


@pytest.fixture(scope="module")
def simulated():
    asked = asked_for("router.degree=10", "loss.rate=0.3", seeds=5)
    plan = planned(asked)
    return asked, plan, run_locally(plan.study, plan.points)


def test_simulated_effects_add_up(simulated):
    _, plan, results = simulated
    lines = compare(plan.points, results)
    by_metric = {}
    for effect in effects(plan.points, results, lines):
        by_metric.setdefault(effect.line.figure.name, {})[effect.name] = effect.line
    assert list(by_metric) == [line.figure.name for line in lines]
    for line in lines:
        found = {name: each.difference.estimate for name, each in by_metric[line.figure.name].items()}
        assert isclose(found["X alone"] + found["Y alone"] + found["X × Y"], found["X and Y"], abs_tol=1e-6)
        assert by_metric[line.figure.name]["X and Y"] is line
    copies = by_metric["copies_per_delivery"]
    assert copies["X alone"].verdict is Verdict.WORSE
    assert copies["Y alone"].verdict is Verdict.BETTER


def test_the_command_shows_the_effects(simulated, tmp_path):
    asked, _, results = simulated
    StudyFolder.open(tmp_path / "out").add(results.values())
    words = [*shlex.split(asked.command)[1:], "--out", tmp_path / "out"]
    done = hearsay(*words, variables={"COLUMNS": "80"})
    assert done.returncode == 0, done.stderr
    assert done.stderr == "sweep: 20 of 20 runs are there already\n"
    assert "\nX: router.degree=10\nY: loss.rate=0.3\n" in done.stdout
    table = done.stdout.split("Y: loss.rate=0.3\n\n")[1].split("\n\n")[0]
    assert max(map(len, table.splitlines())) <= 80
    assert re.search(r"^copies  +X alone .* worse$", table, re.MULTILINE)
    document = json.loads(hearsay(*words, "--json").stdout)
    assert document["changed"] == ["router.degree=10", "loss.rate=0.3"]
    kinds = [(each["effect"], len(each["settings"])) for each in document["factorial"][:6]]
    assert kinds == [("change", 1), ("change", 1), ("change", 2), ("main", 1), ("main", 1), ("interaction", 2)]
    assert document["factorial"][0]["low"] <= document["factorial"][0]["high"]
    expected = [metric.name for metric in without_unknown(shown_in("compared"), ())]
    assert [line["figure"] for line in document["figures"]] == expected


def test_the_page_has_a_chart_with_an_axis_for_each_metric(simulated, tmp_path):
    asked, plan, results = simulated
    lines = compare(plan.points, results)
    found = effects(plan.points, results, lines)
    write_comparison_report(lines, asked, plan.points, results, tmp_path / "report.html", plan.changed, found)
    section = (tmp_path / "report.html").read_text(encoding="utf-8").split('id="effects"')[1].split("</section>")[0]
    assert (
        section.count("change, % of A&#x27;s mean (of a share: points)</text>") == len(significant_effects(found)) > 0
    )
    assert section.count("<b>X × Y</b>") == len(significant_effects(found))


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--set", "router.degree=8"), "factorial: B changes 1 setting; must be 2 or 3"),
        (
            [word for each in (*LOSSY, "warmup_s=4") for word in ("--set", each)],
            "factorial: B changes 4 settings; must be 2 or 3",
        ),
        (
            ("--set", "router.degree=8", "--set", "loss.rate=0.1", "--unpaired"),
            "factorial and unpaired: give one; a factorial needs the same seeds on all sides",
        ),
        (
            ("--set", "router.degree=20", "--set", "router.degree_high=30"),
            "factorial: a setting without the others: "
            "--set router.degree=20: router.degree_high = 12 (preset r1): must not be below degree (20)",
        ),
    ],
)
def test_changes_without_a_factorial_are_refused_in_one_line(words, problem, tmp_path):
    done = hearsay("compare", "r1", *words, "--factorial", "--dry-run", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, f"hearsay: {problem}\n")


def test_several_changes_at_once_are_warned_of():
    def words(*changes: str, **more) -> str:
        asked = asked_for(*changes, factorial=False, **more)
        return changed_words(asked, planned(asked).changed)

    assert words("router.degree=8") == ""
    assert words("router.degree=8", "loss.rate=0.1") == (
        "B changes 2 settings (router.degree, loss.rate): the differences belong to all of them together. "
        "--factorial runs each alone, too."
    )
    assert words("router.degree=8", "router.degree_low=4") == "", "both sides have that value"
    assert not words(*LOSSY, "links.jitter_ms=3").endswith("alone, too.")
    assert not words("router.degree=8", "loss.rate=0.1", unpaired=True).endswith("alone, too.")


def test_a_second_scenario_changes_the_settings_that_differ(tmp_path):
    (tmp_path / "b.toml").write_text('preset = "r1"\n[router]\ndegree = 8\n[loss]\nrate = 0.1\n', encoding="utf-8")
    asked = ComparisonRequest("r1", str(tmp_path / "b.toml"), (), TINY, 2, factorial=True)
    plan = planned(asked)
    assert sorted(plan.changed) == ["loss.rate=0.1", "router.degree=8"]
    assert len(plan.points) == 4
    assert plan.points[-1].name == planned(asked_for("router.degree=8", "loss.rate=0.1", seeds=2)).points[-1].name
