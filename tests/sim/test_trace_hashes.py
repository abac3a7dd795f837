"""Trace hashes of presets and routers. A hash covers every row of the trace; both engines must give it.

A commit that changes a hash gives the reason.
"""

from __future__ import annotations

import pytest

from hearsay.api.scenarios import simulate
from hearsay.sim.scenario.scenario_file import load_scenario

SMALL = (("network.nodes", "100"), ("workload.messages", "10"))
LOSSY = (*SMALL, ("loss.rate", "0.05"))

HASHES = {
    ("simsub", SMALL, None): "7796e0ff135dded0b5ebe92d1c775b4c",
    ("r1", SMALL, None): "e0b9e6d13f3a1c96df243ee6b7b9cf95",
    ("ipns", SMALL, None): "0502219dba0676d86ae3d9959414e4df",
    ("ethereum-blocks", SMALL, None): "e81921894f418e97b350fdb8489a805a",
    ("churn-30", SMALL, None): "e32cb8af5378ccbef3c87a1a4410898c",
    ("filecoin", (("workload.messages", "10"),), None): "fba40d9d6403d6f181a97b075ef19f29",
    ("simsub", SMALL, "meshsub"): "0dd559c7802204c209d88c6fb9cac424",
    ("r1", LOSSY, "floodsub"): "26290266983793e26ecb9a7f80d94271",
    ("r1", LOSSY, "randomsub"): "27cade5bdc7d5fc24a7576bba66faf9b",
    ("r1", LOSSY, "meshsub"): "680d5b7be1c2114fbfe95ac5b058f063",
    ("r1", LOSSY, "gossipsub"): "eb963ab8536ca4a923bb8be1ce1d35d5",
    ("r1", (*LOSSY, ("router.preset", "v1.1")), "gossipsub"): "c5f9f5712ae61070f30dc3f0ad5ca4a6",
    ("r1", (*LOSSY, ("router.preset", "guide")), "gossipsub"): "d6a7f252e5daccf1a99b8fab4b15a940",
    ("r1", LOSSY, "episub"): "f34e7acff5a99f7e43127c652ff9baf4",
}
CASES = [(*case, expected, engine) for case, expected in HASHES.items() for engine in ("reference", "array")]


@pytest.mark.parametrize(("preset", "changes", "router", "expected", "engine"), CASES)
def test_a_trace_has_its_recorded_hash(preset, changes, router, expected, engine):
    scenario = load_scenario(None, preset, changes, router=router)
    assert simulate(scenario, engine=engine).trace_hash == expected
