"""The checks of scores as a table: writes its place in docs/guide/score-check.md."""

from __future__ import annotations

import re
from pathlib import Path

from hearsay.score_check.checks.all_checks import CHECKS

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "score-check.md"
_MADE = re.compile(r"(<!-- made: checks -->\n).*?(<!-- end -->)", re.DOTALL)


def page() -> str:
    """The page with its table as it should be."""
    rows = "\n".join(f"|`{each.id}`|{each.severity}|{each.meaning}|" for each in CHECKS)
    table = f"|check|severity|finding|\n|-|-|-|\n{rows}\n"
    return _MADE.sub(lambda found: f"{found[1]}\n{table}\n{found[2]}", PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
