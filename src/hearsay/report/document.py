"""An HTML file that is whole: one style, at most one script, and a policy that forbids every request."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Collection, Iterable, Sequence
from hashlib import sha256
from importlib.resources import files

from hearsay.report.markup import Html, join, tag
from hearsay.report.report_file import GENERATOR
from hearsay.version import __version__


def document(title: str, body: Iterable[object], *, style: str, script: str = "") -> str:
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
    return tag("footer", f"Written by hearsay {__version__}. This file is whole: it loads nothing.")


def scrolling(table: Html, label: str) -> Html:
    return tag("div", table, class_="scrolling", tabindex=0, role="region", aria_label=label)


def labelled_table(
    heads: Sequence[str], rows: Iterable[Sequence[object]], label: str, text: Collection[int] = (0,)
) -> Html:
    """A table that becomes a list of named figures where the screen is narrow. Its first column names the rows; the
    columns in `text` hold words, the others figures."""
    head = [tag("th", title, scope="col", class_=_kind(place, text)) for place, title in enumerate(heads)]
    body = [labelled_row(heads, row, text) for row in rows]
    table = tag("table", tag("thead", tag("tr", *head)), tag("tbody", *body), class_="labelled")
    return scrolling(table, label)


def labelled_row(
    heads: Sequence[str], cells: Sequence[object], text: Collection[int] = (0,), **attributes: int | str
) -> Html:
    first, *others = cells
    told = [
        tag("td", cell, class_=_kind(place, text), data_label=heads[place]) for place, cell in enumerate(others, 1)
    ]
    return tag("tr", tag("th", first, scope="row"), *told, **attributes)


def _kind(place: int, text: Collection[int]) -> str | None:
    return None if place in text else "number"


def asset(name: str) -> str:
    return files("hearsay.report").joinpath("assets", name).read_text(encoding="utf-8")


def _source_hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
