"""Examples of the guide are the output of the command."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from commands import hearsay

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "explain.md"
_BLOCK = re.compile(r"(<!-- explain: (.*?) -->\n```\n)(.*?)(```\n)", re.DOTALL)
_RUN = re.compile(r"hearsay simulate (.*?) --out RUN", re.DOTALL)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    command = _RUN.search(GUIDE.read_text(encoding="utf-8"))
    assert command is not None
    path = tmp_path_factory.mktemp("guide") / "RUN"
    assert hearsay("simulate", *command[1].replace("\\\n", " ").split(), "--out", path).returncode == 0
    return path


def test_examples_of_the_guide_are_the_output_of_the_command(run, monkeypatch):
    """With `RENEW=1` the output replaces the examples of the guide."""
    monkeypatch.delenv("COLUMNS", raising=False)
    text = GUIDE.read_text(encoding="utf-8")

    def run_example(block: re.Match[str]) -> str:
        done = hearsay("explain", run, *block[2].split())
        assert (done.returncode, done.stderr) == (0, "")
        return f"{block[1]}{done.stdout}{block[4]}"

    renewed = _BLOCK.sub(run_example, text)
    if os.environ.get("RENEW"):
        GUIDE.write_text(renewed, encoding="utf-8")
    assert len(_BLOCK.findall(text)) == 3
    assert renewed == GUIDE.read_text(encoding="utf-8")
