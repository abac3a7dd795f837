"""Budgets: which are held, which are broken and by how much, and mistakes in budget files."""

from __future__ import annotations

import pytest
from local_runs import run_locally
from small_study import hearsay

from hearsay.number_text import plain, relative
from hearsay.studies.budgets import BudgetTable, judged, judged_words, judgements, load_budgets
from hearsay.studies.checked_file import StudyError
from hearsay.studies.points import Point
from hearsay.studies.results import StudyFolder, values_at

BUDGETS = """
seeds = 3

[[cases]]
name = "small"
base = { preset = "r1", network.nodes = 20, workload.messages = 2 }
[cases.budgets]
latency_p99_ms = { at_most = 100 }
copies_per_delivery = { at_least = 1, at_most = 100 }
delivery_ratio = { at_least = 1, judge = "worst" }

[[cases]]
name = "nothing is sent"
base = { preset = "r1", network.nodes = 5, workload.messages = 0 }
[cases.budgets]
delivery_ratio = { at_least = 0.5 }
"""


def check(tmp_path, text: str = BUDGETS):
    """Execute the runs of a budget file; return the judgements, the points and the results."""
    path = tmp_path / "budget.toml"
    path.write_text(text)
    study, points, cases = load_budgets(path)
    results = run_locally(study, points)
    return judgements(cases, points, results), points, results


def test_a_broken_budget_is_named_with_its_excess(tmp_path):
    found, points, results = check(tmp_path)
    assert [each.held for each in found] == [False, True, True, False]
    slow = found[0]
    values = values_at(points[0], results, "latency_p99_ms")
    assert slow.value == pytest.approx(sum(values) / 3)
    assert slow.excess == pytest.approx(sum(values) / 3 - 100)
    words = judged_words(slow)
    assert words.startswith("broken: small: p99 latency is ")
    over = relative(slow.excess / 100, 3)
    assert f"{plain(over)} above the 100 ms allowed (mean of 3 seeds, 95 % interval " in plain(words)
    assert (
        plain(judged_words(found[2])) == "held: small: delivered is 100 %, allowed at least 100 % (worst of 3 seeds)"
    )
    assert judged_words(found[3]) == "broken: nothing is sent: delivered: not measured: no run has a value"


@pytest.mark.parametrize("bound", ["at_most", "at_least"])
def test_the_value_of_each_judge(bound):
    """The runs have 1…10 ms. The values are the mean, the end of its interval, the 90th percentile and the worst."""
    point = Point("p", (0,), tuple(range(1, 11)), "", (), 1.0)
    results = {point.run_name(seed): {"error": None, "latency_p99_ms": float(seed)} for seed in point.seeds}

    def value(judge: str) -> float | None:
        table = BudgetTable.model_validate({bound: 1, "judge": judge})
        return judged(table.budget("case", "latency_p99_ms"), point, results).value

    found = [value(judge) for judge in ("mean", "interval", "p90", "worst")]
    expected = [5.5, 5.5 + 2.2621571628 * (110 / 12 / 10) ** 0.5, 9, 10]
    assert found == pytest.approx(expected if bound == "at_most" else [11 - each for each in expected])


def test_failed_runs_break_all_budgets_of_their_case(tmp_path):
    other = BUDGETS.replace('preset = "r1"', 'router.kind = "other_router:OTHER"')
    found, *_ = check(tmp_path, other.replace("seeds = 3", 'engine = "array"\nseeds = 3'))
    assert not any(each.held for each in found)
    assert judged_words(found[0]) == "broken: small: p99 latency: 3 of its runs failed"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "at_most = 100 }",
            "at_mots = 100 }",
            "budget.toml:8: cases.0.budgets.latency_p99_ms.at_mots = 100: unknown key, did you mean 'at_most'?",
        ),
        ("{ at_most = 100 }", "{}", "budget.toml:8: cases.0.budgets.latency_p99_ms: needs at_least or at_most"),
        ("latency_p99_ms", "latency", "budget.toml:8: cases.0.budgets.latency: must be one of delivery_"),
        (
            '"worst" }',
            '"median" }',
            'cases.0.budgets.delivery_ratio.judge = "median": must be one of mean, interval, p90, worst',
        ),
        ("at_least = 1, at_most", "at_least = 101, at_most", "at_least = 101: must not be above at_most (100)"),
        ("nothing is sent", "small", 'budget.toml:13: cases.1.name = "small": another case has this name'),
        ('name = "small"\n', "", "budget.toml:4: cases.0.name: is required"),
        (
            "[cases.budgets]\ndelivery_ratio = { at_least = 0.5 }\n",
            "",
            "budget.toml:12: cases.1.budgets = {}: needs a metric, such as latency_p99_ms = { at_most = 500 }",
        ),
        ("nodes = 20", "nodes = 0", "budget.toml:6: network.nodes = 0: must be in 1…100000000"),
        (BUDGETS, "seeds = 3", "budget.toml: has no [[cases]]"),
    ],
)
def test_mistakes(tmp_path, old, new, said):
    path = tmp_path / "budget.toml"
    path.write_text(BUDGETS.replace(old, new, 1))
    with pytest.raises(StudyError) as caught:
        load_budgets(path)
    assert any(said in problem for problem in caught.value.problems), caught.value.problems


def test_all_mistakes_are_reported_at_once(tmp_path):
    path = tmp_path / "budget.toml"
    path.write_text(
        BUDGETS.replace("seeds = 3", "seeds = 0")
        .replace("{ at_most = 100 }", "{}")
        .replace("copies_per", "copies_pre")
        .replace("at_least = 0.5", 'at_least = "half"')
    )
    with pytest.raises(StudyError) as caught:
        load_budgets(path)
    assert [problem.rpartition("/")[2].partition(" delivery_ratio, ")[0] for problem in caught.value.problems] == [
        "budget.toml:2: seeds = 0: must be in 1…100000",
        "budget.toml:8: cases.0.budgets.latency_p99_ms: needs at_least or at_most",
        "budget.toml:9: cases.0.budgets.copies_pre_delivery: must be one of",
        'budget.toml:16: cases.1.budgets.delivery_ratio.at_least = "half": must be a number',
    ]


def test_the_command_exits_1_and_names_the_budget(tmp_path):
    """The runs are in the folder, so no Spark is needed."""
    _, _, results = check(tmp_path)
    StudyFolder.open(tmp_path / "out").add(results.values())
    path = tmp_path / "budget.toml"
    done = hearsay("check", path, "--out", tmp_path / "out")
    assert done.returncode == 1
    assert "2 of 4 budgets are broken" in done.stderr
    assert len([line for line in done.stdout.splitlines() if line.startswith("held: ")]) == 2
    path.write_text(BUDGETS[: BUDGETS.rindex("[[cases]]")].replace("at_most = 100 }", "at_most = 1000 }"))
    again = hearsay("check", path, "--out", tmp_path / "out")
    assert again.returncode == 0, again.stderr
