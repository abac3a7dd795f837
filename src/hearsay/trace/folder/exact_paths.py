"""Local paths and URIs of stores, as users and Spark write them."""

from __future__ import annotations

import re
from pathlib import Path

_HERE = re.compile(r"file:(?://)?(/(?!/).*)")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def place_of(text: str) -> Path | str:
    """Return the local path that a text names, or the text itself if it is the URI of a store."""
    here = _HERE.fullmatch(text)
    return Path(here[1]) if here else text if _URI.match(text) else Path(text)


def exactly(place: Path | str) -> str:
    """Return a pattern that matches only this path or URI: Spark interprets all paths as patterns."""
    return re.sub(r"[\\*?\[\]{}^,]", r"\\\g<0>", str(place))
