"""Tuning finds the known best of a problem, also after interruptions, and reports bounds that no point meets."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from commands import hearsay
from known_best import BOUND, HEAVIEST, RANGE, TUNING, KeptProcesses, command, height, output_files, write_problem
from known_best import tune as tune_in

from hearsay.number_text import plain
from hearsay.studies.budgets import judgements, load_budgets
from hearsay.studies.checked_file import StudyError
from hearsay.studies.points import Point
from hearsay.studies.runner import Progress
from hearsay.studies.tuning.optimiser import Ended, end_reason, rungs
from hearsay.studies.tuning.output import none_words, start_words
from hearsay.studies.tuning.space import MOST_LISTED, spaces
from hearsay.studies.tuning.tune import Tuned, answer_of, most_runs, tried_table
from hearsay.studies.tuning.tune_file import load_tuning

PROCESSES = KeptProcesses()


def tune(path: Path, out: Path, listen: Callable[[Progress], None] = lambda _: None, *, again: bool = False) -> Tuned:
    """Tune in processes that all tests of this file share."""
    return tune_in(path, out, listen, again=again, place=PROCESSES.open)


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    folder = tmp_path_factory.mktemp("problem")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield write_problem(folder)
    PROCESSES.close()


@pytest.fixture(scope="module")
def once(problem):
    return problem.parent / "out", tune(problem, problem.parent / "out")


def test_the_known_best_is_found(once):
    _, done = once
    (found,) = done.searches
    assert found.best is not None
    assert found.best.steps == (HEAVIEST, 3)
    assert found.runs <= done.tuning.runs
    assert done.made <= most_runs(spaces(done.tuning))
    answer = answer_of(found)
    assert answer.as_good == []
    aim, bounded, _ = answer.means()
    assert (aim.mean, aim.seeds) == (pytest.approx(height(HEAVIEST, 3)), 3)
    assert bounded.mean <= BOUND
    assert answer.lines[0].difference is not None
    assert answer.lines[0].difference.mean_a == pytest.approx(height(12, 12))


def test_only_valid_combinations_are_tried_and_each_once(once):
    _, done = once
    steps = [each.steps for each in done.searches[0].tried]
    assert all(y <= x for x, y in steps)
    assert len(set(steps)) == len(steps)


def test_points_that_cannot_win_get_few_seeds(once):
    """A point's metrics are the same on all seeds, so few seeds are enough to distinguish points."""
    _, done = once
    first = rungs(len(done.tuning.seeds))[0]
    (found,) = done.searches
    leader = None
    for each in found.tried:
        x, y = each.steps
        if x > HEAVIEST and each.ended is not Ended.OUT_OF_RUNS:
            assert (each.ended, len(each.point.seeds)) == (Ended.BREAKS, first)
            assert each.broken is not None
            assert each.broken.figure.name == "bytes_per_node"
        elif each.ended is Ended.BEATEN:
            assert len(each.point.seeds) < len(done.tuning.seeds)
        elif each.ended is Ended.FINISHED:
            assert leader is None or height(x, y) <= leader
            leader = height(x, y)


@pytest.mark.thorough
def test_a_tuning_that_is_stopped_several_times_has_the_same_answer(problem, once, tmp_path):
    out = tmp_path / "out"
    for stop_after in (1, 10, 45):

        def stop(progress, least=stop_after) -> None:
            if progress.done >= least:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            tune(problem, out, stop)
    done = tune(problem, out)
    assert 0 < done.made < once[1].made
    assert output_files(out) == output_files(once[0])
    assert tune(problem, out).made == 0
    assert output_files(out) == output_files(once[0])


def test_the_budgets_of_the_answer_hold(once):
    out, done = once
    study, points, cases = load_budgets(out / "answer" / "budgets.toml")
    assert study.seeds == done.tuning.fresh_seeds
    assert not set(study.seeds) & set(done.tuning.seeds)
    assert {point.name for point in points} == {done.searches[0].best.point.name}
    found = judgements(cases, points, done.results)
    assert [each.budget.figure.name for each in found] == [
        "control_per_delivery", "bytes_per_node", "delivery_ratio",
    ]  # fmt: skip
    assert all(each.held for each in found)


