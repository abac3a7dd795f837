"""When two numbers are the same: sums may be made in any order."""

from __future__ import annotations

TOLERANCE = 1e-9


def are_close(found: float, wanted: float, tolerance: float) -> bool:
    """Beyond 1 the tolerance is a share of the number."""
    return abs(found - wanted) <= tolerance * max(1.0, abs(wanted))
