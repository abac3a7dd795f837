"""Sweeps on Spark: their tables, runs that are repeated or not, failed runs, and the packs of a queue."""

from __future__ import annotations

import shutil
import subprocess
import sys

import other_router
import pytest
from kills import environment
from small_study import (
    STUDY,
    assert_equal_tables,
    assert_tables_of_local_runs,
    hearsay,
    sweep_on_spark,
    table,
    write_study,
)

from hearsay.api.scenarios import simulate
from hearsay.number_text import between, text_of
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.studies.packs import Task, perform
from hearsay.studies.runner import LEAST_S, RunQueue
from hearsay.trace.compare_runs import verify


@pytest.fixture(scope="module")
def once(spark, tmp_path_factory):
    """Return the folder of a sweep of the small study."""
    folder = tmp_path_factory.mktemp("once")
    done = sweep_on_spark(spark, write_study(folder), folder / "out")
    assert (done.made, done.failures) == (12, [])
    assert_tables_of_local_runs(folder / "out", folder / "small.toml")
    return folder / "out"


def test_a_row_equals_the_summary_of_simulate(once):
    row = table(once, "runs").to_pylist()[-1]
    scenario = load_scenario(once / "scenarios" / f"{row['point']}.toml", None, [("seed", row["seed"])])
    summary = simulate(scenario)
    assert (row["loss.rate"], row["router.degree"], row["router.degree_low"], row["seed"]) == (0.3, 6, 5, 3)
    assert row["trace_hash"] == summary.trace_hash
    assert row["delivery_ratio"] == summary.delivery_ratio
    assert row["latency_p99_ms"] == summary.latency_ms["p99"]
    assert row["copies_per_delivery"] == (summary.deliver + summary.duplicates) / summary.deliver
    sent = {part["kind"]: part["parts"] for part in table(once, "sent").to_pylist() if part["run"] == row["run"]}
    assert sent == summary.sent
    bins = [bin_["deliveries"] for bin_ in table(once, "latency").to_pylist() if bin_["run"] == row["run"]]
    assert sum(bins) == sum(count for _, count in summary.histogram)


def test_tables_of_points_and_resources(once):
    runs, points, resources = (table(once, name).to_pylist() for name in ("runs", "points", "resources"))
    first = next(row for row in points if row["figure"] == "copies_per_delivery")
    values = [row["copies_per_delivery"] for row in runs[:3]]
    assert (first["seeds"], first["loss.rate"], first["router.degree"]) == (3, 0.0, 2)
    assert first["mean"] == pytest.approx(sum(values) / 3)
    assert first["low"] < first["mean"] < first["high"]
    assert [row["run"] for row in resources] == [row["run"] for row in runs]
    assert all(row["engine"] == "reference" and row["wall_s"] > 0 and row["peak_bytes"] > 1e7 for row in resources)


def test_finished_runs_are_never_run_again(spark, once, tmp_path):
    path = write_study(tmp_path)
    whole = tmp_path / "out"
    assert sweep_on_spark(spark, path, whole).made == 12
    assert sweep_on_spark(spark, path, whole).made == 0
    (whole / "results" / "half.parquet").write_bytes(b"PAR1 and no more")
    more = write_study(tmp_path, STUDY.replace("seeds = 3", "seeds = 4"), "more")
    assert sweep_on_spark(spark, more, whole).made == 4
    assert sweep_on_spark(spark, path, whole).made == 0
    assert_equal_tables(whole, once)


def test_chosen_figures_are_shown_with_their_intervals(once, tmp_path):
    shutil.copytree(once, tmp_path / "out")
    command = ("sweep", once.parent / "small.toml", "--out", tmp_path / "out", "--figure")
    head, first, *_ = hearsay(*command, "copies_per_delivery", cwd=tmp_path).stdout.splitlines()
    point = next(row for row in table(once, "points").to_pylist() if row["figure"] == "copies_per_delivery")
    assert head.endswith("runs  copies per delivery")
    assert first.endswith(f" {text_of(point['mean'], 'number')} ({between(point['low'], point['high'], 'number')})")
    refused = hearsay(*command, "speed", cwd=tmp_path)
    assert (tmp_path / "out" / "study.toml").read_text() == (once.parent / "small.toml").read_text()
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--figure speed: no such figure; there are delivery_ratio, " in refused.stderr


def test_a_run_that_fails_is_a_row_and_stops_no_other(spark, tmp_path):
    spark.sparkContext.addPyFile(other_router.__file__)
    base = STUDY.replace('preset = "r1"', 'router.kind = "other_router:OTHER"').partition("[[axes]]\nkeys")[0]
    text = base.replace("[base]", 'engine = "array"\n[base]').replace("seeds = 3", "seeds = 2")
    path = write_study(tmp_path, text)
    done = sweep_on_spark(spark, path, tmp_path / "out")
    assert len(done.failures) == 4
    rows = table(tmp_path / "out", "runs").to_pylist()
    (error,) = {row["error"] for row in rows}
    assert error.startswith("engine array: router.kind = 'other_router:OTHER': only floodsub, ")
    write_study(tmp_path, text.replace('engine = "array"', 'engine = "reference"'))
    assert sweep_on_spark(spark, path, tmp_path / "out").made == 0
    assert sweep_on_spark(spark, path, tmp_path / "out", again=True).failures == []


