"""HTML without accidents: what is not `Html` is escaped.

Names of runs and topics come from outside. They are shown as they are, but characters that no reader can
see, or that turn the direction of text, are shown as their escapes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from html import escape
from typing import Any

_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, *content: object, **attributes: str | int | bool | None) -> Html:
    """An element. `class_` is the class, `data_x` becomes `data-x`; True is an attribute without value, None none."""
    parts: list[str] = []
    for key, value in attributes.items():
        key = key.rstrip("_").replace("_", "-")
        if value is True:
            parts.append(f" {key}")
        elif value is not None and value is not False:
            parts.append(f' {key}="{escape(visible(str(value)))}"')
    return Html(f"<{name}{''.join(parts)}>{join(content)}</{name}>")


def join(content: Iterable[object]) -> Html:
    return Html("".join(text if isinstance(text, Html) else escape(visible(str(text))) for text in content))


def visible(text: str) -> str:
    """Control characters, marks of direction and lone surrogates as escapes."""
    return "".join(
        char if char.isprintable() or char == "\N{NO-BREAK SPACE}" else f"\\u{ord(char):04x}" for char in text
    )


def json_for_script(document: Any) -> Html:
    """JSON that no HTML parser mistakes for markup, in a script element."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    for char, replacement in _ESCAPES.items():
        text = text.replace(char, replacement)
    return Html(text)