def test_each_condition_has_its_own_best(problem, tmp_path):
    """With one message instead of two, nodes may send twice the load within the bound."""
    conditions = '\n[conditions]\nname = "messages"\nkey = "workload.messages"\nvalues = [2, 1]\n'
    path = problem.with_name("conditions.toml")
    text = problem.read_text().replace(RANGE, "values = [5, 6, 7]", 1).replace(RANGE, "values = [3, 4]", 1)
    path.write_text(text + conditions)
    done = tune(path, tmp_path / "out")
    assert [found.label for found in done.searches] == ["2", "1"]
    assert [found.best and found.best.steps for found in done.searches] == [(0, 0), (2, 0)]
    assert done.searches[1].tried[0].steps == (0, 0)
    assert sorted(file.name for file in (tmp_path / "out" / "answer").iterdir()) == [
        "best-1.toml", "best-2.toml", "budgets.toml", "start-1.toml", "start-2.toml",
    ]  # fmt: skip
    table = tried_table(done.tuning, done.searches).to_pylist()
    assert [row["workload.messages"] for row in table if row["best"]] == [2, 1]


def test_a_point_that_fails_is_no_answer_and_stops_no_other(problem, tmp_path):
    path = problem.with_name("failing.toml")
    text = problem.read_text().replace(RANGE, "values = [13, 5]", 1).replace(RANGE, "values = [3, 4]", 1)
    path.write_text(text)
    done = tune(path, tmp_path / "out")
    ended = {each.steps[0]: each.ended for each in done.searches[0].tried}
    assert (ended[0], set(ended)) == (Ended.FAILED, {0, 1})
    assert done.searches[0].best.steps == (1, 0)
    assert done.failures
    assert all(" s: RuntimeError: thirteen (hill_router.py:" in row["error"] for row in done.failures)
    assert tune(path, tmp_path / "out").made == 0
    assert tune(path, tmp_path / "out", again=True).made == len(done.failures)


def test_failed_runs_of_the_base_on_fresh_seeds_are_failures(problem, tmp_path):
    path = problem.with_name("failing_base.toml")
    text = problem.read_text().replace(RANGE, "values = [5, 6]", 1).replace(RANGE, "values = [3, 4]", 1)
    path.write_text(text.replace("router.degree = 5", "router.degree = 5\nrouter.x = 13"))
    done = tune(path, tmp_path / "out")
    (searched,) = done.searches
    assert searched.confirmed is not None
    assert {row["run"] for row in done.failures} == {*searched.start.run_names, *searched.confirmed[0].run_names}


@pytest.mark.thorough
def test_bounds_that_no_point_meets_are_reported_in_one_line(problem, tmp_path):
    path = problem.with_name("hopeless.toml")
    text = problem.read_text().replace(f"at_most = {BOUND}", "at_most = 10").replace("runs = 130", "runs = 30")
    path.write_text(text)
    done = tune(path, tmp_path / "out")
    assert done.searches[0].best is None
    words = plain(none_words(done.searches[0]))
    assert words.startswith("none of 10 points tried meets the bounds; the nearest is router.x ")
    assert words.endswith(", allowed at most 10 B")
    assert not (tmp_path / "out" / "answer").exists()
    said = command(path, tmp_path / "out")
    assert (said.returncode, said.stderr.splitlines()[-1]) == (1, f"hearsay: {words}")


def test_the_command_says_what_to_set_and_how_to_confirm_it(problem, once):
    """The runs are in the folder, so no Spark is needed."""
    out, _ = once
    said = command(problem, out)
    assert said.returncode == 0, said.stderr
    assert f"best: router.x {HEAVIEST}, router.y 3: control per delivery 0.833" in said.stdout
    assert f"compare {out}/answer/start.toml {out}/answer/best.toml --seeds 3 --first-seed 36" in said.stdout
    assert f"hearsay check {out}/answer/budgets.toml" in said.stdout
    page = (out / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"https?://|<script|<img|<link", page)
    assert "Least control per delivery with sent per node at most 20" in page
    assert page.index("<svg") < page.index('class="card verdict"')
    points = page.split('id="points"')[1].split("</section>")[0]
    assert points.count("<tr>") == 1 + len(once[1].searches[0].tried)
    for name in ("fronts", "search"):
        picture = ElementTree.parse(out / "pictures" / f"{name}.svg")
        assert len(picture.findall(".//{*}path[@class]")) > len(once[1].searches[0].tried)


