"""Paths of this machine and URIs of stores, as users and Spark write them."""

from __future__ import annotations

import re
from pathlib import Path

_HERE = re.compile(r"file:(?://)?(/(?!/).*)")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def place_of(text: str) -> Path | str:
    """Return the path of this machine that a text names, or the URI of a store as it is."""
    here = _HERE.fullmatch(text)
    return Path(here[1]) if here else text if _URI.match(text) else Path(text)


def exactly(place: Path | str) -> str:
    """Return a pattern that matches this path or URI only: Spark takes all that it reads as patterns."""
    return re.sub(r"[\\*?\[\]{}^,]", r"\\\g<0>", str(place))
