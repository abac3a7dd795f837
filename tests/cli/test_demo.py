"""`hearsay demo`, from simulations to the report, with a PATH without Java."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

NODES = 40


def without_java(stand_in: Path) -> dict[str, str]:
    """Return the environment, where a folder of links to other programs replaces the folders of PATH with Java."""
    stand_in.mkdir()
    folders: list[str] = []
    for folder in os.environ["PATH"].split(os.pathsep):
        if not (Path(folder) / "java").exists():
            folders.append(folder)
            continue
        for program in Path(folder).iterdir():
            link = stand_in / program.name
            if not program.name.startswith("java") and not link.is_symlink():
                link.symlink_to(program)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JAVA", "SPARK", "PYSPARK"))}
    return {**kept, "PATH": os.pathsep.join([*folders, str(stand_in)]), "COLUMNS": "120"}


@pytest.mark.thorough
def test_demo_simulates_analyses_and_reports_without_a_system_java(tmp_path):
    command = [sys.executable, "-m", "hearsay", "demo", "--nodes", str(NODES), "--messages", "3", "--out", "demo-run"]
    done = subprocess.run(
        command, capture_output=True, text=True, env=without_java(tmp_path / "bin"), cwd=tmp_path, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answers = [line.split() for line in done.stdout.splitlines()]
    routers = ["floodsub", "randomsub", "meshsub", "gossipsub", "episub"]
    assert [words[0] for words in answers if len(words) > 3 and words[0] in routers] == routers
    assert "on Spark in" in done.stdout
    page = (tmp_path / "demo-run" / "report.html").read_text(encoding="utf-8")
    assert all(router in page for router in routers)
    assert f"report: {tmp_path / 'demo-run' / 'report.html'}" in done.stdout
