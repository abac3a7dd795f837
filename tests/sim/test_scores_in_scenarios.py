"""Scores in scenarios: changed values of a preset, tables for topics, and mistakes."""

from __future__ import annotations

import pytest

from hearsay.sim.scenario.reading import ScenarioError
from hearsay.sim.scenario.scenario_file import dump_scenario, load_scenario

HARDENING = ("router.preset", "hardening")
SCORE = """
[router]
preset = "rust"
[[router.score.topics]]
topic = "{topic}"
validation = "selective"
topic_weight = {weight}
"""


def refused(overrides=(), path=None, preset=None):
    with pytest.raises(ScenarioError) as refusal:
        load_scenario(path, preset, overrides)
    return refusal.value.problems


def test_one_value_of_a_presets_table_is_changed():
    """The order of the preset and the value does not matter."""
    change = ("router.score.topics.0.topic_weight", "7")
    plain = load_scenario(None, "r1", [HARDENING]).router.parameters.score
    for overrides in ([HARDENING, change], [change, HARDENING]):
        changed = load_scenario(None, "r1", overrides).router.parameters.score
        assert changed.topics["any"].topic_weight == 7
        assert changed.topics["any"].invalid_messages_weight == plain.topics["any"].invalid_messages_weight
        assert (changed.peer, changed.thresholds) == (plain.peer, plain.thresholds)


def test_one_value_of_a_populations_table_is_changed(tmp_path):
    file = tmp_path / "mixed.toml"
    file.write_text('[[population]]\nshare = 0.5\nrouter = { preset = "hardening" }\n', encoding="utf-8")
    made = load_scenario(file, None, [("population.0.router.score.topics.0.topic_weight", "3")])
    assert made.population[0].router.parameters.score.topics["any"].topic_weight == 3


def test_a_value_out_of_range_is_the_only_mistake():
    """Parameters that need a score are not reported as mistakes, because the preset has one."""
    label = "--set router.score.topics.0.topic_weight=-1"
    changes = [HARDENING, ("router.opportunistic_graft_ticks", "60"), ("router.score.topics.0.topic_weight", "-1")]
    assert refused(changes, preset="r1") == [f"{label}: must be in 0…1000000000"]


def test_mistakes_in_a_file_have_the_lines_of_their_tables(tmp_path):
    file = tmp_path / "scores.toml"
    file.write_text(SCORE.format(topic="topic", weight=-1), encoding="utf-8")
    assert refused(path=file) == [f"{file}:7: router.score.topics.0.topic_weight = -1: must be in 0…1000000000"]


@pytest.mark.parametrize(
    ("topic", "found"),
    [("topic", True), ("any", True), ("topik", False), ("t", False)],
)
def test_a_table_must_name_a_topic_of_the_scenario(tmp_path, topic, found):
    file = tmp_path / "scores.toml"
    file.write_text(SCORE.format(topic=topic, weight=1), encoding="utf-8")
    if found:
        assert topic in load_scenario(file).router.parameters.score.topics
    else:
        hint = ", did you mean 'topic'?" if topic == "topik" else ""
        assert refused(path=file) == [f'{file}:5: router.score.topics.0.topic = "{topic}": no such topic{hint}']


@pytest.mark.parametrize("name", ["blocks", "/eth2/x/blocks/ssz"])
def test_a_table_may_name_a_group_of_topics_or_a_part_of_a_name(tmp_path, name):
    file = tmp_path / "scores.toml"
    topics = f'[[topics]]\nname = "{name}"\ncount = 1\n'
    file.write_text(SCORE.format(topic="blocks", weight=1) + topics, encoding="utf-8")
    assert load_scenario(file).router.parameters.score.of_topic(name).topic_weight == 1


def test_tables_of_a_preset_need_no_topics(tmp_path):
    """Tables of the preset `ethereum` name topics that this scenario lacks. Its dump can be loaded."""
    made = load_scenario(None, "r1", [("router.preset", "ethereum"), ("router.validators", "51000")])
    file = tmp_path / "again.toml"
    file.write_text(dump_scenario(made), encoding="utf-8")
    assert load_scenario(file) == made


def test_samples_of_scores_need_a_router_with_scores():
    every = ("scores.every_s", "5")
    assert refused([every], preset="r1") == ["--set scores.every_s=5: needs a router with scores (router.score)"]
    assert load_scenario(None, "r1", [HARDENING, every]).scores.every_us == 5_000_000


def test_a_routers_preset_is_no_preset_of_a_scenario():
    assert refused(preset="hardening") == [
        "preset 'hardening': no such preset; the router gossipsub has one: router.preset = \"hardening\""
    ]


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        ([("router.preset", "go"), ("router.validators", "5000")], "is for the presets ethereum, ethereum-prysm"),
        ([("router.preset", "ethereum"), ("router.validators", "5")], "must be an integer in 2048…100000000"),
    ],
)
def test_a_wrong_argument_of_a_preset_is_refused(overrides, problem):
    [line] = refused(overrides, preset="r1")
    assert line == f"--set router.validators={overrides[1][1]}: {problem}"
