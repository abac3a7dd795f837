"""Reading of files with score parameters; each mistake is an error of one line with its place."""

from __future__ import annotations

import pytest
from clean_set import CLEAN

from hearsay.score_check.check import check_subject, check_text
from hearsay.score_check.offences import Verdict
from hearsay.score_check.subjects import read_subject
from hearsay.sim.scenario.reading import ScenarioError

SCENARIO = """
preset = "r1"

[network]
nodes = 20

[links]
latency = "constant"
value_ms = 30

[workload]
interval_s = 0.5

[[topics]]
name = "blocks"
weight = 3

[[topics]]
name = "votes"
count = 4
weight = 1

[[topics]]
name = "news"
weight = 0

[router]
preset = "hardening"
"""


def read(folder, text):
    path = folder / "file.toml"
    path.write_text(text, encoding="utf-8")
    return read_subject(path)


def problems(folder, text):
    with pytest.raises(ScenarioError) as caught:
        read(folder, text)
    return [each.replace(f"{folder}/", "") for each in caught.value.problems]


def test_a_scenario_says_its_router_its_topics_and_its_links(tmp_path):
    subject = read(tmp_path, SCENARIO)
    rates = {group.name: (group.count, group.messages_per_s) for group in subject.topics}
    assert rates == {
        "blocks": (1, pytest.approx(3 / 7 * 2)),
        "votes": (4, pytest.approx(1 / 7 * 2)),
        "news": (1, 0),
    }
    expected = subject.expected
    assert (expected.degree, expected.round_trip_ms) == (8, 60)
    assert (expected.prune_backoff_ms, expected.opportunistic_graft_ticks) == (60_000, 60)
    assert all(group.parameters is subject.score.topics["any"] for group in subject.topics)


OTHER_POPULATIONS = """
[[population]]
share = 0.75
router = { preset = "rust" }
[[population]]
listed = [3, 4, 5, 6, 7]
router = { kind = "floodsub" }
"""


def test_populations_with_other_routers_are_named(tmp_path):
    found = check_subject(read(tmp_path, SCENARIO + OTHER_POPULATIONS.replace(", 7]", "]")))
    assert (
        "file.toml: not looked at: population.0 (rust, a share of 0.75), population.1 (floodsub, 4 nodes)\n"
        in check_text(found)
    )
    report = found.to_json()
    assert report["not_looked_at"] == [
        {"place": "population.0", "router": "rust", "share": 0.75, "nodes": None},
        {"place": "population.1", "router": "floodsub", "share": None, "nodes": 4},
    ]
    assert report["router_is_run"] is True


def test_a_router_that_no_node_runs_is_reported(tmp_path):
    found = check_subject(read(tmp_path, SCENARIO + OTHER_POPULATIONS))
    assert "file.toml: no node runs [router]" in check_text(found)
    assert found.to_json()["router_is_run"] is False


def test_a_population_with_the_same_router_is_looked_at(tmp_path):
    same = '[[population]]\nshare = 1\nrouter = { preset = "hardening" }\n'
    report = check_subject(read(tmp_path, SCENARIO + same)).to_json()
    assert (report["not_looked_at"], report["router_is_run"]) == ([], True)


def test_a_topic_without_traffic_prunes_its_members(tmp_path):
    found = check_subject(read(tmp_path, SCENARIO)).findings
    idle = [each.topic for each in found if each.check in ("idle-prunes", "idle-costs")]
    assert idle == ["news"]


def test_the_line_of_a_parameter_of_a_scenario_is_reported(tmp_path):
    text = SCENARIO + "[router.score.thresholds]\ngraylist = -5000\n"
    report = next(each for each in check_subject(read(tmp_path, text)).findings if each.check == "thresholds-equal")
    assert (report.place, text.splitlines()[report.line - 1]) == (
        "router.score.thresholds.graylist",
        "graylist = -5000",
    )


def test_a_named_topic_of_a_group_stands_by_itself(tmp_path):
    text = SCENARIO.replace('preset = "hardening"', 'preset = "go"') + (
        "[router.score]\ndecay_interval_ms = 1000\ndecay_to_zero = 0.01\n"
        '[[router.score.topics]]\ntopic = "votes-2"\n'
        "time_in_mesh_quantum_ms = 1000\ninvalid_messages_decay = 0.9\n"
    )
    verdicts = [
        (each.group.name, each.group.count, each.verdict) for each in check_subject(read(tmp_path, text)).silences
    ]
    assert verdicts == [
        ("blocks", 1, Verdict.UNSCORED),
        ("votes", 3, Verdict.UNSCORED),
        ("votes-2", 1, Verdict.NOT_EXPECTED),
        ("news", 1, Verdict.UNSCORED),
    ]


