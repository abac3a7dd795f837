"""`hearsay.tune`, which does the same as the command. The runs are in the folder already, so no test needs Spark."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from known_best import HEAVIEST, RANGE, command, height, tune, write_problem

import hearsay
from hearsay.studies.tuning.tune_file import asked_tuning

SMALL = {"network.nodes": 20, "workload.messages": 2}
VARY = {"router.degree": range(4, 7), "router.degree_low": "2..3"}
AIM, BOUNDS = "copies_per_delivery", ("delivery_ratio>=0.99", "latency_p99_ms<=5000 worst")
NUMBERS = {"seeds": 3, "fresh_seeds": 2, "runs": 10}


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    folder = tmp_path_factory.mktemp("problem")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        path = write_problem(folder, module="hill_for_python")
        small = path.read_text().replace(RANGE, "values = [4, 5, 6, 7]", 1).replace(RANGE, "values = [2, 3, 4]", 1)
        path.write_text(small)
        yield path


@pytest.fixture(scope="module")
def found(problem):
    out = problem.parent / "out"
    tune(problem, out)
    return hearsay.tune(problem, out=out)


def test_an_answer_has_the_best_settings_and_their_metrics(problem, found):
    (answer,) = found.answers
    assert (answer.condition, answer.best) == (None, {"router.x": HEAVIEST, "router.y": 3})
    assert (found.made, found.failures) == (0, {})
    aim = answer["control_per_delivery"]
    assert (aim.verdict, aim.difference.mean_b) == ("better", pytest.approx(height(HEAVIEST, 3)))
    assert answer.words.startswith(f"router.x {HEAVIEST}, router.y 3: control per delivery 0.833")
    assert answer.as_good == []
    assert answer.unseen_seed == 36
    best, start = (hearsay.load_scenario(each).router.parameters for each in (answer.scenario, answer.start))
    assert ((best.x, best.y), (start.x, start.y)) == ((HEAVIEST, 3), (12, 12))


def test_tables_agree_with_the_answer(found):
    (answer,) = found.answers
    lines = {row["figure"]: row for row in found.table("answer")}
    assert set(lines) == {"control_per_delivery", "bytes_per_node", "delivery_ratio"}
    aim = lines["control_per_delivery"]
    assert (aim["router.x"], aim["router.y"], aim["seeds"], aim["verdict"]) == (HEAVIEST, 3, 3, "better")
    assert aim["difference"] == pytest.approx(height(HEAVIEST, 3) - height(12, 12))
    assert aim["difference_low"] <= aim["difference"] <= aim["difference_high"] < 0
    tried = found.table("tried").to_dicts()
    front = [row for row in found.table("front") if row["bounded"] == "bytes_per_node"]
    assert {row["point"] for row in front} == {row["point"] for row in tried}
    kept = [(row["bounded_mean"], row["aim_mean"]) for row in front if row["on_front"]]
    for row in front:
        better = any(load <= row["bounded_mean"] and aim < row["aim_mean"] for load, aim in kept)
        assert row["on_front"] == (row["eligible"] and not better), row
    shares = [row["share"] for row in found.table("importance") if row["figure"] == "control_per_delivery"]
    axes = answer.importance["control_per_delivery"]
    assert set(axes) == {"router.x", "router.y"}
    assert shares == [*axes.values(), pytest.approx(max(0.0, 1 - sum(axes.values())))]
    assert len(found.table("runs")) == sum(row["seeds"] for row in tried) + len(
        answer.answer.searched.tuning.fresh_seeds
    )
    with pytest.raises(KeyError, match="no table 'trials'; there are runs, points"):
        found.table("trials")


def test_text_and_json_equal_those_of_the_command(problem, found):
    said = command(problem, found.folder)
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith(f"{found}\n\nconfirm: ")
    document = json.loads(command(problem, found.folder, "--json").stdout)
    del document["report"]
    assert document == json.loads(json.dumps(found.to_json()))


def test_a_notebook_shows_a_table(found):
    shown = found._repr_html_()
    assert shown.startswith(f"<table><caption>{found.answers[0].words}</caption>")
    assert "control per delivery" in shown


@pytest.mark.thorough
def test_each_condition_has_an_answer_or_the_reason_for_none(problem):
    path, out = problem.with_name("conditions.toml"), problem.parent / "conditions"
    conditions = '\n[conditions]\nname = "messages"\nkey = "workload.messages"\nvalues = [2, 20]\n'
    path.write_text(problem.read_text() + conditions)
    tune(path, out)
    found = hearsay.tune(path, out=out)
    some, none = found.answers
    assert (some.condition, some.best) == ("2", {"router.x": HEAVIEST, "router.y": 3})
    assert (none.condition, none.best, none.scenario, none.figures, none.as_good) == ("20", None, None, (), [])
    assert none.words.startswith("messages 20: none of 12 points tried meets the bounds; the nearest is router.x 4")
    assert {row["condition"] for row in found.table("answer")} == {"2"}
    assert {row["condition"] for row in found.table("front")} == {"2", "20"}
    shown = found._repr_html_()
    assert shown.count("<table>") == 3
    assert f"<caption>messages 2: {some.words}</caption>" in shown
    assert f"<caption>{none.words}</caption>" in shown


def test_a_call_without_a_file_equals_the_command_with_options(tmp_path, monkeypatch):
    vary = [("router.degree", "[4, 5, 6]"), ("router.degree_low", "2..3")]
    settings = [(key, str(value)) for key, value in SMALL.items()]
    tuning, text = asked_tuning("r1", vary, AIM, BOUNDS, [], {**NUMBERS}, settings)
    monkeypatch.chdir(tmp_path)
    tune(tuning, tmp_path / "sweeps" / f"tune-{tuning.name}")
    found = hearsay.tune("r1", SMALL, vary=VARY, aim=AIM, bounds=BOUNDS, **NUMBERS)
    assert (found.made, found.folder.name) == (0, f"tune-{tuning.name}")
    assert (found.folder / "tune.toml").read_text() == text
    assert set(found.answers[0].best) == {"router.degree", "router.degree_low"}


def test_numbers_of_the_call_replace_those_of_the_file(problem, found):
    again = hearsay.tune(problem, out=found.folder, seeds=list(range(1, 9)), fresh_seeds=3, runs=130, engine="auto")
    assert again.made == 0
    tuning = again.tuned.tuning
    assert replace(tuning, base=found.tuned.tuning.base) == found.tuned.tuning


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"seeds": 1}, "hill.toml: seeds = 1: must be two seeds or more"),
        ({"seeds": [3, 3]}, "hill.toml: seeds = [3, 3]: must be 1…100000 different seeds"),
        ({"fresh_seeds": 1}, "hill.toml: fresh_seeds = 1: must be in 2…10000"),
        ({"runs": 3}, "hill.toml: runs = 3: must be in 10…1000000"),
        ({"engine": "fast"}, 'hill.toml: engine = "fast": must be one of auto, reference, array'),
        ({"aim": "latency_p99_ms"}, "aim needs vary; without it, write this into the tune file"),
        ({"bounds": "bytes_per_node<=1"}, "bounds needs vary; without it, write this into the tune file"),
        ({"overrides": {"network.nodes": 0}}, "overrides: network.nodes = 0: must be in 1…100000000"),
    ],
)
def test_mistakes_with_a_file(problem, tmp_path, wrong, said):
    with pytest.raises(hearsay.StudyError) as caught:
        hearsay.tune(problem, out=tmp_path / "out", **wrong)
    assert any(line.endswith(said) for line in caught.value.problems), caught.value.problems
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"aim": None}, "vary needs aim FIGURE, the metric to optimise"),
        ({"aim": "speed"}, 'the tuning: aim = "speed": must be one of delivery_ratio, latency_'),
        (
            {"bounds": "copies<6"},
            "bounds copies<6: write it as FIGURE<=NUMBER or FIGURE>=NUMBER, optionally with a judge",
        ),
        ({"bounds": "copies<=6"}, "the tuning: bounds.copies: must be one of delivery_ratio"),
        ({"bounds": [("copies_per_delivery", 6)]}, 'bounds: each must be text, such as "copies_per_delivery<=6"'),
        ({"bounds": {"copies_per_delivery": 6}}, 'bounds: each must be text, such as "copies_per_delivery<=6"'),
        ({"vary": ["router.degree=4..6"]}, 'vary: must be a mapping of keys to values, such as {"router.degree": "4'),
        ({"vary": {"router.degree": 4}}, 'vary router.degree: must be a list of values, or a range such as "4..6"'),
        ({"condition": "loss.rate=0"}, "condition: must be a mapping of keys to values"),
        ({"vary": {"router.degree": []}}, "vary router.degree=[]: write the values as an array, [1, 2], or as"),
        ({"vary": {"router.degree": [4, -4]}}, "router.degree = -4: must be in 0…"),
        ({"vary": {"router.depth": [4, 5]}}, "router.depth: unknown key"),
        ({"condition": {"loss.rate": [0], "loss.x": [0]}}, "condition: must be one key, not 2"),
        ({"condition": {"router.degree": [4]}}, "the tuning: conditions: router.degree is on an axis that is"),
        ({"seeds": 1}, "the tuning: seeds = 1: must be two seeds or more"),
        ({"what": "r2"}, "r2: no such file, and no such preset"),
    ],
)
def test_mistakes_without_a_file(tmp_path, wrong, said):
    asked = {"what": "r1", "vary": VARY, "aim": AIM, "bounds": BOUNDS, **wrong}
    with pytest.raises(hearsay.StudyError) as caught:
        hearsay.tune(out=tmp_path / "out", **asked)
    assert any(said in line for line in caught.value.problems), caught.value.problems
    assert not (tmp_path / "out").exists()


def test_a_misspelt_key_is_reported_once_and_not_for_each_value():
    with pytest.raises(hearsay.StudyError) as caught:
        hearsay.tune("r1", vary={"router.degre": [4, 6, 8]}, aim=AIM)
    assert caught.value.problems == ["the tuning: router.degre: unknown key, did you mean 'degree'?"]


def test_long_lists_of_values_are_not_cut_short():
    """The list as text is longer than the part of a value that a message shows."""
    many = [number / 100 for number in range(3, 60)]
    with pytest.raises(hearsay.StudyError) as caught:
        hearsay.tune("r1", vary={"loss.rate": [*many, 2]}, aim=AIM)
    (said,) = caught.value.problems
    assert said.endswith("loss.rate = 2: must be in 0…1")