def test_traces_come_back_whole(spark, once, tmp_path):
    text = STUDY.replace("seeds = 3", "seeds = [2]").replace("[0, 0.3]", "[0.3]")
    assert sweep_on_spark(spark, write_study(tmp_path, text), tmp_path / "out").made == 2
    text = text.replace("[base]", "traces = true\n[base]")
    assert sweep_on_spark(spark, write_study(tmp_path, text), tmp_path / "out").made == 2
    assert sweep_on_spark(spark, write_study(tmp_path, text), tmp_path / "out").made == 0
    rows = table(tmp_path / "out", "runs").to_pylist()
    folders = sorted(path.name for path in (tmp_path / "out" / "traces").iterdir() if path.name[0] != ".")
    assert folders == sorted(row["run"] for row in rows)
    assert verify(tmp_path / "out" / "traces" / folders[0]) == []
    hashes = {row["run"]: row["trace_hash"] for row in table(once, "runs").to_pylist()}
    assert all(row["trace_hash"] == hashes[row["run"]] for row in rows)


ROUTER = """
import os, signal
from hearsay.core.mesh.meshsub import Meshsub, MeshsubParameters
from hearsay.core.registry import RouterKind

def deadly(parameters):
    if parameters.degree == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    if parameters.degree == 4:
        raise RuntimeError("four is\\ntoo few")
    return Meshsub(parameters)

KIND = RouterKind("deadly", MeshsubParameters, deadly, {})
"""
DEADLY = """
seeds = 1
[base]
network.nodes = 20
workload.messages = 2
router.kind = "deadly_router:KIND"
[[axes]]
keys = ["router.degree", "router.degree_low"]
values = [[4, 3], [5, 3], [6, 3], [7, 3]]
"""


@pytest.mark.thorough
def test_tasks_get_a_router_from_outside_and_a_run_that_kills_its_task_is_reported(tmp_path):
    """The router's module is in the working directory, which is not on the path of the tasks' Python."""
    (tmp_path / "deadly_router.py").write_text(ROUTER)
    path = write_study(tmp_path, DEADLY)
    command = [sys.executable, "-m", "hearsay", "sweep", str(path), "--out", "out"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 1
    assert "2 of 4 runs failed" in done.stderr
    rows = table(tmp_path / "out", "runs").to_pylist()
    assert rows[0]["error"] == "RuntimeError: four is too few (deadly_router.py:10, in deadly)"
    assert rows[1]["error"] == "its process was killed (out of memory?), 3 times"
    assert [(row["error"], row["delivery_ratio"]) for row in rows[2:]] == [(None, 1)] * 2


def tasks(count: int, point: str = "p") -> list[Task]:
    return [Task(f"{point}-{seed}", point, seed, "", (), "auto", False) for seed in range(count)]


def test_short_runs_are_packed_and_long_ones_go_first_and_alone():
    queue = RunQueue([*tasks(100, "short"), *tasks(3, "long")], {"short": 0.01, "long": 5.0})
    assert [len(queue.take(2)) for _ in range(3)] == [1, 1, 1]
    pack = queue.take(2)
    assert {task.point for task in pack} == {"short"}
    assert sum(queue.seconds(task.point) for task in pack) >= LEAST_S / 2
    while queue.take(2):
        pass
    assert (len(queue), queue.seconds_left()) == (0, 0)


def test_the_size_of_packs_follows_the_measured_time():
    queue = RunQueue(tasks(5000), {"p": 0.001})
    assert len(queue.take(2)) > 500
    queue.learn("p", 0.5)
    assert 2 <= len(queue.take(2)) <= 8
    assert queue.seconds_left() == pytest.approx(len(queue) * 0.5)


def test_the_end_is_not_before_the_end_of_the_longest_pack():
    queue = RunQueue(tasks(9), {"p": 60.0})
    pack = queue.take(8)
    assert queue.seconds_to_end([pack], 8) == (8 * 60 + 30) / 8
    while queue.take(8):
        pass
    assert queue.seconds_to_end([pack], 8) == 30
    assert queue.seconds_to_end([], 8) == 0


def test_runs_whose_task_died_go_alone():
    queue = RunQueue(tasks(3), {"p": 0.01})
    queue.requeue_separately(queue.take(1))
    assert [len(queue.take(1)) for _ in range(4)] == [1, 1, 1, 0]


def test_a_run_in_this_process_equals_that_of_a_task(once):
    row = table(once, "runs").to_pylist()[0]
    text = (once / "scenarios" / f"{row['point']}.toml").read_text(encoding="utf-8")
    here = perform(Task(row["run"], row["point"], row["seed"], text, (), "auto", False))
    assert {name: here[name] for name in ("trace_hash", "hops_mean", "deliver")} == {
        name: row[name] for name in ("trace_hash", "hops_mean", "deliver")
    }
