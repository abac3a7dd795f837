"""Explanations of a run of more than two million rows take little more memory than those of a small run."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.sim.simulate import Simulation
from hearsay.trace.folder.manifest import load_manifest
from hearsay.trace.folder.run_folder import RunFolder

_EXPLAIN = """
import resource, sys
from pathlib import Path
from hearsay.explain.missing import explain_missing
from hearsay.explain.deliveries import explain_node
from hearsay.explain.fastest import shortcut_of
from hearsay.explain.deliveries import explain_slowest
from hearsay.explain.message import open_message
story = open_message(Path(sys.argv[1]), "3")
slowest = explain_slowest(story)
answer = explain_node(story, slowest.slow[0].node)
shortcut_of(story, answer.path)
explain_missing(story)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""
MOST_EXTRA_MB = 150


def simulate_r1(path, messages):
    changes = [("network.nodes", "1000"), ("workload.messages", str(messages)), ("workload.interval_s", "0.2")]
    scenario = load_scenario(None, "r1", [*changes, ("loss.rate", "0.1")])
    Simulation(scenario, folder=RunFolder.create(path), engine="array").run()
    return path


def explain_and_measure_peak_mb(run):
    done = subprocess.run([sys.executable, "-c", _EXPLAIN, str(run)], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.thorough
def test_memory_does_not_grow_with_the_run(tmp_path):
    small, large = simulate_r1(tmp_path / "small", 5), simulate_r1(tmp_path / "large", 400)
    rows = load_manifest(large).trace.rows
    assert rows > 2_000_000
    assert rows > 25 * load_manifest(small).trace.rows
    assert explain_and_measure_peak_mb(large) < explain_and_measure_peak_mb(small) + MOST_EXTRA_MB
