"""`hearsay analyze --stats`: Spark's own counters for each step of an analysis."""

from __future__ import annotations

import json

import pytest
from commands import hearsay


def test_spark_reads_each_row_and_shuffles(small_run, tmp_path):
    done = hearsay("analyze", small_run, "--out", tmp_path / "out", "--stats", "--json", new_process=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["run"] == "topics"
    files = json.loads((small_run / "manifest.json").read_text())["files"]
    messages, rpcs = (
        sum(file["rows"] for file in files if f"class={name}/" in file["path"]) for name in ("message", "rpc")
    )
    lines = [line.split() for line in done.stderr.splitlines() if not line.startswith("spark:")]
    assert lines[0][:4] == ["step", "tasks", "rows", "read"]
    read = {step: int(figure.replace(",", "")) for step, _, figure, *_ in lines[1:]}
    assert read["sent"] == messages
    assert read["traffic"] == 2 * (messages + rpcs)
    assert any(line[3] != "0" for line in lines[1:])


@pytest.mark.parametrize("option", ["--follow", "--remote=sc://127.0.0.1"])
def test_counters_need_a_driver_on_this_machine(small_run, option):
    done = hearsay("analyze", small_run, "--stats", option)
    assert done.returncode == 2
    assert f"--stats cannot be used with {option.partition('=')[0]}" in done.stderr