def test_tables_of_a_preset_are_for_topics_that_may_be_there(tmp_path):
    """Rules: SET-1."""
    text = '[router]\npreset = "ethereum"\n[[topics]]\nname = "/eth2/6a95a1a9/beacon_block/ssz_snappy"\n'
    found = check_subject(read(tmp_path, text))
    assert [(each.group.name[-10:], each.verdict) for each in found.silences] == [("ssz_snappy", Verdict.OUTWEIGHED)]
    assert "topic-not-there" not in {each.check for each in found.findings}


def test_without_expectations_every_table_is_a_topic(tmp_path):
    start = CLEAN.index("[score]")
    subject = read(tmp_path, CLEAN[start:])
    assert [(group.name, group.messages_per_s) for group in subject.topics] == [("blocks", None), ("votes", None)]
    assert (subject.expected.degree, subject.expected.round_trip_ms) == (6, 0)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("degree = 8", "degree = 0", "file.toml:3: expect.degree = 0: must be in 1…10000"),
        (
            "degree = 8",
            "degre = 8",
            "file.toml:3: expect.degre = 8: is not a parameter of expect; did you mean degree?",
        ),
        (
            "messages_per_s = 20",
            "messages_per_s = -1",
            "file.toml:12: expect.topics.1.messages_per_s = -1: must be in 0…1000000000",
        ),
        ('topic = "votes"\nmess', "mess", "file.toml:10: expect.topics.1.topic: must be the name of a topic"),
        (
            'topic = "votes"\nmess',
            'topic = "blocks"\nmess',
            '.1.topic = "blocks": is the topic of another table',
        ),
        ("topic_cap = 20", 'topic_cap = "20"', 'file.toml:19: score.topic_cap = "20": must be a number'),
        ("gossip = -50", "gossip = -150", "score.thresholds.publish = -100: must not be above gossip (-150)"),
        (
            "mesh_deliveries_threshold = 1.5",
            "mesh_deliveries_threshold = 0",
            "score.topics.0.mesh_deliveries_threshold = 0: must be above 0 when there is a mesh_deliveries_weight",
        ),
        ("[score]", "[more]\na = 1\n[score]", "file.toml:15: more: is not allowed in a file with [score]"),
        ("[score.thresholds]", "[score.thresholds", "file.toml:26: Expected ']' at the end of a table declaration"),
    ],
)
def test_a_mistake_is_a_line_with_its_place(tmp_path, old, new, line):
    text = CLEAN.replace(old, new, 1)
    assert text != CLEAN
    found = problems(tmp_path, text)
    assert len(found) == 1
    assert line in found[0]


def test_mistakes_are_listed_in_the_order_of_the_file(tmp_path):
    text = CLEAN.replace("degree = 8", "degree = 0").replace("topic_cap = 20", "topic_cap = -1")
    assert [each.partition(" =")[0] for each in problems(tmp_path, text)] == [
        "file.toml:3: expect.degree",
        "file.toml:19: score.topic_cap",
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[expect]\ndegree = 8\n", "file.toml: has [expect] but no [score]"),
        ("score = 3\n", "file.toml:1: score = 3: must be a table"),
        ("[score]\nexpect = 1\n", "expect = 1: is not a parameter of the score"),
        ("expect = 1\n[score]\n", "file.toml:1: expect = 1: must be a table"),
        ("[network]\nnodes = 5\n", "file.toml: its router keeps no scores; scores need gossipsub"),
        ("[network]\nnodes = -5\n", "file.toml:2: network.nodes = -5: must be in 1"),
        ("[expect]\ntopics = [3]\n[score]\n", "expect.topics.0 = 3: must be a table"),
        ("[score]\ntopics = 3\n", "score.topics.0 = 3: must be a table"),
    ],
)
def test_what_is_no_file_of_scores_is_reported(tmp_path, text, line):
    assert any(line in each for each in problems(tmp_path, text)), problems(tmp_path, text)
