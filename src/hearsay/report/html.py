"""HTML that loads nothing: elements with escaped content, tables, documents, and their files."""

from __future__ import annotations

import json
import tomllib
from base64 import b64encode
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from pathlib import Path
from stat import S_ISREG
from typing import Any, BinaryIO

from hearsay.number_text import count
from hearsay.report import palette
from hearsay.text import one_line
from hearsay.trace.folder.durable import write_durably
from hearsay.user_errors import Failure
from hearsay.version import __version__

GENERATOR = '<meta name="generator" content="hearsay">'
"""The element in the head of a report by which a file is recognized as a report."""
_FOOTER_OF_0_1 = b"<footer>Written by hearsay "
_BEGINNING = b'<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8">'
_HEAD_BYTES = 1024
_MAX_BYTES_OF_0_1 = 64 << 20


class ReportError(Failure):
    """Failure to read a run for a report, or to write a report or picture. The message names the path."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


def require_report_or_nothing(path: Path) -> None:
    """Raise `ReportError` if the path exists and is not a report of Hearsay, or if it cannot be inspected."""
    require_own_or_nothing(path, _is_report, "report", "--out")


def require_own_or_nothing(path: Path, is_own: Callable[[BinaryIO], bool], what: str, option: str) -> None:
    """Raise `ReportError` if the path exists and is not a file for which `is_own` returns True.

    Raise it also if the path cannot be inspected. In the message, `what` is the word for such a file, and `option` is
    the option with which the user chooses another path.
    """
    try:
        if not S_ISREG(path.lstat().st_mode):
            raise ReportError(f"{path}: exists and is not a {what} of Hearsay; choose another {option}")
        with path.open("rb") as file:
            if is_own(file):
                return
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise ReportError(f"{path}: cannot write the {what} ({error.strerror})") from None
    raise ReportError(f"{path}: exists and is not a {what} of Hearsay; choose another {option} or remove it")


def write_report_file(path: Path, html: str) -> None:
    """Write a report. Raise `ReportError` if the path exists and is not a report of Hearsay, or if writing fails."""
    require_report_or_nothing(path)
    write_file(path, html)


def write_file(path: Path, content: str | bytes, what: str = "report") -> None:
    """Write a file that appears whole or not at all. If that fails, raise a `ReportError`; `what` is the word for the
    file in the message.
    """
    data = content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace")
    try:
        write_durably(path, data)
    except OSError as error:
        raise ReportError(f"{path}: cannot write the {what} ({error.strerror or error})") from None


def _is_report(file: BinaryIO) -> bool:
    """Return True if a file begins like a report and names Hearsay in its head. Reports of version 0.1 have the name
    in the footer.
    """
    head = file.read(_HEAD_BYTES)
    if not head.startswith(_BEGINNING):
        return False
    return GENERATOR.encode() in head or _FOOTER_OF_0_1 in head + file.read(_MAX_BYTES_OF_0_1)


_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


class Html(str):
    """Text that is HTML and needs no escaping."""

    __slots__ = ()


def tag(name: str, *content: object, **attributes: str | int | bool | None) -> Html:
    """Return an element with escaped content. The keyword `class_` becomes the attribute `class`, and `data_x`
    becomes `data-x`. With True an attribute has no value; with False or None it is left out.
    """
    parts: list[str] = []
    for key, value in attributes.items():
        key = key.rstrip("_").replace("_", "-")
        if value is True:
            parts.append(f" {key}")
        elif value is not None and value is not False:
            parts.append(f' {key}="{escape(visible(str(value)))}"')
    return Html(f"<{name}{''.join(parts)}>{join(content)}</{name}>")


def join(content: Iterable[object]) -> Html:
    """Return the content as HTML: texts are escaped, HTML stays as it is."""
    return Html("".join(text if isinstance(text, Html) else escape(visible(str(text))) for text in content))


def between(items: Iterable[Html], separator: str) -> list[object]:
    """Return the items with the separator between each two of them."""
    parts: list[object] = [part for item in items for part in (separator, item)]
    return parts[1:]


def visible(text: str) -> str:
    """Return the text with escapes for control characters, direction marks and lone surrogates."""
    return "".join(
        char if char.isprintable() or char == "\N{NO-BREAK SPACE}" else f"\\u{ord(char):04x}" for char in text
    )


def name_shown(name: str) -> Html:
    """Return a name from a run in an element that isolates it, so that right-to-left letters do not reorder the text
    around it.
    """
    return tag("bdi", name, class_="name", title=name)


def shortened(name: str, max_length: int) -> str:
    """Return a name as visible text of at most `max_length` characters."""
    text = visible(name)
    return text if len(text) <= max_length else f"{text[: max_length - 1]}…"


def capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def json_for_script(data: Any) -> Html:
    """Return JSON for a script element, with the characters of markup as escapes."""
    return Html(json.dumps(data, separators=(",", ":"), allow_nan=False).translate(_ESCAPES))


def document(title: str, body: Iterable[object], *, style: str, script: str = "") -> str:
    """Return a page with one style sheet and at most one script. Its policy forbids all requests and all other
    code.
    """
    style = palette.css() + style
    allowed = f"'{_source_hash(script)}'" if script else "'none'"
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src '{_source_hash(style)}'; script-src {allowed}"
    )
    head = join(
        [
            Html('<meta charset="utf-8">'),
            Html(GENERATOR),
            Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
            Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            Html('<meta name="color-scheme" content="light dark">'),
            Html('<meta name="referrer" content="no-referrer">'),
            tag("title", title),
            tag("style", Html(style)),
        ]
    )
    content = join([*body, tag("script", Html(script)) if script else ""])
    return f'<!DOCTYPE html>\n<html lang="en">\n<head>{head}</head>\n<body>{content}</body>\n</html>\n'


def footer() -> Html:
    return tag("footer", f"Written by hearsay {__version__}. Self-contained file: it loads nothing.")


def write_page(path: Path, title: str, header: Iterable[object], sections: Iterable[object], *styles: str) -> None:
    """Write a report without scripts. `styles` are the names of style sheets in `assets` that are added to those of
    all pages.
    """
    style = "".join(asset(name) for name in ("page.css", "study.css", *styles))
    body = [tag("header", *header), tag("main", *sections), footer()]
    write_report_file(path, document(title, body, style=style))


def section(title: str, id_: str, *content: object) -> Html:
    """Return a part of a page under a heading."""
    return tag("section", tag("h2", title), *content, id=id_)


def folded(title: str, id_: str, *content: object, about: str = "", class_: str = "") -> Html:
    """Return a part of a page that is closed until the reader opens it. The text `about` is next to the title."""
    small = tag("small", about) if about else ""
    summary = tag("summary", tag("h3", title), small)
    return tag("details", summary, *content, id=id_, class_=f"card opening {class_}".rstrip())


def scrolling(content: Html, label: str) -> Html:
    """Return an element that scrolls if the content is wider than the page."""
    return tag("div", content, class_="scrolling", tabindex=0, role="region", aria_label=label)


def labelled_table(
    heads: Sequence[str], rows: Iterable[Sequence[object]], label: str, text: Collection[int] = (0,)
) -> Html:
    """Return a table that becomes a list on a narrow screen. `text` has the indexes of the columns with words; all
    other columns have numbers, which are right-aligned.
    """
    kinds = [None if place in text else "number" for place in range(len(heads))]
    head = [tag("th", title, scope="col", class_=kind) for title, kind in zip(heads, kinds, strict=True)]
    body: list[Html] = []
    for first, *others in rows:
        columns = zip(others, kinds[1:], heads[1:], strict=True)
        named = [tag("td", cell, class_=kind, data_label=title) for cell, kind, title in columns]
        body.append(tag("tr", tag("th", first, scope="row"), *named))
    return scrolling(tag("table", tag("thead", tag("tr", *head)), tag("tbody", *body), class_="labelled"), label)


def cut_table(
    heads: Sequence[str], rows: Sequence[Sequence[object]], label: str, text: Collection[int], most: int
) -> Html:
    """Return a labelled table of the first `most` rows and, if there are further rows, a note with their number."""
    table, more = labelled_table(heads, rows[:most], label, text), len(rows) - most
    note = tag("p", f"{count(more)} more rows are in the output of --json.", class_="faint") if more > 0 else ""
    return join([table, note])


def asset(name: str) -> str:
    """Return the text of a file in `assets`."""
    return files("hearsay.report").joinpath("assets", name).read_text(encoding="utf-8")


@cache
def notes() -> dict[str, str]:
    """Return the notes of pages, by name."""
    return tomllib.loads(asset("notes.toml"))


def _source_hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
