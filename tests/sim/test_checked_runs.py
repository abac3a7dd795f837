"""`--check` on the array engine: real routers repeat the calls of some nodes, and all nodes are searched for broken
invariants.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from checked_faults import MOST_EVENTS, findings
from commands import hearsay

from corner_scenarios import DIRECT, EXCHANGED, EXTENSIONS, FANOUT, NEWS, REFUSED, corner_scenarios
from engines_agree import Storm, StormRecorder, even_plan, plan_of
from hearsay.api.scenarios import simulate
from hearsay.core.mesh.parameters import GossipsubParameters
from hearsay.sim.array.engine import ArrayEngine
from hearsay.sim.array.world import layout as at
from hearsay.sim.checks.checker import Checker
from hearsay.sim.recorder import Recorder
from hearsay.sim.reference.engine import ReferenceEngine
from hearsay.sim.scenario.reading import ScenarioError
from hearsay.sim.witnesses import Witnesses

pytestmark = pytest.mark.xdist_group("array")

SMALL = "[network]\nnodes = 60\n[workload]\nmessages = 5\n"


def checked(plan, threads=1):
    witnesses = Witnesses.of(plan)
    engine = ArrayEngine(plan, None, threads, witnesses)
    assert engine.run()
    return engine, witnesses


@pytest.mark.parametrize("text", [FANOUT, NEWS, REFUSED, EXCHANGED, DIRECT])
@pytest.mark.parametrize("seed", range(3))
def test_a_check_of_a_correct_run_finds_nothing(text, seed):
    _, witnesses = checked(plan_of(f"seed = {seed}\n{text}"), 1 + seed % 2)
    assert witnesses.repeat().problems == ()


def raises_no_false_alarm(plan, threads=1):
    """Return whether the check of all nodes finds nothing, or the reference engine's checker finds something too.

    If a round trip takes longer than a heartbeat, crossing GRAFTs and PRUNEs can leave a one-sided link. The result
    is also True for a scenario whose messages circulate forever.
    """
    checker = Checker(plan)
    try:
        ReferenceEngine(plan, StormRecorder(MOST_EVENTS), checker).run()
    except Storm:
        return True
    return bool(checker.problems) or not findings(plan, threads=threads).count


@pytest.mark.parametrize("number", range(12))
def test_the_check_of_all_nodes_gives_no_false_alarm_in_random_runs(number):
    assert raises_no_false_alarm(even_plan(number)[1], threads=1 + number % 2)


@pytest.mark.thorough
def test_the_check_of_all_nodes_gives_no_false_alarm_in_corners():
    assert [text for text in corner_scenarios() if not raises_no_false_alarm(plan_of(text))] == []


def test_a_test_message_is_an_rpc_of_its_own_on_the_reference_engine():
    plan = plan_of(EXTENSIONS)
    checker = Checker(plan)
    assert ReferenceEngine(plan, Recorder(), checker).run()
    assert checker.problems == []


@pytest.mark.parametrize("queue_bytes", [0, 250_000])
def test_withdrawn_copies_are_no_problem(queue_bytes):
    text = (
        f"[network]\nnodes = 60\n[links]\nuplink_mbit = 20\nuplink_queue_bytes = {queue_bytes}\n"
        "[workload]\nmessages = 3\nsize_bytes = 100_000\n"
        "[router]\npreset = 'r1'\nidontwant_threshold_bytes = 1000\nwithdraw_unwanted = true\n"
    )
    _, witnesses = checked(plan_of(text))
    assert witnesses.repeat().problems == ()


def test_a_router_with_other_parameters_is_a_problem():
    plan = plan_of(SMALL)
    kind, parameters = plan.routers[0]
    assert isinstance(parameters, GossipsubParameters)
    other = replace(plan, routers=((kind, replace(parameters, degree_lazy=parameters.degree_lazy + 1)),))
    witnesses = Witnesses.of(other)
    assert ArrayEngine(plan, None, 1, witnesses).run()
    assert any(problem.startswith("the array engine (A) and a real router (B) differ") for problem in
               witnesses.repeat().problems)  # fmt: skip


def test_a_one_sided_mesh_link_is_a_problem():
    plan = plan_of(SMALL)
    engine, witnesses = checked(plan)
    flags, peers = engine.arrays["flags"], engine.arrays["peers"]
    slot = next(slot for slot in range(len(flags)) if flags[slot, 0] & at.IN_MESH)
    flags[slot, 0] ^= at.IN_MESH
    engine._end_check(witnesses)
    one, *others = witnesses.repeat().problems
    assert not others
    assert one.startswith(f"node {peers[slot]}: mesh link of 'topic' to ")
    assert one.endswith(" is not mutual")


def test_the_array_engine_refuses_a_listener():
    with pytest.raises(ScenarioError, match="records rows out of order"):
        simulate("r1", engine="array", on_row=print)


def test_the_command_checks_on_the_array_engine():
    done = hearsay("simulate", "--nodes", 100, "--messages", 3, "--engine", "array", "--check")
    assert done.returncode == 0
    assert "check: real routers repeat the calls of 64 nodes" in done.stderr
