"""Text of untrusted names, and of TOML keys and values, on one line.

Names come from configurations and from the network. Unprintable characters (line breaks, escape sequences, direction
marks) are escaped, so that no name can forge a line or control a terminal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

MAX_MESSAGE = 1000
"""Maximum characters of a message in `one_line`."""


def escape(name: str) -> str:
    """Return a name with escaped unprintable characters and backslashes.

    Bytes that are not UTF-8 must be decoded with `surrogateescape`; they become `\\xNN`.
    """
    return "".join(
        character if character.isprintable() and character != "\\" else _escape_of(character) for character in name
    )


def one_line(message: str) -> str:
    """Return a message with unprintable characters escaped. Cut a long message."""
    shown = "".join(character if character.isprintable() else _escape_of(character) for character in message)
    return shown if len(shown) <= MAX_MESSAGE else f"{shown[:MAX_MESSAGE]}…"


def _escape_of(character: str) -> str:
    if "\udc80" <= character <= "\udcff":
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")


BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_MAX_SHOWN = 60


def dotted(path: Iterable[str | int]) -> str:
    """Return a path of keys as a dotted key of TOML."""
    return ".".join(
        part if isinstance(part, str) and BARE_KEY.fullmatch(part) else json.dumps(part, ensure_ascii=False)
        for part in path
    )


def shown_value(value: object) -> str:
    """Return a value as TOML on one line. Cut a long value."""
    text = value_text(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"


def value_text(value: object) -> str:
    """Return a value as TOML, of any length."""
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
