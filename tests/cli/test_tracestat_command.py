"""A trace of go-libp2p-pubsub, imported and told as its own tracestat tells it, by the real commands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DATA = Path(__file__).parents[1] / "ingest" / "data"


def hearsay(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hearsay", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=200)


def test_import_then_tracestat(tmp_path):
    made = hearsay("trace", "import", "--format", "traced", DATA / "go-0.16.pb.gz", "--out", tmp_path / "run")
    assert made.returncode == 0, made.stderr
    expected = (DATA / "go-0.16.tracestat.txt").read_text()
    told = hearsay("analyze", tmp_path / "run", "--format", "tracestat")
    assert (told.returncode, told.stdout) == (0, expected)
    missing = hearsay("analyze", tmp_path / "run", tmp_path / "nowhere", "--format", "tracestat")
    assert (missing.returncode, missing.stdout) == (1, f"== run\n{expected}")
    assert "nowhere" in missing.stderr
    allowed = hearsay("analyze", tmp_path / "run", tmp_path / "nowhere", "--format", "tracestat", "--allow-bad")
    assert allowed.returncode == 0
