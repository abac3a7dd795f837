"""Commands of docs/index.md and the program of the node guide run as printed; slow commands are only read."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from commands import hearsay

ROOT = Path(__file__).parents[1]
TABLE = (ROOT / "docs" / "index.md").read_text(encoding="utf-8").partition("## Install")[0]
COMMANDS = [text for text in re.findall(r"`([^`]*)`", TABLE) if "hearsay " in text]
PLANNED = ("compare", "sweep", "tune")
"""Commands that run many simulations: `--dry-run` reads what they are given."""
UNTRIED = ("analyze", "check", "demo", "node", "report", "watch")
"""Commands that have tests with Spark, or that end with Ctrl-C."""


def test_the_index_has_a_command_for_each_subject():
    named = {text.partition("hearsay ")[2].split()[0] for text in COMMANDS}
    assert named >= {*PLANNED, *UNTRIED, "simulate", "explain", "score", "trace", "vectors"}


@pytest.mark.thorough
def test_commands_of_the_index_run(tmp_path):
    for name in ("examples", "studies", "tests", "vectors"):
        (tmp_path / name).symlink_to(ROOT / name)
    for text in COMMANDS:
        before, _, after = text.partition("hearsay ")
        words = shlex.split(after)
        if words[0] in UNTRIED:
            assert all((ROOT / word).exists() for word in words if word.endswith(".toml"))
            continue
        path = [before.strip().removeprefix("PYTHONPATH="), os.environ.get("PYTHONPATH", "")]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, path))}
        done = hearsay(*words, *(["--dry-run"] if words[0] in PLANNED else []), cwd=tmp_path, env=environment)
        assert done.returncode == (1 if words[0] == "score" else 0), (text, done.stderr)


def test_the_guide_shows_the_file_of_budgets():
    budgets, guide = ((ROOT / name).read_text("utf-8") for name in ("examples/budgets.toml", "docs/guide/studies.md"))
    assert f"```toml\n{budgets}```" in guide


def test_the_program_of_the_node_guide_validates_and_has_metrics():
    page = (ROOT / "docs/guide/node.md").read_text("utf-8")
    program = page.partition("## In a program\n\n```python\n")[2].partition("```")[0]
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    metrics, received = done.stdout.splitlines()
    assert metrics.startswith("http://127.0.0.1:")
    assert received.endswith(" b'hello'")
