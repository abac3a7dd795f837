"""Study files: the points of a study, and messages about mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_study import STUDY, write_study

from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.studies.checked_file import StudyError
from hearsay.studies.points import points_of
from hearsay.studies.study_file import load_study


def problems(tmp_path: Path, text: str) -> list[str]:
    """Return the messages about a study, without the folder's name."""
    with pytest.raises(StudyError) as caught:
        points_of(load_study(write_study(tmp_path, text)))
    return [line.replace(f"{tmp_path}/", "") for line in caught.value.problems]


def axis(tmp_path: Path, lines: str):
    return load_study(write_study(tmp_path, f"[[axes]]\n{lines}")).axes[0]


def test_axes_are_crossed_and_zipped(tmp_path):
    study = load_study(write_study(tmp_path))
    points = points_of(study)
    assert sum(len(point.run_names) for point in points) == 12
    assert [point.steps for point in points] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    path = tmp_path / "one.toml"
    path.write_text(points[2].scenario)
    scenario = load_scenario(path)
    assert (float(scenario.loss.rate), scenario.network.nodes) == (0.3, 30)
    parameters = scenario.router.parameters.to_mapping()
    assert (parameters["degree"], parameters["degree_low"]) == (2, 1)


def test_ranges(tmp_path):
    assert axis(tmp_path, 'key = "loss.rate"\nfrom = 0\nto = 0.3\nstep = 0.1').labels == ("0", "0.1", "0.2", "0.3")
    assert axis(tmp_path, 'key = "network.nodes"\nfrom = 10\nto = 20\ncount = 3').labels == ("10", "15", "20")
    nodes = axis(tmp_path, 'key = "network.nodes"\nfrom = 100\nto = 1000000\ncount = 5\nspacing = "log"')
    assert nodes.numbers == (100, 1000, 10_000, 100_000, 1_000_000)
    assert axis(tmp_path, 'key = "router.kind"\nvalues = ["floodsub", "episub"]').numbers is None


def test_any_key_of_a_scenario_is_an_axis(tmp_path):
    text = """
    seeds = [7, 11]
    [[axes]]
    key = "faults.crash"
    values = [[], [{ at_s = 6, share = 0.5 }]]
    [[axes]]
    key = "router"
    values = [{ kind = "floodsub" }, { kind = "gossipsub", preset = "v1.1", degree = 7 }]
    labels = ["flood", "gossip"]
    """
    study = load_study(write_study(tmp_path, text))
    points = points_of(study)
    assert study.seeds == (7, 11)
    assert ["share = 0.5" in point.scenario for point in points] == [False, False, True, True]
    assert ["degree = 7" in point.scenario for point in points] == [False, True, False, True]


def test_an_edited_study_keeps_the_runs_of_both_versions(tmp_path):
    before = {run for point in points_of(load_study(write_study(tmp_path))) for run in point.run_names}
    edited = STUDY.replace("seeds = 3", "seeds = [2, 3, 4]").replace("[0, 0.3]", "[0.3, 0.5]").replace("thin", "lean")
    after = {run for point in points_of(load_study(write_study(tmp_path, edited))) for run in point.run_names}
    assert len(before & after) == 2 * 2


def test_files_of_a_scenario_are_part_of_its_point_and_of_the_points_name(tmp_path):
    text = '[base]\nnetwork = { nodes = 3, topology = "edge_list", edges_file = "ring.txt" }'
    (tmp_path / "ring.txt").write_text("0 1\n1 2\n")
    (first,) = points_of(load_study(write_study(tmp_path, text)))
    (tmp_path / "ring.txt").write_text("0 1\n0 2\n")
    (second,) = points_of(load_study(write_study(tmp_path, text)))
    assert first.name != second.name
    assert [content for _, content in second.files] == ["0 1\n0 2\n"]
    assert str(tmp_path) not in second.scenario


def test_all_mistakes_are_reported_at_once_with_file_line_and_range(tmp_path):
    text = """title = 5
sead = 3
engine = "fast"
cores_per_task = 0

[base]
preset = "r2"
network.nodes = -3

[[axes]]
key = "loss.rate"
from = 0
to = 0
step = 0.1

[[axes]]
keys = ["router.degree", "router.degree_low"]
values = [[2, 1], [6]]
"""
    assert problems(tmp_path, text) == [
        "small.toml:1: title = 5: must be a string",
        "small.toml:2: sead = 3: unknown key, did you mean 'seeds'?",
        'small.toml:3: engine = "fast": must be one of auto, reference, array',
        "small.toml:4: cores_per_task = 0: must be in 1…1024",
        'small.toml:7: base.preset = "r2": must be one of churn-30, ethereum-blocks, filecoin, ipns, r1, simsub',
        "small.toml:13: axes.0.to = 0: must be above from (0)",
        "small.toml:18: axes.1.values.1 = [6]: must be an array of 2, one for each of keys",
    ]


