"""Keys and values on one line, as TOML writes them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_MAX_SHOWN = 60


def dotted(path: Iterable[str | int]) -> str:
    """A path of keys as TOML writes it."""
    return ".".join(
        part if isinstance(part, str) and BARE_KEY.fullmatch(part) else json.dumps(part, ensure_ascii=False)
        for part in path
    )


def shown_value(value: object) -> str:
    """A value much as TOML writes it, on one line and not too long."""
    text = value_text(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"


def value_text(value: object) -> str:
    """However long."""
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
