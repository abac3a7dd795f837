"""Figures as people read them.

Rules:

* Rounding never makes a figure better than it is: 100 % and 0 % are said only when they are exact.
* A figure that is missing (None) is the caller's business: what was not measured needs a reason, not a dash.
"""

from __future__ import annotations

from math import floor, log10

_SPACE = "\N{NO-BREAK SPACE}"
_BYTE_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def percent(ratio: float) -> str:
    """A ratio as a percentage with as few digits as tell it from 0 and from 100 %."""
    if ratio in (0, 1):
        return f"{ratio * 100:.0f}{_SPACE}%"
    for digits in range(1, 7):
        text = f"{ratio * 100:.{digits}f}"
        if float(text) not in (0, 100):
            return f"{_trimmed(text)}{_SPACE}%"
    return f"over 99.999999{_SPACE}%" if ratio > 0.5 else f"under 0.000001{_SPACE}%"


def count(number: float) -> str:
    return f"{number:,.0f}"


def plural(number: int, noun: str, many: str | None = None) -> str:
    return f"{count(number)}{_SPACE}{noun if number == 1 else many or noun + 's'}"


def figure(number: float) -> str:
    """A number with about three significant digits."""
    if number == 0 or not 0.001 <= abs(number) < 1e15:
        return f"{number:.3g}"
    digits = max(0, 2 - floor(log10(abs(number))))
    return _trimmed(f"{number:,.{digits}f}")


def size(number: float) -> str:
    """Bytes, in steps of a thousand."""
    unit = 0
    while abs(number) >= 999.5 and unit < len(_BYTE_UNITS) - 1:
        number /= 1000
        unit += 1
    return f"{figure(number)}{_SPACE}{_BYTE_UNITS[unit]}"


def milliseconds(number: float) -> str:
    if number >= 99_950:
        return seconds(number / 1000)
    return f"{count(number) if number >= 1000 else figure(number)}{_SPACE}ms"


def seconds(number: float) -> str:
    return f"{figure(number)}{_SPACE}s"


def times(factor: float) -> str:
    return f"×{_SPACE}{figure(factor)}"


def _trimmed(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
