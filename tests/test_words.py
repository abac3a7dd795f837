"""Each place keeps its bound on words that the glossary advises against; places without a bound have no such word."""

from __future__ import annotations

import pytest
import words

PLACES = [
    *(f"src/hearsay/{path.name}" for path in (words.ROOT / "src/hearsay").iterdir() if path.name != "__pycache__"),
    *(path.name for path in words.ROOT.glob("*.md")),
    "docs",
    "tests",
    "bench",
    "interop",
    "tools",
]


def test_the_finder_sees_names_texts_and_openings(tmp_path):
    file = tmp_path / "module.py"
    file.write_text('def told(beside):\n    """Who is there."""\n    return "nobody"  # so many\n', encoding="utf-8")
    assert sorted(words.occurrences(file)) == [(1, "beside"), (1, "told"), (2, "Who"), (3, "nobody"), (3, "so many")]


@pytest.mark.parametrize("place", PLACES)
def test_a_place_keeps_its_bound(place):
    count, allowed = words.count(place), words.budgets().get(place, 0)
    new = "\n".join(words.lines_of(place, words.changed_lines())) or f"see `python tools/words.py {place}`"
    assert count <= allowed, f"{count} words to avoid, {allowed} are allowed. In changed lines:\n{new}"


def test_words_in_changed_lines_are_named():
    place = "src/hearsay/core"
    [*every] = words.lines_of(place)
    file, line, _ = every[0].split(":")
    here = [each for each in every if each.startswith(f"{file}:{line}:")]
    assert [*words.lines_of(place, {file: {int(line)}})] == here