@pytest.mark.parametrize(
    ("base", "said"),
    [
        (
            "router.x = 12",
            "as it is it breaks bounds, which the best keeps: sent per node 42.2 kB, allowed at most 20 kB",
        ),
        ("router.x = 5\nrouter.y = 3", "as it is it keeps the bounds and does better than the best of what"),
        ("router.x = 4\nrouter.y = 2", "as it is it keeps the bounds and does as well as the best"),
        ("router.x = 3\nrouter.y = 3", ""),
    ],
)
def test_the_base_is_compared_with_the_best(problem, tmp_path, base, said):
    path = problem.with_name(f"base-{tmp_path.name}.toml")
    start = problem.read_text().replace("router.degree = 5", base, 1)
    path.write_text(start.replace(RANGE, "values = [3, 4]", 1).replace(RANGE, "values = [1, 2]", 1))
    (found,) = tune(path, tmp_path / "out").searches
    words = plain(start_words(answer_of(found)))
    assert words.startswith(said)
    assert bool(words) == bool(said)


def test_a_plan_counts_no_more_runs_than_the_combinations_can_have(tmp_path):
    """Runs of the base, of races, of finals with up to four times the seeds, and of four points with fresh seeds:
    3 + 3·3 + 3·9 + 4·2.
    """
    asked = ("--vary", "router.degree=4..6", "--aim", "latency_p99_ms", "--seeds", "3", "--fresh-seeds", "2")
    ended = hearsay("tune", "r1", *asked, "--dry-run", cwd=tmp_path)
    assert (ended.returncode, list(tmp_path.iterdir())) == (0, [])
    assert "3 combinations, 3 of them scenarios\nat most 47 runs, about " in ended.stdout
    wide = (*asked, "--vary", "router.history_length=5..104")
    assert "at most 456 runs, about " in hearsay("tune", "r1", *wide, "--dry-run", cwd=tmp_path).stdout


def test_a_preset_without_axes_is_reported(tmp_path):
    ended = hearsay("tune", "r1", cwd=tmp_path)
    assert (ended.returncode, list(tmp_path.iterdir())) == (2, [])
    assert "r1: is a preset; add what to search: --vary SECTION.KEY=VALUES and --aim FIGURE" in ended.stderr


@pytest.mark.parametrize("values", ["6..4", "4..4", "4..6..0", "4..6..-1"])
def test_a_range_that_does_not_ascend_is_reported_with_its_option(tmp_path, values):
    ended = hearsay("tune", "r1", "--vary", f"router.degree={values}", "--aim", "latency_p99_ms", cwd=tmp_path)
    said = f"hearsay: --vary router.degree={values}: write a range in ascending order, such as 4..12 or 0..1..0.1\n"
    assert (ended.returncode, ended.stderr) == (2, said)


def test_many_combinations_are_not_listed_before_the_search(problem, tmp_path):
    third = "\n[[axes]]\nkey = 'router.degree'\nfrom = 3\nto = 25\nstep = 1\n"
    path = problem.with_name("many.toml")
    path.write_text(problem.read_text().replace("runs = 130", "runs = 60") + third)
    tuning = load_tuning(path)
    assert tuning.combinations > MOST_LISTED
    assert spaces(tuning)[0].listed is None
    done = tune(path, tmp_path / "out")
    assert len(done.searches[0].tried) >= 10
    assert all(y <= x for x, y, _ in (each.steps for each in done.searches[0].tried))


def test_a_step_that_draws_find_in_no_valid_combination_is_tried_with_the_first_steps(tmp_path):
    """A degree_low of 1,001 needs a degree of 1,001, which is the first of 1,001 steps."""
    path = tmp_path / "rare.toml"
    path.write_text(
        'aim = "latency_p99_ms"\nseeds = 2\n[base]\npreset = "r1"\nrouter.degree_high = 1001\n'
        f"[[axes]]\nkey = 'router.degree'\nvalues = {list(range(1001, 0, -1))}\n"
        "[[axes]]\nkey = 'router.degree_low'\nvalues = [1, 1001]\n"
    )
    (space,) = spaces(load_tuning(path))
    assert space.listed is None
    assert space.examples[-1].steps == (0, 1)


