"""The array engine gives the reference engine's trace, row for row, and its summary."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from engines_agree import check, plan_of, run_array, run_reference, told_difference
from hearsay.core import randomness
from hearsay.core.rpc import PartKind
from hearsay.sim.array import building, draws, layout, loop, queue, record
from hearsay.sim.array import engine as engine_module
from hearsay.sim.array.compiling import entry
from hearsay.sim.array.engine import ArrayEngine
from hearsay.sim.array.layout import World
from hearsay.sim.engines import choose_engine, unsupported
from hearsay.sim.plan import make_plan
from hearsay.sim.scenario_file import load_scenario
from hearsay.sim.simulate import Simulation
from hearsay.trace.digest import TraceDigest
from hearsay.trace.manifest import load_manifest
from hearsay.trace.reader import read_rows
from hearsay.trace.run_folder import RunFolder
from hearsay.trace.verify import verify
from random_scenarios import scenario_texts

pytestmark = pytest.mark.xdist_group("array")

LIVELY = """
linger_s = 2
[network]
nodes = 60
[router]
kind = "gossipsub"
preset = "r1"
seen_ttl_ms = 6000
[workload]
messages = 240
interval_s = 0.1
publishers = "any"
[loss]
rate = 0.1
"""


@settings(max_examples=60, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(scenario_texts())
def test_engines_agree_on_random_scenarios(text):
    check(text)


@settings(max_examples=25, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(scenario_texts())
def test_two_threads_give_the_same_trace(text):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(engine_module, "_WORTH_SHARING", 0)
        patched.setattr(building, "_BLOCK_BITS", 3)
        check(text, threads=2)


@pytest.mark.parametrize("columns", [8, 64])
def test_columns_of_dead_messages_are_used_again(monkeypatch, columns):
    monkeypatch.setattr(building, "_LEAST_COLUMNS", columns)
    monkeypatch.setattr(building, "_CELLS_AT_FIRST", columns)
    plan = plan_of(LIVELY)
    rows, summary = run_array(plan)
    assert np.array_equal(rows, run_reference(plan)[0])
    assert summary == run_reference(plan)[1]
    engine = ArrayEngine(plan, None)
    engine.run()
    world = engine.arrays.world
    assert columns < world[layout.COLUMNS] < len(plan.publications)
    assert world[layout.FIRST_MESSAGE] > 0


def test_the_folder_holds_the_rows_that_were_hashed(tmp_path):
    """In the background, as the command does it; the manifest's hash is the engine's own."""
    folder = RunFolder.create(tmp_path / "run")
    summary = Simulation(load_scenario(None, "churn-30", ()), folder=folder, engine="array").run().summary
    assert verify(folder.path) == []
    digest = TraceDigest()
    digest.add(read_rows(folder.path))
    trace = load_manifest(folder.path).trace
    assert digest.hex() == trace.hash == summary.trace_hash
    assert digest.rows == trace.rows


def test_a_difference_is_shown_with_its_rows():
    plan = plan_of(LIVELY)
    rows, _ = run_array(plan)
    other = rows.copy()
    other[1000, 4] += 1
    told = told_difference(rows, other)
    assert told is not None
    assert "Only in A at that time: 1 rows\n-" in told
    assert "Only in B at that time: 1 rows\n+" in told


def test_names_fit_into_their_tables():
    """Kernels do not look at bounds."""
    assert layout._scalar.count <= layout.SCALARS
    assert layout._field.count <= layout.PARAMETERS
    assert record.COUNTS <= layout.COUNTERS
    assert queue.LEAVING_NEXT < layout.CONTROL


def test_most_gossip_and_many_duplicates_do_not_travel():
    plan = make_plan(load_scenario(None, "simsub", [("network.nodes", "500")]))
    engine = ArrayEngine(plan, None)
    world = engine.arrays.world
    travelled = 0
    while loop.work(world, loop.BEGIN, 0):
        travelled += int(world[layout.GATHERED]) if world[layout.NOW] else 0
        if world[layout.GATHERED]:
            loop.work(world, loop.SHARE, 0)
        if not loop.work(world, loop.FINISH, 0):
            break
    figures = engine.figures()
    assert figures.trace_hash == run_reference(plan)[1]["trace_hash"]
    heartbeats = 24 * 500
    sent = dict(zip(PartKind, figures.sent, strict=True))
    assert travelled - heartbeats < 0.75 * sent[PartKind.PUBLISH] + 0.2 * sent[PartKind.IHAVE] + sent[PartKind.GRAFT]


@entry
def _pick(table: World, state: int, size: int, count: int) -> int:
    return draws.pick(layout.world(table), 0, np.uint64(state), size, count)


@entry
def _below(draw: int, bound: int) -> int:
    return draws.below(np.uint64(draw), bound)


@pytest.mark.parametrize("size", [1, 2, 7, 30, 200])
def test_choice_and_bounds_are_the_cores(size):
    arrays = layout.Arrays()
    arrays["marks"] = np.zeros((1, size + 1), dtype=np.uint8)
    for number in range(200):
        state = randomness.mix(number)
        arrays["candidates"] = np.arange(size + 1)[None, :]
        count = number % (size + 2)
        picked = _pick(arrays.world, np.uint64(state), size, count)
        assert arrays["candidates"][0, :picked].tolist() == randomness.sample(state, range(size), count)
        assert not arrays["marks"].any()
        bound = 1 + (state >> (number % 60 + 2))
        assert _below(np.uint64(randomness.mix(state)), bound) == randomness.below(randomness.mix(state), bound)


def test_latencies_are_the_reference_engines():
    for links in ('latency = "log_normal"', "min_ms = 0\nmax_ms = 3000000"):
        plan = plan_of(f"[links]\n{links}\n[network]\nnodes = 30")
        assert np.array_equal(run_array(plan)[0], run_reference(plan)[0])


def test_what_it_cannot_do_is_named():
    problems = unsupported(load_scenario(None, "r1", (), router="episub"))
    assert problems == ["router.kind = 'episub': only floodsub, randomsub, meshsub, gossipsub"]
    assert choose_engine(load_scenario(None, "simsub", ()))[0] == "reference"
    assert choose_engine(load_scenario(None, "simsub", [("network.nodes", "100000")]))[0] == "array"


def test_the_command_says_the_same_on_both_engines(tmp_path):
    summaries = []
    for engine in ("reference", "array"):
        done = subprocess.run(
            [sys.executable, "-m", "hearsay", "simulate", "--preset", "churn-30", "--nodes", "120", "--messages", "9",
             "--engine", engine, "--json", "--out", str(tmp_path / engine)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        summaries.append(json.loads(done.stdout))
    assert summaries[0].pop("engine") == "reference"
    assert summaries[1].pop("engine") == "array"
    assert summaries[0] == summaries[1]
    compared = subprocess.run(
        [sys.executable, "-m", "hearsay", "trace", "diff", str(tmp_path / "reference"), str(tmp_path / "array")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (compared.returncode, compared.stdout) == (0, "the traces are equal\n")
    refused = subprocess.run(
        [sys.executable, "-m", "hearsay", "simulate", "--router", "episub", "--engine", "array"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert refused.returncode == 2
    assert "router.kind = 'episub'" in refused.stderr


def test_a_plan_of_regions_with_jitter(tmp_path):
    table = tmp_path / "regions.csv"
    table.write_text("from,to,latency_ms,jitter_ms\neu,eu,5,1\neu,us,40,8\nus,us,6,2\n", encoding="utf-8")
    keys = [("links.latency", "regions"), ("links.regions_file", str(table)), ("network.nodes", "50")]
    plan = make_plan(load_scenario(None, "r1", keys))
    assert np.array_equal(run_array(plan)[0], run_reference(plan)[0])


def test_links_that_are_gone_are_used_again():
    plan = plan_of(
        "[network]\nnodes = 60\ndegree = 3\n[workload]\nmessages = 400\n"
        "[faults]\ndetection_s = 0.3\n[faults.churn]\naway_share = 0.4\nmean_session_s = 3"
    )
    engine = ArrayEngine(plan, None)
    engine.run()
    links = int(engine.arrays.world[layout.LINKS])
    connections = engine.figures().sent[PartKind.CONNECT]
    assert links < connections
    assert np.array_equal(run_array(plan)[0], run_reference(plan)[0])


def test_latencies_beyond_the_counted_ones_are_all_there(monkeypatch):
    plan = plan_of("[links]\nmin_ms = 1\nmax_ms = 9000\n[network]\nnodes = 200\n[workload]\nmessages = 40")
    whole = ArrayEngine(plan, None)
    whole.run()
    monkeypatch.setattr(engine_module, "LATENCIES_AT_ONCE", 2)
    in_pieces = ArrayEngine(plan, None)
    in_pieces.run()
    expected, counted = whole.figures().latencies, in_pieces.figures().latencies
    assert expected.microseconds.max() > building.MEASURED_US
    assert np.array_equal(counted.microseconds, expected.microseconds)
    assert np.array_equal(counted.counts, expected.counts)


@pytest.mark.skipif(sys.platform != "linux", reason="addresses are limited on Linux only")
def test_too_little_memory_is_one_line():
    code = (
        "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30));"
        "sys.argv = ['hearsay', 'simulate', '--engine', 'array', '--nodes', '300000'];"
        "runpy.run_module('hearsay', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("hearsay: out of memory")
