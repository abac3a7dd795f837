"""A soak: its subjects import their modules, its turns can be repeated, and its random texts are scenarios."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from judging_scenarios import judging_texts
from run_soak import ROOT, SUBJECTS, Soak, run_turn
from scenarios import crash_choices, scenario_texts

from hearsay.sim.scenario.scenario_file import load_scenario

RUNNER = ROOT / "tests" / "soak" / "run_soak.py"


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_subject_finds_its_modules_in_a_process_of_its_own(subject):
    asked = f"import run_soak; run_soak.find_modules(); import {subject}; {subject}.soak"
    subprocess.run([sys.executable, "-c", asked], cwd=RUNNER.parent, check=True)


def test_a_turn_prints_its_counts_and_can_be_repeated():
    command = [sys.executable, str(RUNNER), "--only", "parsers", "--seed", "5", "--once"]
    said = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    assert said[0] == said[1]
    assert said[0].startswith('seen: {"inputs of ')


def test_the_subject_with_the_least_time_is_next(capsys):
    costs = {"short": 1.0, "long": 100.0, "middle": 10.0}
    soak = Soak(tuple(costs), 0)
    order = []
    for _ in range(14):
        order.append(soak.next())
        soak.spent_s[order[-1]] += costs[order[-1]]
    assert order[:3] == ["short", "long", "middle"]
    assert order[3:] == ["short"] * 9 + ["short"] + ["middle"]


def test_a_turn_that_does_not_end_fails(monkeypatch):
    monkeypatch.setattr("run_soak.LONGEST_S", 0.5)
    code, output = run_turn([sys.executable, "-c", "import signal; print('begun', flush=True); signal.pause()"], {})
    assert code == 1
    assert output.endswith("the turn did not end in 0.5 s")


@pytest.mark.parametrize("nodes", range(1, 6))
def test_some_nodes_can_crash_in_networks_of_any_size(tmp_path, nodes):
    for who in crash_choices(nodes):
        text = f"[network]\nnodes = {nodes}\ndegree = 0\n[[faults.crash]]\nat_s = 6\n{who}"
        assert loaded(tmp_path, text).faults.crash


@given(scenario_texts() | judging_texts())
def test_drawn_texts_are_scenarios(tmp_path_factory, text):
    assert loaded(tmp_path_factory.mktemp("drawn"), text).network.nodes > 0


def loaded(folder, text):
    file = folder / "scenario.toml"
    file.write_text(text, encoding="utf-8")
    return load_scenario(file)
