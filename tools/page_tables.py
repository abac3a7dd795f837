"""Generated tables of a page. The place of a table is between the lines `<!-- made: NAME -->` and `<!-- end -->`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

_TABLE = re.compile(r"(<!-- made: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def with_tables(page: Path, table: Callable[[str], str]) -> str:
    """Return the text of a page in which each generated table is `table(NAME)`."""
    text = page.read_text(encoding="utf-8")
    return _TABLE.sub(lambda place: f"{place[1]}\n{table(place[2])}\n{place[3]}", text)
