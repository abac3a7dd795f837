"""Each subject of a soak finds what it needs, and a turn that fails is brought back by its line."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from judging_scenarios import judging_texts
from run_soak import ROOT, SUBJECTS, Soak, outcome_of
from scenarios import scenario_texts, who_crashes

from hearsay.sim.scenario.scenario_file import load_scenario

RUNNER = ROOT / "tests" / "soak" / "run_soak.py"


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_subject_finds_its_modules_in_a_process_of_its_own(subject):
    asked = f"import run_soak; run_soak.find_modules(); import {subject}; {subject}.soak"
    subprocess.run([sys.executable, "-c", asked], cwd=RUNNER.parent, check=True)


def test_a_turn_says_what_it_has_seen_and_two_are_the_same():
    command = [sys.executable, str(RUNNER), "--only", "parsers", "--seed", "5", "--once"]
    said = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    assert said[0] == said[1]
    assert said[0].startswith('seen: {"inputs of ')


def test_who_had_least_is_next_and_no_peer_waits_for_a_second_turn_of_another(capsys):
    costs = {"short": 1.0, "long": 100.0, "middle": 10.0}
    soak = Soak(tuple(costs), 0)
    order = []
    for _ in range(14):
        order.append(soak.next())
        soak.spent_s[order[-1]] += costs[order[-1]]
    assert order[:3] == ["short", "long", "middle"]
    assert order[3:] == ["short"] * 9 + ["short"] + ["middle"]


def test_what_does_not_end_is_a_failure(monkeypatch):
    monkeypatch.setattr("run_soak.LONGEST_S", 0.5)
    code, output = outcome_of([sys.executable, "-c", "import signal; print('begun', flush=True); signal.pause()"], {})
    assert code == 1
    assert output.endswith("it does not end")


@pytest.mark.parametrize("nodes", range(1, 6))
def test_however_few_nodes_there_are_some_of_them_can_crash(tmp_path, nodes):
    for who in who_crashes(nodes):
        text = f"[network]\nnodes = {nodes}\ndegree = 0\n[[faults.crash]]\nat_s = 6\n{who}"
        assert loaded(tmp_path, text).faults.crash


@given(scenario_texts() | judging_texts())
def test_what_is_drawn_is_a_scenario(tmp_path_factory, text):
    assert loaded(tmp_path_factory.mktemp("drawn"), text).network.nodes > 0


def loaded(folder, text):
    file = folder / "scenario.toml"
    file.write_text(text, encoding="utf-8")
    return load_scenario(file)
