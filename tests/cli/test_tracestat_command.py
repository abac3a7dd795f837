"""A trace of go-libp2p-pubsub, imported and printed as its own tracestat prints it, by the real commands."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from commands import hearsay

DATA = Path(__file__).parents[1] / "ingest" / "data"


def test_import_then_tracestat(tmp_path):
    made = hearsay("trace", "import", "--format", "traced", DATA / "go-0.16.pb.gz", "--out", tmp_path / "run")
    assert made.returncode == 0, made.stderr
    expected = (DATA / "go-0.16.tracestat.txt").read_text()
    done = hearsay("analyze", tmp_path / "run", "--format", "tracestat")
    assert (done.returncode, done.stdout) == (0, expected)
    missing = hearsay("analyze", tmp_path / "run", tmp_path / "nowhere", "--format", "tracestat")
    assert (missing.returncode, missing.stdout) == (1, f"== run\n{expected}")
    assert "nowhere" in missing.stderr
    allowed = hearsay("analyze", tmp_path / "run", tmp_path / "nowhere", "--format", "tracestat", "--allow-bad")
    assert allowed.returncode == 0


@pytest.mark.thorough
def test_an_import_on_spark_is_the_import_of_one_process(tmp_path):
    given = [DATA / "go-0.16.pb.gz", DATA / "go-0.15.pb.gz"]
    here = hearsay("trace", "import", *given, "--out", tmp_path / "here")
    there = hearsay("trace", "import", *given, "--out", tmp_path / "there", "--master", "local[2]")
    assert (here.returncode, there.returncode) == (0, 0), there.stderr
    assert there.stdout.replace("there", "here") == here.stdout
    compared = hearsay("trace", "diff", tmp_path / "here", tmp_path / "there")
    assert compared.stdout == "the traces are equal\n"


def test_an_import_on_a_cluster_that_is_not_there_leaves_no_run(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    away = hearsay(
        "trace", "import", DATA / "go-0.16.pb.gz", "--out", tmp_path / "r", "--remote", f"sc://127.0.0.1:{port}"
    )
    assert away.returncode == 1
    assert "no session at sc://" in away.stderr
    assert hearsay("trace", "import", DATA / "go-0.16.pb.gz", "--out", tmp_path / "r").returncode == 0
