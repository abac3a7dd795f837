"""Functions that write names, values and tables as text, and small tables as HTML for notebooks.

Names are untrusted: they come from configurations and from the network. `escape` and `one_line` escape unprintable
characters (line breaks, escape sequences, direction marks), so that no name can forge a line or control a terminal.
Keys and values are written as TOML on one line.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from html import escape as html_escape
from itertools import zip_longest
from typing import cast

from hearsay.number_text import plain

MAX_MESSAGE = 1000
"""Number of characters after which `one_line` cuts a message."""
BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_MAX_SHOWN = 60
_RIGHT = ' style="text-align: right"'
WITHOUT_TERMINAL = 100
"""Width in characters that is used if there is no terminal."""
_MIN_WIDTH = 20
_GAP = "  "


def escape(name: str) -> str:
    """Return a name with escapes for unprintable characters and backslashes.

    If the name was decoded with `surrogateescape`, bytes that are not UTF-8 become `\\xNN`.
    """
    return "".join(
        character if character.isprintable() and character != "\\" else _escape_of(character) for character in name
    )


def one_line(message: str) -> str:
    """Return a message with escapes for unprintable characters. After `MAX_MESSAGE` characters it is cut, and ends
    with an ellipsis.
    """
    shown = "".join(character if character.isprintable() else _escape_of(character) for character in message)
    return shown if len(shown) <= MAX_MESSAGE else f"{shown[:MAX_MESSAGE]}…"


def _escape_of(character: str) -> str:
    if "\udc80" <= character <= "\udcff":
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")


def dotted(path: Iterable[str | int]) -> str:
    """Return a path of keys and list indices as a dotted key of TOML: `a."b c".0`."""
    return ".".join(
        part if isinstance(part, str) and BARE_KEY.fullmatch(part) else json.dumps(part, ensure_ascii=False)
        for part in path
    )


def shown_value(value: object) -> str:
    """Return a value as TOML on one line. If it has more than 60 characters, it is cut and ends with an ellipsis."""
    text = value_text(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"


def value_text(value: object) -> str:
    """Return a value as TOML on one line, which may be long."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case list() | tuple():
            return f"[{', '.join(map(value_text, cast('Sequence[object]', value)))}]"
        case dict():
            pairs = cast("Mapping[str, object]", value).items()
            return "{" + ", ".join(f"{dotted([key])} = {value_text(inner)}" for key, inner in pairs) + "}"
        case _:
            return str(value)


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "", left: int = 1) -> str:
    """Return an HTML table. The first `left` columns are left-aligned, and all other columns are right-aligned.

    The table has no heading row if `head` is empty or has only empty texts.
    """
    parts = ["<table>"]
    if caption:
        parts.append(f"<caption>{html_escape(caption)}</caption>")
    if any(head):
        parts.append(f"<thead>{_row(head, 'th', left)}</thead>")
    parts.append(f"<tbody>{''.join(_row(row, 'td', left) for row in rows)}</tbody></table>")
    return "".join(parts)


def _row(cells: Sequence[str], name: str, left: int) -> str:
    inside = "".join(
        f"<{name}{'' if place < left else _RIGHT}>{html_escape(cell)}</{name}>" for place, cell in enumerate(cells)
    )
    return f"<tr>{inside}</tr>"


def width_of_terminal() -> int:
    """Return the width of the terminal in characters, but at least 20; `WITHOUT_TERMINAL` if there is none."""
    return max(_MIN_WIDTH, shutil.get_terminal_size((WITHOUT_TERMINAL, 24)).columns)


def table_text(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1, width: int | None = None) -> str:
    """Return a table. The first `left` columns name a row and are left-aligned; all other columns are right-aligned.

    If the table is wider than `width` (None: the width of the terminal), its headings are wrapped. If the table is
    still too wide, its rows are written as columns, in several tables if necessary. If no row or only one of several
    rows fits, or if all columns name a row, the rows are written as lists.
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
    """Return a table with a column for each row. `widths` are the width of the headings and the width of a cell."""
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
    """Return the lines of the headings, wrapped to `widths`. Shorter headings have empty lines above them."""
    wrapped = [_wrapped(title, width).split("\n")[::-1] for title, width in zip(head, widths, strict=True)]
    return [list(line) for line in zip_longest(*wrapped, fillvalue="")][::-1]


def _block(head: Sequence[str], row: Sequence[str], left: int, width: int) -> str:
    """Return a row as a list: a line with the row's name (the first `left` cells), and below it each other cell with
    its heading. If all columns name the row, only the first cell is the name.
    """
    is_one, left = left == 1, left if left < len(head) else 1
    named = row[0] if is_one else ", ".join(f"{title} {cell}" for title, cell in zip(head[:left], row, strict=False))
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
