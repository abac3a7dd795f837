"""Paths for Spark, which takes every path to read as a pattern."""

from __future__ import annotations

import re
from pathlib import Path


def exactly(path: Path) -> str:
    """Return a pattern that matches this path only."""
    return re.sub(r"[\\*?\[\]{}^,]", r"\\\g<0>", str(path))
