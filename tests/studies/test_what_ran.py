"""Settings in which runs differ and settings that they share, and names of the folders of comparisons."""

from __future__ import annotations

from hearsay.sim.scenario.scenario_file import dump_scenario, load_scenario
from hearsay.studies.comparison import ComparisonRequest
from hearsay.studies.settings import differing, settings_of, shared

SMALL = (("network.nodes", "9"), ("workload.messages", "1"), ("network.degree", "3"))


def test_settings_that_differ_and_settings_that_all_share():
    r1 = settings_of(dump_scenario(load_scenario(None, "r1", SMALL)))
    flood = settings_of(dump_scenario(load_scenario(None, "r1", [*SMALL, ("loss.rate", "0.1")], router="floodsub")))
    assert "router.degree" not in flood
    apart = differing([r1, flood])
    assert {"router.kind", "loss.rate"} <= set(apart)
    assert "router.degree" not in apart
    assert shared([r1, flood])["network.nodes"] == 9
    assert not {"seed", *apart} & set(shared([r1, flood]))


def test_comparisons_with_different_options_have_different_folders():
    asked = [
        ComparisonRequest("r1", None, ("router.degree=8",), (), 20),
        ComparisonRequest("r1", None, ("router.degree=8",), ("network.nodes=120",), 20),
        ComparisonRequest("r1", None, ("router.degree=8",), ("network.nodes=130",), 20),
        ComparisonRequest("r1", None, ("router.degree=8",), (), 20, unpaired=True),
        ComparisonRequest("r1", "x/other.toml", (), (), 20),
        ComparisonRequest("r1", "y/other.toml", (), (), 20),
        ComparisonRequest("r1", "simsub", (), (), 20),
        ComparisonRequest("r1", None, ('router.kind="a b"',), (), 20),
        ComparisonRequest("r1", None, ('router.kind="a-b"',), (), 20),
        ComparisonRequest("r1", None, ("router.degree=8",), (f"loss.rate=0.{'1' * 100}1",), 20),
        ComparisonRequest("r1", None, ("router.degree=8",), (f"loss.rate=0.{'1' * 100}2",), 20),
    ]
    names = [each.folder_name for each in asked]
    assert len(set(names)) == len(names)
    assert names[1] == "compare-r1-r1-with-router.degree=8-both-with-network.nodes=120"
    assert names[6] == "compare-r1-simsub"
    assert ComparisonRequest("r1", "simsub", (), (), 5).folder_name == names[6]