def test_values_that_no_scenario_can_have_are_reported_with_their_line(tmp_path):
    text = """[base]
network.nodes = 0

[[axes]]
key = "loss.rate"
values = [
  0.1,
  1.5,
]
"""
    assert problems(tmp_path, text) == [
        "small.toml:2: network.nodes = 0: must be in 1…100000000",
        "small.toml:8: loss.rate = 1.5: must be in 0…1",
    ]
    assert problems(tmp_path, '[base]\nfile = "absent.toml"') == [
        'small.toml:2: base.file = "absent.toml": no such file'
    ]
    assert problems(tmp_path, '[base]\npreset = "r2"') == [
        'small.toml:2: base.preset = "r2": must be one of churn-30, ethereum-blocks, filecoin, ipns, r1, simsub'
    ]
    assert problems(tmp_path, "title =") == ["small.toml:1: Invalid value"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("seeds = 0", "small.toml:1: seeds = 0: must be in 1…100000"),
        ("seeds = [true, 1]", "small.toml:1: seeds.0 = true: must be an integer in 0…9223372036854775807"),
        ('seeds = "three"', 'small.toml:1: seeds = "three": must be an integer in 1…100000, or an array of seeds'),
        ("seeds = [1, 1]", "small.toml:1: seeds = [1, 1]: must be 1…100000 different seeds"),
        ("seeds = [1.5]", "small.toml:1: seeds.0 = 1.5: must be an integer in 0…9223372036854775807"),
        ('[[axes]]\nvalues = [1]', "small.toml:1: axes.0: needs either key or keys"),
        ('[[axes]]\nkey = "seed"\nvalues = [1]',
         'small.toml:2: axes.0.key = "seed": must name a key of a scenario, such as network.nodes '
         "(seeds are not an axis)"),
        ('[[axes]]\nkeys = []\nvalues = [1]', "small.toml:2: axes.0.keys = []: must name keys of a scenario"),
        ('[[axes]]\nkeys = ["router.degree", "router.degree_low"]\nfrom = 0\nto = 4\ncount = 3',
         'small.toml:2: axes.0.keys = ["router.degree", "router.degree_low"]: a range needs a single key; give '
         "values, an array for each step"),
        ('[[axes]]\nkey = "loss.rate"\nvalues = [0.1]\nfrom = 0',
         "small.toml:4: axes.0.from = 0: not together with values"),
        ('[[axes]]\nkey = "loss.rate"\nvalues = []', "small.toml:1: axes.0: must have 1…10000 values, has 0"),
        ('[[axes]]\nkey = "loss.rate"\nvalues = [0.1, 0.1]',
         "small.toml:1: axes.0: two steps have the same label; give labels that differ"),
        ('[[axes]]\nkey = "loss.rate"\nvalues = [0.1]\nlabels = ["a", "b"]',
         'small.toml:4: axes.0.labels = ["a", "b"]: must have 1 elements, one for each value'),
        ('[[axes]]\nkey = "loss.rate"',
         "small.toml:1: axes.0: needs values, or from, to and either step or count"),
        ('[[axes]]\nkey = "loss.rate"\nfrom = 0\nto = 1\ncount = 3\nspacing = "log"',
         'small.toml:6: axes.0.spacing = "log": needs from above 0, and count'),
        ('[[axes]]\nkey = "loss.rate"\nvalues = [0.1]\n[[axes]]\nkey = "loss.rate"\nvalues = [0.2]',
         "small.toml:4: axes.1: loss.rate occurs twice (first on axis loss.rate)"),
        ("axes = 3", "small.toml:1: axes = 3: must be an array"),
        ("axes = [3]", "small.toml:1: axes.0 = 3: must be a table"),
        ("cores_per_task = 1.5", "small.toml:1: cores_per_task = 1.5: must be an integer in 1…1024"),
    ],
)  # fmt: skip
def test_mistakes(tmp_path, text, said):
    assert said in problems(tmp_path, text)


def test_an_axis_can_be_given_other_values(tmp_path):
    study = load_study(write_study(tmp_path))
    assert study.with_values("loss.rate", "[0.5]").axes[0].labels == ("0.5",)
    with pytest.raises(StudyError, match=r"no axis has this key alone; axes with one key: loss\.rate"):
        study.with_values("router.degree", "[4]")
    with pytest.raises(StudyError, match="write the values as an array"):
        study.with_values("loss.rate", "0.5")
