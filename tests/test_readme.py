"""README.md: every line runs as printed and prints what stands below it; it has one picture and at most ten links."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

from commands import hearsay
from package_readme import readme_for_index

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def of_language(language: str) -> list[str]:
    return [text for name, text in BLOCKS if name == language]


def test_every_block_is_of_a_kind_that_is_run():
    assert {name for name, _ in BLOCKS} == {"", "console", "python", "text"}


def test_the_two_commands_are_targets_of_make():
    (block,) = of_language("")
    commands = block.splitlines()
    assert len(commands) == 2
    for command in commands:
        assert (
            subprocess.run([*command.split(), "--dry-run"], cwd=ROOT, capture_output=True, check=False).returncode
            == 0
        )


def test_commands_print_what_stands_below_them(tmp_path):
    (block,) = of_language("console")
    printed = ""
    for command in re.findall(r"^\$ hearsay (.*)$", block, re.MULTILINE):
        done = hearsay(*shlex.split(command), cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        printed += f"$ hearsay {command}\n{done.stdout}"
    assert printed == block


def test_programs_print_what_stands_below_them():
    pairs = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(pairs) == len(of_language("python")) == len(of_language("text")) == 2
    for program, expected in pairs:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(program, {})
        assert printed.getvalue() == expected


def test_it_has_one_picture_and_at_most_ten_links():
    assert len(re.findall(r"!\[", PAGE)) == 1
    assert len(re.findall(r"(?<!!)\[[^\]]*\]\(", PAGE)) <= 10


def test_the_package_has_no_relative_links():
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "metadata"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    readme = json.loads(done.stdout)["readme"]
    assert readme["content-type"] == "text/markdown"
    assert "](" not in readme["text"]
    assert "architecture (`ARCHITECTURE.md`)" in readme["text"]
    assert readme["text"].startswith("# Hearsay\n\nHearsay simulates")
    below = readme_for_index(PAGE, {"Source": "https://example.org/tree/"})
    links = re.findall(r"\]\(([^)]*)\)", below)
    assert len(links) == len(re.findall(r"(?<!!)\[[^\]]*\]\(", PAGE))
    assert all(link.startswith("https://example.org/tree/") for link in links)
