"""Words that the glossary tells to avoid do not spread: each place keeps its bound, and other places have none."""

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
    assert sorted(words.found(file)) == [(1, "beside"), (1, "told"), (2, "Who"), (3, "nobody"), (3, "so many")]


@pytest.mark.parametrize("place", PLACES)
def test_a_place_keeps_its_bound(place):
    assert words.count(place) <= words.budgets().get(place, 0), f"see `python tools/words.py {place}`"
