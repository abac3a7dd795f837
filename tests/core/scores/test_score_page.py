"""Tables of the guide about scores, which are generated from the named sets."""

from __future__ import annotations

import score_tables


def test_the_tables_of_the_guide_are_made_from_the_sets():
    assert score_tables.PAGE.read_text(encoding="utf-8") == score_tables.page(), "run `python tools/score_tables.py`"


def test_every_table_is_there():
    text = score_tables.PAGE.read_text(encoding="utf-8")
    for name in ("set-peers", "set-thresholds", "set-topics"):
        assert f"<!-- made: {name} -->\n\n|parameter|" in text
