"""A vector of a router holds only if the router does the expected in each step, and nothing else."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from vector_scripts.router_script import MISBEHAVIOUR, SECOND, TOPIC, RouterScript

from hearsay.vectors.router_run import run_router
from hearsay.vectors.schema import Misshapen

SMALL = {"D": 1, "Dlo": 1, "Dhi": 2, "Dscore": 0, "Dout": 0, "Dlazy": 2}


def valid_vector() -> dict[str, Any]:
    """Return a vector of 11 steps: connections, a join, a PRUNE, a message, a heartbeat and a GRAFT in backoff."""
    script = RouterScript("one", "v1.1", "One.", **SMALL, FloodPublish=False, Score=MISBEHAVIOUR)
    script.connect("A")
    script.join()
    script.rpc("A", prune={TOPIC: {"backoff": 60}})
    script.publish("m1")
    script.connect("BC")
    script.heartbeat()
    script.graft("A")
    return script.vector()


VALID = valid_vector()
STEPS = [step["event"] for step in VALID["steps"]]


def fault(number: int, **expect: Any) -> str | None:
    """Return the fault of the valid vector with other expectations of a step; None removes an expectation."""
    vector = deepcopy(VALID)
    expected = {**vector["steps"][number].get("expect", {}), **expect}
    vector["steps"][number]["expect"] = {name: value for name, value in expected.items() if value is not None}
    return run_router(vector, "spec")


def test_the_unchanged_vector_holds():
    assert run_router(VALID, "spec") is None
    assert ["connect", "rpc", "join", "rpc", "publish", *["connect", "rpc"] * 2, "heartbeat", "rpc"] == STEPS


@pytest.mark.parametrize(
    ("number", "expect", "expected_text"),
    [
        (2, {"rpcs": {"A": {"graft": [TOPIC]}}}, 'what A is sent: {"subscribe": ["news"], "graft": ["news"]}, not'),
        (2, {"rpcs": None}, 'A is sent {"subscribe": ["news"], "graft": ["news"]}, and should not'),
        (3, {"rpcs": {"B": {"graft": [TOPIC]}}}, 'what B is sent: {}, not {"graft": ["news"]}'),
        (2, {"mesh": None}, 'mesh: {"news": ["A"]}, not {}'),
        (3, {"backoffs": None}, 'backoffs: {"news": {"A": 60000000}}, not {}'),
        (3, {"backoffs": {TOPIC: {"A": 59_000_000}}}, "backoffs: "),
        (3, {"dials": ["X"]}, 'dials: [], not ["X"]'),
        (4, {"delivers": []}, 'delivers: ["m1"], not []'),
        (4, {"fanout": {TOPIC: ["A"]}}, 'fanout: {}, not {"news": ["A"]}'),
        (9, {"some": None}, "is sent"),
        (9, {"mesh_some": {TOPIC: {"size": 2, "of": ["B", "C"], "with": []}}}, "mesh of news is"),
        (9, {"mesh_some": {TOPIC: {"size": 1, "of": ["A"], "with": []}}}, "mesh of news is"),
        (9, {"mesh_some": {TOPIC: {"size": 1, "of": ["B", "C"], "with": ["B", "C"]}}}, "mesh of news is"),
        (10, {"scores": {"A": -5}}, "the score of A is -4, not -5"),
        (10, {"scores": None}, 'scores that change are {"A": -4.0}, not {}'),
    ],
)  # fmt: skip
def test_differences_from_the_expectation_are_reported(number, expect, expected_text):
    message = fault(number, **expect)
    assert message is not None
    assert message.startswith(f"step {number}, {STEPS[number]} at ")
    assert expected_text in message


def test_a_wrong_number_of_drawn_receivers_is_reported():
    group = VALID["steps"][9]["expect"]["some"][0]
    assert group["count"] == 1
    message = fault(9, some=[{**group, "count": 2}])
    assert message is not None
    assert f"1 of {str(group['among']).replace(chr(39), chr(34))} are sent" in message


def test_expectations_for_an_implementation_replace_the_others():
    vector = deepcopy(VALID)
    vector["steps"][4]["differs"] = {"go": {"delivers": []}}
    assert run_router(vector, "spec") is None
    assert run_router(vector, "go") == 'step 4, publish at 0 us: delivers: ["m1"], not []'


@pytest.mark.parametrize(
    "step",
    [
        {"at": 0, "event": "heartbeat"},
        {"at": 2 * SECOND, "event": "join", "topic": TOPIC},
        {"at": 2 * SECOND, "event": "connect", "peer": "A", "protocol": "/meshsub/1.1.0"},
        {"at": 2 * SECOND, "event": "disconnect", "peer": "X"},
        {"at": 2 * SECOND, "event": "rpc", "peer": "X", "rpc": {}},
        {"at": 2 * SECOND, "event": "verdict", "message": "m1", "verdict": "accept"},
        {"at": 2 * SECOND, "event": "direct", "peer": "self", "direct": True},
    ],
    ids=lambda step: step["event"],
)
def test_an_impossible_step_is_refused(step):
    vector = deepcopy(VALID)
    vector["steps"].append(step)
    with pytest.raises(Misshapen, match=r"^steps\[11\]: impossible event: "):
        run_router(vector, "spec")


def test_a_missing_message_is_refused():
    vector = deepcopy(VALID)
    vector["messages"] = {}
    with pytest.raises(Misshapen, match=r"^messages: 'm1', which a step names, is missing"):
        run_router(vector, "spec")


def test_invalid_parameters_are_refused():
    vector = deepcopy(VALID)
    vector["parameters"]["Dlo"] = 3
    with pytest.raises(Misshapen, match=r"^parameters\.Dlo: must not be above D \(1\)"):
        run_router(vector, "spec")


def test_a_script_with_an_ambiguous_outcome_is_refused():
    """The effect of the GRAFT in step 5 depends on the draw of the JOIN, which a vector cannot express."""
    script = RouterScript("two", "v1.1", "Two.", **SMALL, FloodPublish=False)
    script.connect("AB")
    script.join()
    script.graft("AB")
    with pytest.raises(ValueError, match="two, step 5"):
        script.vector()
