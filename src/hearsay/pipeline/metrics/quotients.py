"""Ratios as all tables have them."""

from __future__ import annotations


def quotient(part: float | None, whole: float | None) -> float | None:
    """part / whole, None when there is nothing to divide or to divide by."""
    return None if part is None or not whole or whole < 0 else float(part) / float(whole)
