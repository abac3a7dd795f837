"""Explanations of episub runs name eager links, IHAVE by a timer and GRAFT, but no mesh, heartbeat or IWANT."""

from __future__ import annotations

import re

import pytest
from commands import hearsay
from explained_runs import SMALL, load_kind, simulate

from hearsay.core.language.actions import Via
from hearsay.explain.answers import explain
from hearsay.explain.deliveries import explain_node, explain_slowest
from hearsay.explain.fastest import Shortcut, shortcut_of
from hearsay.explain.links import MeshLinks
from hearsay.explain.message import open_message
from hearsay.explain.missing import Why, explain_missing
from hearsay.explain.path import Step
from hearsay.sim.scenario.scenario_file import load_scenario

WORDS_OF_MESHES = ("mesh", "GOSSIP-1", "heartbeat", "IWANT")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return simulate(load_kind("episub"), tmp_path_factory.mktemp("episub") / "run")


def test_copies_sent_as_eager_went_over_eager_links(run):
    story = open_message(run, "5")
    copies = [story.history.copies.at(place) for place in range(len(story.history.copies.sender))]
    eager = [copy for copy in copies if copy.via == Via.EAGER]
    assert len(eager) > 20
    links = MeshLinks(story.run, story.history.topic, [copy.sender for copy in eager], story.run.end_us)
    assert all(links.has_tree(copy.sender) for copy in eager)
    assert all(links.holds(copy.sender, copy.receiver, copy.sent_us or 0) for copy in eager)


@pytest.mark.thorough
def test_explanations_of_episub_use_no_word_of_meshes(run):
    """Explain every delivery of every message, and the common causes of the slowest."""
    texts: list[str] = []
    causes: set[tuple[str, str | None]] = set()
    steps: set[Step] = set()
    for message in range(8):
        story = open_message(run, str(message))
        texts += [trait.words for trait in explain_slowest(story).traits]
        for place in story.history.deliveries.first().tolist():
            answer = explain_node(story, int(story.history.deliveries.node[place]))
            assert answer is not None
            shortcut = shortcut_of(story, answer.path)
            texts.append(explain(story, answer.node, False).text())
            steps |= {spell.step for hop in answer.path.hops for spell in hop.times}
            if isinstance(shortcut, Shortcut) and shortcut.why is not None:
                causes.add((re.sub(r" ?node \d+ ?", "", shortcut.why.words), shortcut.why.rule))
    assert Step.NEXT_IHAVE in steps
    assert Step.HEARTBEAT not in steps
    assert ("had no eager link to", "TREE-1") in causes
    assert not [words for words in texts for other in WORDS_OF_MESHES if other in words]


def test_reasons_of_missing_deliveries_are_those_of_episub(tmp_path):
    overrides = [*SMALL, ("router.kind", "episub"), ("loss.rate", "0.75"), ("warmup_s", "20"), ("linger_s", "0.6")]
    path = simulate(load_scenario(None, "r1", overrides), tmp_path / "run")
    assert path is not None
    found = [each for message in range(8) for each in explain_missing(open_message(path, str(message))).missing]
    assert {Why.ANNOUNCEMENTS_LOST, Why.NO_EAGER_LINK} <= {each.why for each in found}
    assert not {Why.NO_MESH, Why.GOSSIP_LOST} & {each.why for each in found}
    output = "".join(hearsay("explain", path, "--message", str(one), "--missing").stdout for one in range(3))
    assert not [other for other in WORDS_OF_MESHES if other in output]
