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
    """A ratio as a percentage, with two digits of what is there or of what is missing, whichever is less."""
    share = ratio * 100
    rest = min(share, 100 - share)
    if rest <= 0:
        return f"{count(share)}{_SPACE}%"
    if rest < 1e-6:
        return f"over 99.999999{_SPACE}%" if share > 50 else f"under 0.000001{_SPACE}%"
    return f"{_digits(share, min(7, max(1, 1 - floor(log10(rest)))))}{_SPACE}%"


def count(number: float) -> str:
    return f"{number:,.0f}"


def plural(number: int, noun: str, many: str | None = None) -> str:
    return f"{count(number)}{_SPACE}{noun if number == 1 else many or noun + 's'}"


def figure(number: float) -> str:
    """A number with about three significant digits; fewer where they say all."""
    if number == 0:
        return "0"
    if not 0.001 <= abs(number) < 1e15:
        return f"{number:.2e}"
    return _digits(number, max(0, 2 - floor(log10(abs(number)))))


def size(number: float) -> str:
    """Bytes, in steps of a thousand."""
    unit = 0
    while abs(number) >= 999.5 and unit < len(_BYTE_UNITS) - 1:
        number /= 1000
        unit += 1
    return f"{figure(number)}{_SPACE}{_BYTE_UNITS[unit]}"


def milliseconds(number: float) -> str:
    return seconds(number / 1000) if number >= 999.5 else f"{figure(number)}{_SPACE}ms"


def seconds(number: float) -> str:
    return f"{figure(number)}{_SPACE}s"


def _digits(number: float, digits: int) -> str:
    """So many digits after the point; without zeros at the end if the number is exactly what is then said."""
    text = f"{number:,.{digits}f}"
    if "." not in text or abs(float(text.replace(",", "")) - number) > 1e-9 * abs(number):
        return text
    return text.rstrip("0").rstrip(".")
