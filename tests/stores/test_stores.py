"""Runs and tables in S3 and HDFS: equal to those of this machine, and only those that a manifest names."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from growing_run import assert_same_tables
from servers import hdfs, s3
from simulated_runs import GO_DATA, GO_TRACES, SMALL, simulate_into

pytestmark = pytest.mark.thorough
IMPORTED = "imported"
COPY = Path(__file__).with_name("copy_and_kill.py")


@pytest.fixture(scope="module", params=[s3, hdfs], ids=["s3a", "hdfs"])
def store(request):
    with request.param() as reached:
        yield reached


@pytest.fixture(scope="module")
def settings(store) -> list[str]:
    return [word for name, value in store[1].items() for word in ("--conf", f"{name}={value}")]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return simulate_into(tmp_path_factory.mktemp("runs") / "small", "r1", "gossipsub", SMALL)


def hearsay(*arguments: object) -> subprocess.CompletedProcess[str]:
    return python("-m", "hearsay", *arguments)


def python(*arguments: object) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_GATEWAY")}
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=400)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def test_a_run_is_imported_analysed_followed_and_reported_in_a_store(store, settings, run, tmp_path):
    uri = store[0]
    trace = GO_DATA / f"{GO_TRACES[0]}.pb.gz"
    for out in (f"{uri}/{IMPORTED}", tmp_path / IMPORTED):
        done = hearsay("trace", "import", trace, "--out", out, *settings)
        assert done.returncode == 0, done.stderr
    here = hearsay("analyze", run, tmp_path / IMPORTED, "--out", tmp_path / "out", "--json")
    there = hearsay("analyze", run, f"{uri}/{IMPORTED}", "--out", f"{uri}/out", "--json", *settings)
    assert there.returncode == 0, there.stderr
    assert json.loads(there.stdout) == json.loads(here.stdout)
    followed = hearsay("analyze", "--follow", f"{uri}/{IMPORTED}", "--until-complete", *settings)
    assert followed.returncode == 0, followed.stderr
    done = hearsay("report", f"{uri}/out/small", f"{uri}/{IMPORTED}", "--out", tmp_path / "report.html", *settings)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "report.html").read_text()
    assert "not measured" in text
    assert "differs from its manifest" not in text
    done = python(COPY, f"{uri}/out/small", tmp_path / "small", *settings)
    assert done.returncode == 0, done.stderr
    assert_same_tables(tmp_path / "out/small", tmp_path / "small")


def test_a_missing_run_and_an_existing_target_are_errors(store, settings, run, tmp_path):
    uri = f"{store[0]}/nothing"
    done = hearsay("analyze", uri, *settings)
    assert done.returncode == 1
    assert f"{uri} is not a run folder" in done.stderr
    shutil.copy(GO_DATA / f"{GO_TRACES[0]}.pb.gz", tmp_path / "trace.pb.gz")
    for code in (0, 1):
        done = hearsay("trace", "import", tmp_path / "trace.pb.gz", "--out", f"{store[0]}/twice", *settings)
        assert done.returncode == code, done.stderr
    assert f"{store[0]}/twice already holds a run" in done.stderr
