"""A small table as HTML, for notebooks: everything is escaped, and nothing is styled that a dark page would fight."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_RIGHT = ' style="text-align: right"'


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "", left: int = 1) -> str:
    """The rows below their head, if that says anything. All but the first `left` columns are right-aligned."""
    parts = ["<table>"]
    if caption:
        parts.append(f"<caption>{escape(caption)}</caption>")
    if any(head):
        parts.append(f"<thead>{_row(head, 'th', left)}</thead>")
    parts.append(f"<tbody>{''.join(_row(row, 'td', left) for row in rows)}</tbody></table>")
    return "".join(parts)


def _row(cells: Sequence[str], name: str, left: int) -> str:
    inside = "".join(
        f"<{name}{'' if place < left else _RIGHT}>{escape(cell)}</{name}>" for place, cell in enumerate(cells)
    )
    return f"<tr>{inside}</tr>"
