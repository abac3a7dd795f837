"""tests/schedule.toml names existing files, each once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from schedule import ALONE, TOGETHER

ROOT = Path(__file__).parents[1]


def test_the_plan_names_files_that_are_there_each_once():
    named = Counter([*ALONE, *(file for files in TOGETHER.values() for file in files)])
    assert [file for file, count in named.items() if count > 1 or not (ROOT / file).is_file()] == []
