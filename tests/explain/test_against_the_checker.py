"""Paths agree with the records that the checker keeps of the events and actions of each router."""

from __future__ import annotations

import pytest
from explained_runs import load_kind

from hearsay.explain.message import open_message
from hearsay.explain.path import path_to
from hearsay.sim.simulate import Simulation
from hearsay.trace.folder.run_folder import RunFolder


@pytest.mark.parametrize("kind", ["lossy", "queues", "scores", "floodsub", "episub"])
def test_senders_and_times_of_hops_are_those_of_the_checker(tmp_path, kind):
    scenario = load_kind(kind)
    simulation = Simulation(scenario, folder=RunFolder.create(tmp_path / "run"), check=True)
    assert simulation.run().problems == ()
    checker = simulation._checker
    assert checker is not None
    compared = 0
    for message in range(scenario.workload.messages):
        story = open_message(tmp_path / "run", str(message))
        deliveries = story.history.deliveries
        for place in deliveries.first().tolist():
            path = path_to(story.history, place, story.model)
            for hop in path.hops:
                record = checker._records[hop.receiver]
                if message not in record.delivered_us:
                    continue
                assert record.delivered_us[message] == hop.delivered_us
                from_the_script = hop.sender == story.history.publisher == scenario.network.nodes
                assert record.came_from[message] == (None if from_the_script else hop.sender)
                compared += 1
    assert compared > 200
