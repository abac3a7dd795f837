"""Actions on the page of a simulation are saved in its scenario; a simulation of this scenario is the same run."""

from __future__ import annotations

from urllib.error import HTTPError

import pytest
from watched import watched

from hearsay.api.scenarios import simulate
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.sim.simulate import Simulation
from hearsay.trace.folder.manifest import load_manifest
from hearsay.trace.folder.run_folder import RunFolder
from hearsay.watch.simulation import with_publication


def scenario(*more):
    changes = [("network.nodes", "30"), ("workload.messages", "12"), ("warmup_s", "2"), *more]
    return load_scenario(None, "r1", changes)


def touched_run(original, folder):
    """Simulate a run in which, on the page, node 5 publishes, node 3 crashes, node 7 publishes, and node 3 returns.

    Return the text of the changed scenario, and the summary of the run.
    """
    frames = None
    with watched(original, 200.0, paused=True, folder=RunFolder.create(folder)) as page:
        frames = page.frames()
        next(frames)
        page.ask(do="publish", place=5, topic=0)
        page.ask(do="crash", place=3)
        page.ask(do="pause", paused=False)
        while 3 not in next(frames).get("down", ()):
            pass
        page.ask(do="publish", place=7, topic=0)
        back = page.ask(do="return", place=3)
        assert back["node"] == 3
        last = next(frame for frame in frames if frame["state"]["over"])
        text = page.source.scenario_text()
    assert last["state"]["touches"] == 4
    return text, page.results[0].summary


@pytest.mark.parametrize(
    "more",
    [
        (),
        (("faults.churn.away_share", "0.2"), ("workload.publishers", "subscribers"), ("faults.churn.start_s", "3")),
        (("workload.publishers", "any"), ("workload.arrivals", "poisson")),
    ],
    ids=["script", "churn", "poisson"],
)
def test_a_touched_run_is_repeated_by_its_scenario(more, tmp_path):
    text, summary = touched_run(scenario(*more), tmp_path / "run")
    file = tmp_path / "touched.toml"
    file.write_text(text)
    again = simulate(file)
    assert again.trace_hash == summary.trace_hash
    assert again.to_json() == summary.to_json()
    assert again.trace_hash != simulate(scenario(*more)).trace_hash
    assert (tmp_path / "run" / "scenario.toml").read_text() == text
    assert load_manifest(tmp_path / "run").trace.hash == summary.trace_hash


def test_a_message_published_after_all_others_makes_the_run_longer(tmp_path):
    simulation = Simulation(scenario(), folder=RunFolder.create(tmp_path / "run"))
    added = []

    def progress(now_us):
        if now_us > simulation.plan.end_us - 2_000_000 and not added:
            at_us = simulation.engine.changeable.next_us
            added.append(with_publication(simulation.plan.scenario, 3, simulation.plan.topics[0], at_us))
            simulation.change_scenario(added[0])

    end_us = simulation.plan.end_us
    summary = simulation.run(progress).summary
    assert simulation.plan.end_us > end_us
    assert summary.to_json() == Simulation(added[0]).run().summary.to_json()


def test_a_request_that_cannot_be_done_is_refused_with_the_reason(tmp_path):
    with watched(scenario(), 1.0, paused=True) as page:
        next(page.frames())
        for request, why in (
            ({"do": "return", "place": 3}, b"node 3 is up\n"),
            ({"do": "publish", "place": 3, "topic": 9}, b"there are topics 0\xe2\x80\xa60\n"),
            ({"do": "crash", "place": 30}, b"not a request that this source answers\n"),
            ({"do": "crash", "place": True}, b"not a request that this source answers\n"),
            ({"do": "pace", "pace": 1e9}, b"not a request that this source answers\n"),
            ({"do": "pace", "pace": float("nan")}, b"not a request that this source answers\n"),
            ({"do": 7}, b"not a request that this source answers\n"),
        ):
            with pytest.raises(HTTPError) as refused:
                page.ask(**request)
            assert (refused.value.code, refused.value.read()) == (409, why)
    assert page.source.scenario_text().count("[[timed]]") == 0


def test_the_array_engine_advances_by_steps_of_frames():
    """Between two updates of a progress bar, the engine would simulate seconds."""
    scenario = load_scenario(None, "r1", [("network.nodes", "12"), ("workload.messages", "1000")])
    with watched(scenario, 1.0, paused=True, engine="array") as page:
        assert next(page.frames())["now"] < 1_000_000
