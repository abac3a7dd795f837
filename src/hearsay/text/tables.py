"""Text of tables for terminals, and HTML of small tables for notebooks."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence
from html import escape

from hearsay.text.numbers import plain

_RIGHT = ' style="text-align: right"'


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "", left: int = 1) -> str:
    """Return an HTML table, with a head unless it is empty. Columns after the first `left` are right-aligned."""
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


WITHOUT_TERMINAL = 100
"""Default width in characters, without a terminal."""
_MIN_WIDTH = 20
_GAP = "  "


def width_of_terminal() -> int:
    return max(_MIN_WIDTH, shutil.get_terminal_size((WITHOUT_TERMINAL, 24)).columns)


def table_text(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1, width: int | None = None) -> str:
    """Return a table. The first `left` columns name a row and are left-aligned; the others are right-aligned.

    If it is wider than `width` (default: the terminal), headings wrap; then rows become columns, and last, lists.
    """
    width = width_of_terminal() if width is None else width
    head, rows = [plain(cell) for cell in head], [[plain(cell) for cell in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(head, *rows, strict=True)]
    if _total(widths) <= width:
        return "\n".join(_line(row, widths, left) for row in (head, *rows))
    bare = [
        max(max((len(word) for word in title.split()), default=0), *(len(row[place]) for row in rows), 0)
        for place, title in enumerate(head)
    ]
    if _total(bare) <= width:
        return "\n".join(_line(row, bare, left) for row in (*_head_lines(head, bare), *rows))
    titles, cells = max(map(len, head)), max((len(cell) for row in rows for cell in row), default=0)
    abreast = (width - titles) // (cells + len(_GAP))
    if left < len(head) and abreast >= min(2, len(rows)):
        parts = (rows[at : at + abreast] for at in range(0, len(rows), abreast))
        return "\n\n".join(_transposed(head, part, (titles, cells)) for part in parts)
    return "\n".join(_block(head, row, left, width) for row in rows)


def _transposed(head: Sequence[str], rows: Sequence[Sequence[str]], widths: tuple[int, int]) -> str:
    """Return a transposed table, with a column for each row. `widths` are the widths of titles and of cells."""
    lines = zip(head, *rows, strict=True)
    return "\n".join(_line(line, [widths[0], *[widths[1]] * len(rows)], 1) for line in lines)


def prose(text: str) -> str:
    """Return text with ordinary spaces, wrapped between words if stdout is a terminal."""
    if not sys.stdout.isatty():
        return plain(text)
    return plain(_wrapped(text, width_of_terminal()))


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _line(cells: Sequence[str], widths: Sequence[int], left: int) -> str:
    aligned = (
        cell.ljust(width) if place < left else cell.rjust(width)
        for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return _GAP.join(aligned).rstrip()


def _head_lines(head: Sequence[str], widths: Sequence[int]) -> list[list[str]]:
    """Return the lines of the headings, wrapped to `widths`. Each heading ends on the last line."""
    wrapped = [_wrapped(title, width).split("\n") for title, width in zip(head, widths, strict=True)]
    depth = max(map(len, wrapped))
    return [[lines[at - depth + len(lines)] if at >= depth - len(lines) else "" for lines in wrapped]
            for at in range(depth)]  # fmt: skip


def _block(head: Sequence[str], row: Sequence[str], left: int, width: int) -> str:
    """Return a row as a list: a line with its name (the first `left` cells), then each other cell with its title. If
    all columns name the row, only the first cell is the name."""
    names = left if left < len(head) else 1
    pairs = zip(head[:names], row, strict=False)
    named = row[0] if left == 1 else ", ".join(f"{title} {cell}" for title, cell in pairs)
    left = names
    lines = [_wrapped(named, width)]
    reach = max((len(title) for title in head[left:]), default=0)
    for title, cell in zip(head[left:], row[left:], strict=True):
        line = f"{_GAP}{title.ljust(reach)}{_GAP}{cell}"
        if len(line) <= width:
            lines.append(line.rstrip())
        else:
            lines.append(_wrapped(f"{_GAP}{title}: {cell}", width, indent=2 * _GAP))
    return "\n".join(lines)


def _wrapped(text: str, width: int, indent: str = "") -> str:
    return textwrap.fill(
        text, max(1, width), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )  # fmt: skip
