"""Names from outside, and keys and values of TOML, as one line for people.

They come from configurations and from the network: characters that do not print (line breaks, escape sequences,
direction marks) are shown as their escapes, so that no name can forge a line or command a terminal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

MAX_MESSAGE = 1000
"""Maximum characters of a message about a file."""


def escape(name: str) -> str:
    """Return a name with escapes for unprintable characters. Bytes that are not UTF-8 come as `surrogateescape`."""
    return "".join(
        character if character.isprintable() and character != "\\" else _escape_of(character) for character in name
    )


def one_line(message: str) -> str:
    """Return a message that may quote others, with escapes for unprintable characters, and cut if it is long."""
    shown = "".join(character if character.isprintable() else _escape_of(character) for character in message)
    return shown if len(shown) <= MAX_MESSAGE else f"{shown[:MAX_MESSAGE]}…"


def _escape_of(character: str) -> str:
    if "\udc80" <= character <= "\udcff":
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")


BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_MAX_SHOWN = 60


def dotted(path: Iterable[str | int]) -> str:
    """Return a path of keys in TOML's form."""
    return ".".join(
        part if isinstance(part, str) and BARE_KEY.fullmatch(part) else json.dumps(part, ensure_ascii=False)
        for part in path
    )


def shown_value(value: object) -> str:
    """Return a value almost in TOML's form, on one line and cut if it is long."""
    text = value_text(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"


def value_text(value: object) -> str:
    """Return a value in TOML's form, of any length."""
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
