"""Tuning on Spark leaves the same files as in processes, also after a kill, and a comparison confirms its answer."""

from __future__ import annotations

import json
import shlex
from contextlib import nullcontext
from pathlib import Path

import pytest
from known_best import kill_after_first_results
from known_best import tune as tune_in
from small_study import hearsay

from hearsay.pipeline.spark.settings import Where
from hearsay.studies.processes import OpenPackMaker, Processes, SparkTasks

TUNING = """
aim = "copies_per_delivery"
seeds = 3
fresh_seeds = 2
runs = {runs}
[base]
preset = "r1"
network.nodes = 30
workload.messages = 4
[bounds]
delivery_ratio = {{ at_least = 0.999 }}
[[axes]]
key = "router.degree"
values = [2, 4, 6]
[[axes]]
key = "router.degree_low"
values = [1, 3, 5]
"""


def tune(path: Path, out: Path, place: OpenPackMaker) -> dict[str, bytes]:
    """Tune, and return the content of the files with the answer and the tables, by name."""
    done = tune_in(path, out, place=place)
    assert done.searches[0].best is not None
    kept = [*(out / "answer").iterdir(), *(out / "tables").iterdir()]
    return {file.name: file.read_bytes() for file in kept if file.stem != "resources"}


def on(spark) -> OpenPackMaker:
    return lambda _: nullcontext(SparkTasks(spark, Where(), 1))


@pytest.mark.thorough
def test_spark_and_processes_leave_the_same_files(spark, tmp_path):
    path = tmp_path / "tuning.toml"
    path.write_text(TUNING.format(runs=12))
    in_processes = tune(path, tmp_path / "processes", lambda _: Processes(2))
    assert tune(path, tmp_path / "spark", on(spark)) == in_processes


@pytest.mark.thorough
def test_a_killed_tuning_continues_and_leaves_the_same_files(spark, tmp_path):
    path, out = tmp_path / "tuning.toml", tmp_path / "out"
    path.write_text(TUNING.format(runs=30))
    kill_after_first_results(path, out)
    assert not (out / "answer").exists()
    assert tune(path, out, on(spark)) == tune(path, tmp_path / "undisturbed", on(spark))


@pytest.mark.thorough
def test_a_comparison_on_fresh_seeds_confirms_what_was_found(tmp_path):
    """The answer sends fewer copies than the default degrees of gossipsub, and keeps the bound on latency."""
    asked = ("--aim", "copies_per_delivery", "--bound", "latency_p99_ms<=450", "--bound", "delivery_ratio>=0.999")
    vary = ("--vary", "router.degree=3..8", "--vary", "router.degree_low=2..5")
    few = ("--set", "network.nodes=60", "--seeds", "6", "--fresh-seeds", "10", "--runs", "100")
    done = hearsay("tune", "r1", *vary, *asked, *few, "--out", "out", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (answer,) = json.loads(done.stdout)["answers"]
    words = shlex.split(answer["compare"])[1:]
    assert words[-2:] == ["--first-seed", "35"]
    confirmed = hearsay(*words, "--json", cwd=tmp_path)
    assert confirmed.returncode == 0, confirmed.stderr
    verdicts = {line["figure"]: line for line in json.loads(confirmed.stdout)["figures"]}
    assert verdicts["copies_per_delivery"]["verdict"] == "better"
    assert verdicts["latency_p99_ms"]["mean_b"] <= 450
    assert hearsay("check", "out/answer/budgets.toml", cwd=tmp_path).returncode == 0