def test_the_search_ends_when_all_combinations_are_tried(problem, tmp_path):
    path = problem.with_name("small.toml")
    small = "values = [4, 6]"
    text = problem.read_text().replace(RANGE, small)
    path.write_text(text)
    done = tune(path, tmp_path / "out")
    assert sorted(each.steps for each in done.searches[0].tried) == [(0, 0), (1, 0), (1, 1)]
    assert done.searches[0].best.steps == (0, 0)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("control_per_delivery", "control", 'hill.toml:2: aim = "control": must be one of delivery_ratio, latency_'),
        ('aim = "control_per_delivery"', "", "hill.toml: aim: is required"),
        ("aim =", "aims =", "hill.toml:2: aims = \"control_per_delivery\": unknown key, did you mean 'aim'?"),
        (
            "seeds = 8",
            "seeds = 1",
            "hill.toml:3: seeds = 1: must be two seeds or more",
        ),
        ("fresh_seeds = 3", "fresh_seeds = 1", "hill.toml:4: fresh_seeds = 1: must be in 2…10000"),
        ("runs = 130", "runs = 9", "hill.toml:5: runs = 9: must be in 10…1000000"),
        ("bytes_per_node", "bytes", "hill.toml:15: bounds.bytes: must be one of delivery_ratio"),
        (f"at_most = {BOUND}", "", "hill.toml:15: bounds.bytes_per_node: needs at_least or at_most"),
        ('"worst"', '"best"', 'bounds.delivery_ratio.judge = "best": must be one of mean, interval, p90, worst'),
        ("router.y", "router.x", "axes.1: router.x occurs twice (first on axis router.x)"),
        ("router.y", "router.z", "hill.toml:24: router.z: unknown key"),
        ("from = 0", "from = -1", "hill.toml:18: router.x = -1: must be in 0…20"),
        ("to = 12", "to = 0", "hill.toml:21: axes.0.to = 0: must be above from (0)"),
        ("router.degree = 5", "router.degree = -5", "hill.toml:9: router.degree = -5: must be in 0…"),
        ("[bounds]", "[bounds", "hill.toml:14: "),
        (TUNING[TUNING.index("[[axes]]") :], "", "hill.toml: needs [[axes]]: keys whose values are searched"),
    ],
)
def test_mistakes(problem, tmp_path, old, new, said):
    path = tmp_path / "hill.toml"
    assert old in problem.read_text()
    path.write_text(problem.read_text().replace(old, new, 1))
    with pytest.raises(StudyError) as caught:
        spaces(load_tuning(path))
    assert any(said in problem for problem in caught.value.problems), caught.value.problems


def test_a_step_that_is_in_no_valid_combination_is_reported_with_its_place(problem, tmp_path):
    path = tmp_path / "hill.toml"
    text = problem.read_text().replace(RANGE, "values = [2, 4]", 1)
    path.write_text(text.replace("to = 12", "to = 6"))
    with pytest.raises(StudyError) as caught:
        spaces(load_tuning(path))
    assert [problem_line.rpartition("/")[2] for problem_line in caught.value.problems] == [
        "hill.toml:22: router.y = 5: must not be above x (2)",
        "hill.toml:22: router.y = 6: must not be above x (2)",
    ]


def test_seeds_of_the_rounds_of_a_race():
    assert [rungs(seeds) for seeds in (2, 3, 5, 12, 20, 100)] == [
        [2], [3], [3, 5], [3, 6, 12], [5, 10, 20], [25, 50, 100],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("seeds", "outside", "ended"), [(12, 1, False), (12, 2, True), (24, 4, False), (24, 5, True)]
)
def test_a_p90_bound_allows_a_tenth_of_all_seeds_of_a_stage(tmp_path, seeds, outside, ended):
    """A point may have 12 seeds in the races, and 48 in the finals."""
    path = tmp_path / "tune.toml"
    path.write_text(
        'aim = "latency_p99_ms"\nseeds = 12\nfinal_seeds = 48\n[base]\npreset = "r1"\n'
        '[bounds]\ncopies_per_delivery = { at_most = 6, judge = "p90" }\n[[axes]]\n'
        'key = "router.degree"\nvalues = [5, 6]\n'
    )
    point = Point("one", (0,), tuple(range(seeds)), "", (), 1.0)
    results = {
        name: {"error": None, "latency_p99_ms": 300.0, "copies_per_delivery": 7.0 if number < outside else 5.0}
        for number, name in enumerate(point.run_names)
    }
    assert (end_reason(load_tuning(path), point, results) is not None) == ended
