"""The walk-throughs of CONTRIBUTING name files that there are, say what is in them, and leave none out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
EXAMPLE = re.compile(r"\bGRAFT-6\b|\bgraft_answers?\b")
"""What the rule of the example is called wherever it stands or is followed."""


def steps(heading: str) -> list[tuple[str, list[str]]]:
    """The file of each row of a section's table, and the texts that are to be in it."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return [(file.strip("`"), re.findall(r"`([^`]+)`", there)) for _, file, there in rows[2:]]


@pytest.mark.parametrize(
    ("file", "texts"), [step for heading in ("Change one rule", "Add a router") for step in steps(heading)]
)
def test_a_step_is_where_it_is_said_to_be(file, texts):
    text = (ROOT / file).read_text(encoding="utf-8")
    assert texts
    assert [missing for missing in texts if missing not in text] == []


def test_changing_one_rule_leaves_no_file_out():
    followed = {
        path.relative_to(ROOT).as_posix()
        for pattern in ("src/**/*.py", "tests/**/*.py", "tests/**/*.toml", "tests/interaction/*.txt")
        for path in ROOT.glob(pattern)
        if path != Path(__file__) and EXAMPLE.search(path.read_text(encoding="utf-8"))
    }
    assert followed <= {file for file, _ in steps("Change one rule")}


def test_targets_of_make_are_there():
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    pages = [PAGE, *((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "RELEASING.md"))]
    named = {name for page in pages for name in re.findall(r"(?:^    |^|`)make ([a-z-]+)", page, re.MULTILINE)}
    assert named
    assert named <= set(targets)
