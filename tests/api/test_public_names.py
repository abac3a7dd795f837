"""`import hearsay`: names are loaded when they are used, and simulate presets, files and scenarios."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

import hearsay
from hearsay.core.registry import find_router
from hearsay.sim.scenario import scenario_file

LARGE = ("numpy", "numba", "pyarrow", "pandas", "pyspark", "pydantic", "click", "asyncio", "cryptography")


def loaded_by(program: str) -> set[str]:
    """Run a program in its own process; return the large packages that are loaded at its end."""
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split()) & set(LARGE)


def test_importing_loads_nothing_large():
    assert loaded_by("import hearsay; hearsay.__version__, dir(hearsay)") == set()


def test_what_a_router_from_outside_needs_is_the_standard_library():
    assert loaded_by("import hearsay.routers, hearsay.partial") == set()


def test_a_node_needs_neither_arrays_nor_tables():
    assert not loaded_by("import hearsay; hearsay.Node, hearsay.NodeConfig") & {"numpy", "pyarrow", "pydantic"}


@pytest.mark.parametrize("name", hearsay.__all__)
def test_every_public_name_exists(name):
    assert getattr(hearsay, name) is not None
    assert name in dir(hearsay)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'simulat'"):
        _ = hearsay.simulat  # type: ignore[attr-defined]


def test_what_is_not_installed_is_one_line_with_the_extras_name():
    hidden = "import sys; sys.modules['numpy'] = None\nimport hearsay\ntry: hearsay.simulate\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{hidden}except hearsay.MissingExtra as error: print(error)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == f"numpy is not installed: {sys.executable} -m pip install 'hearsay-gossip[sim]'\n"


def test_a_scenario_is_a_preset_a_file_or_an_object_with_keys_changed(tmp_path):
    small = {"network.nodes": 20, "workload.messages": 1}
    of_preset = hearsay.load_scenario("r1", small, seed=7)
    file = tmp_path / "r1.toml"
    file.write_text(scenario_file.dump_scenario(of_preset), encoding="utf-8")
    of_file = hearsay.load_scenario(file)
    assert of_file == of_preset
    hashes = {
        hearsay.simulate("r1", small, seed=7).trace_hash,
        hearsay.simulate(str(file)).trace_hash,
        hearsay.simulate(of_preset).trace_hash,
        hearsay.simulate(hearsay.load_scenario("r1"), small, seed=7).trace_hash,
    }
    assert len(hashes) == 1
    assert hearsay.simulate(of_preset, seed=8).trace_hash not in hashes
    assert hearsay.simulate(of_preset, router="floodsub").router == "floodsub"


def test_the_error_of_an_invalid_scenario_names_every_invalid_key():
    with pytest.raises(hearsay.ScenarioError) as caught:
        hearsay.load_scenario("r1", {"network.nodes": 0, "loss.rate": 2})
    assert caught.value.problems == [
        "overrides: network.nodes = 0: must be in 1…100000000",
        "overrides: loss.rate = 2: must be in 0…1",
    ]
    with pytest.raises(hearsay.ScenarioError, match=r"^seed: seed = -1: must be in 0…"):
        hearsay.simulate(hearsay.load_scenario("r1"), seed=-1)
    with pytest.raises(hearsay.ScenarioError, match=r"^overrides: loss.rat: unknown key"):
        hearsay.simulate(hearsay.load_scenario("r1"), {"loss.rat": 1})
    with pytest.raises(hearsay.StudyError, match=r"^both: network.nodes = 0: must be in"):
        hearsay.compare("r1", changes={"loss.rate": 0.1}, both={"network.nodes": 0})
    with pytest.raises(
        hearsay.StudyError, match=r"^changes: links.max_ms = 1: links.min_ms = 10 \(preset r1\): must"
    ):
        hearsay.compare("r1", changes={"links.max_ms": 1})
    with pytest.raises(hearsay.StudyError, match=r"settings that B changes \(changes\)$"):
        hearsay.compare("r1")
    with pytest.raises(hearsay.ScenarioError, match="no such file, and no such preset"):
        hearsay.load_scenario("r2")


OTHER = replace(find_router("floodsub"), name="other")


def test_both_engines_and_a_checked_run_give_one_trace():
    small = {"network.nodes": 30, "workload.messages": 2}
    rows = []
    by_reference = hearsay.simulate("r1", small, check=True, on_row=rows.append)
    assert by_reference.trace_hash == hearsay.simulate("r1", small, engine="array").trace_hash
    assert len(rows) > 100
    with pytest.raises(hearsay.ScenarioError, match=r"router\.kind = '.*:OTHER': only floodsub, "):
        hearsay.simulate("r1", small, router=f"{__name__}:OTHER", engine="array")


def test_a_summary_has_a_text_and_html():
    summary = hearsay.simulate("r1", {"network.nodes": 20, "workload.messages": 1})
    assert str(summary).startswith("=== simulation summary ===")
    shown = summary._repr_html_()
    assert shown.startswith("<table><caption>gossipsub on 20 nodes, 1 messages, seed 1</caption>")
    assert summary.trace_hash in shown
