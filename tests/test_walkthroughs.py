"""The walk-throughs and the table of ARCHITECTURE name existing files and their content, and omit none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/design/walkthroughs.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
EXAMPLE = re.compile(r"\bGRAFT-6\b|\bgraft_answers?\b")
"""The id of the example's rule, at its definition and in all that follows it."""


def steps(page: str, heading: str) -> list[tuple[str, list[str]]]:
    """Return the file of each row of a section's table, with the texts that it must contain."""
    section = page.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return [(file.strip("`"), re.findall(r"`([^`]+)`", there)) for _, file, there, *_ in rows[2:]]


TABLES = ("Change one rule", "Add a router", "Add a control message", "Add a metric")
PLACES = steps(ARCHITECTURE, "Where do I change …")


@pytest.mark.parametrize(
    ("file", "texts"),
    [*PLACES, *(step for heading in TABLES for step in steps(PAGE, heading))],
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
    assert followed <= {file for file, _ in steps(PAGE, "Change one rule")}


def test_adding_a_control_message_leaves_no_file_out():
    example = re.compile(r"\bIDontWant\b|PartKind\.IDONTWANT\b|\bcontrol\.idontwant\b")
    followed = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "src").rglob("*.py")
        if example.search(path.read_text(encoding="utf-8"))
    }
    assert followed <= {file for file, _ in steps(PAGE, "Add a control message")}


def files(heading: str) -> tuple[int, int]:
    """Return the numbers of files that each change needs, and that only some need: those from a bold word on."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line[:1] == "|"][2:]
    needed = next((number for number, row in enumerate(rows) if row.startswith("|**")), len(rows))
    return needed, len(rows) - needed


def test_the_numbers_of_files_are_those_of_the_tables():
    (rule, _), (router, _), message, metric = map(files, TABLES)
    assert f"(#change-one-rule)|{rule}|" in PAGE
    assert f"(#add-a-router)|1 in a package of your own, {router} in this one|" in PAGE
    assert f"(#add-a-control-message)|{message[0]}, and {message[1]} for some messages|" in PAGE
    assert f"(#add-a-metric)|{metric[0]}, and {metric[1]} for some views|" in PAGE
    assert f"walkthroughs.md#add-a-control-message): {message[0]} to {sum(message)} files" in ARCHITECTURE
    assert f"walkthroughs.md#add-a-metric): {metric[0]} to {sum(metric)} files" in ARCHITECTURE


def test_the_table_of_places_has_twelve_changes():
    assert len(PLACES) == 12


def test_targets_of_make_are_there():
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    pages = [(ROOT / name).read_text(encoding="utf-8") for name in ("CONTRIBUTING.md", "README.md", "RELEASING.md")]
    named = {name for page in pages for name in re.findall(r"(?:^    |^|`)make ([a-z-]+)", page, re.MULTILINE)}
    assert named
    assert named <= set(targets)
