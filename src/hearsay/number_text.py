"""Functions that write numbers as text, for terminals and reports. `report/assets/dom.js` has the same rules for
charts.

Rules:

* A number has at most three significant digits and three decimals, unless more digits are requested. It never has an
  exponent. Counts are exact. `percent` has its own number of decimals.
* Rounding never makes a share look complete or empty: a share is shown as 100 % or 0 % only if it is exactly that.
* The unit depends on the size of the number: ms or s, B to PB. A no-break space precedes the unit. `plain` replaces
  no-break spaces by ordinary spaces, for programs and terminals.
* Numbers that a reader compares get as many digits as are needed to distinguish them (`apart`), or all have the same
  unit and the same number of decimals (`interval`).
* The caller handles a missing number (None), because a reader needs the reason, not a dash.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import floor, log10
from typing import Literal, TypeAlias

Form: TypeAlias = Literal["percent", "ms", "number", "count", "s", "bytes"]

SPACE = "\N{NO-BREAK SPACE}"
DIGITS = 3
MINUS = "\N{MINUS SIGN}"
_MOST_DIGITS = 8
_BYTE_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def percent(ratio: float, digits: int = DIGITS) -> str:
    """Return a ratio as a percentage.

    The percentage has enough decimals for two significant digits of the smaller of `ratio` and 1 - `ratio`, and at
    least one. Each digit by which `digits` exceeds `DIGITS` adds one. There are at most seven. An exact percentage
    has no trailing zeros. A ratio within 1e-8 of 0 or 1 is written as "under 0.000001 %" or "over 99.999999 %". A
    ratio that is not between 0 and 1 is rounded to a whole percentage.
    """
    share = ratio * 100
    rest = min(share, 100 - share)
    if rest <= 0:
        return f"{count(share)}{SPACE}%"
    if rest < 1e-6:
        return f"over 99.999999{SPACE}%" if share > 50 else f"under 0.000001{SPACE}%"
    extra = digits - DIGITS
    return f"{_fixed(share, min(7, max(1, 1 - floor(log10(rest))) + extra))}{SPACE}%"


def count(number: float, digits: int = DIGITS) -> str:
    """Return a number rounded to a whole number, with commas between thousands.

    If `digits` is not `DIGITS`, a number that is not whole is written as `figure` writes it.
    """
    return f"{number:,.0f}" if digits == DIGITS or number == int(number) else figure(number, digits)


def plural(number: int, noun: str, many: str | None = None) -> str:
    """Return a count with its noun: "1 node", "2 nodes". `many` is the plural if it needs more than an "s"."""
    return f"{count(number)}{SPACE}{noun if number == 1 else many or noun + 's'}"


def figure(number: float, digits: int = DIGITS) -> str:
    """Return a number with at most `digits` significant digits. It has at most three decimals, or `digits` decimals
    if that is more.

    A positive number that these decimals would round to 0 is written as "under 0.001".
    """
    if number == 0:
        return "0"
    decimals = digits - 1 - _power(number, digits)
    if decimals < 0:
        step = 10**-decimals
        return f"{floor(number / step + 0.5) * step:,}"
    most = max(DIGITS, digits)
    if 0 < number < 0.5 * 10**-most:
        return f"under {10**-most:.{most}f}"
    return _fixed(number, min(decimals, most))


def size(number: float, digits: int = DIGITS) -> str:
    """Return a number of bytes with a decimal unit (1 kB is 1000 B), without fractions of a byte."""
    unit = _byte_unit(number)
    if unit == 0:
        return f"under 1{SPACE}B" if 0 < number < 0.5 else f"{floor(number + 0.5)}{SPACE}B"
    return f"{figure(number / 1000**unit, digits)}{SPACE}{_BYTE_UNITS[unit]}"


def milliseconds(number: float, digits: int = DIGITS) -> str:
    """Return a time that is given in milliseconds: "12 ms", "1.5 s"."""
    return seconds(number / 1000, digits) if number >= 999.5 else f"{figure(number, digits)}{SPACE}ms"


def seconds(number: float, digits: int = DIGITS) -> str:
    return f"{figure(number, digits)}{SPACE}s"


FORMS: dict[Form, Callable[..., str]] = {
    "percent": percent,
    "ms": milliseconds,
    "number": figure,
    "count": count,
    "s": seconds,
    "bytes": size,
}


def text_of(value: float, form: Form) -> str:
    """Return a number as text in the given form."""
    return FORMS[form](value)


def apart(values: Sequence[float], form: Form) -> list[str]:
    """Return the texts of numbers that a reader compares, with as many digits as different numbers need to have
    different texts. If seven digits are too few, each number gets its usual digits.
    """
    different = len(set(values))
    for digits in range(DIGITS, _MOST_DIGITS):
        texts = [FORMS[form](value, digits) for value in values]
        if len(set(texts)) == different:
            return texts
    return [FORMS[form](value) for value in values]


def interval(middle: float, low: float, high: float, form: Form) -> str:
    """Return a change with its confidence interval: "+1.2 ms (+0.9 … +1.5)".

    If `low` equals `high`, return the change alone. If all three numbers are 0, return "the same".
    """
    if middle == low == high == 0:
        return "the same"
    largest = max(map(abs, (middle, low, high)))
    factor, unit = _unit_of(largest, form)
    amount = largest * factor
    # Two digits of the largest amount: further digits would be noise.
    decimals = min(DIGITS, max(0, 1 - _power(amount, 2)))
    if form == "count" or (form == "bytes" and largest < 999.5):
        decimals = 0
    middle_text, least, most = (_signed(value * factor, decimals) for value in (middle, low, high))
    return f"{middle_text}{unit}" if low == high else f"{middle_text}{unit} ({least} … {most})"


def between(low: float, high: float, form: Form) -> str:
    """Return the two ends of an interval, with enough digits to distinguish them: "12 ms … 15 ms"."""
    least, most = apart((low, high), form)
    return f"{least} … {most}"


def relative(share: float, digits: int = 2) -> str:
    """Return a ratio as a percentage with at most `digits` significant digits: "12 %", "250 %"."""
    return f"{figure(share * 100, digits)}{SPACE}%"


def points(share: float) -> str:
    """Return a difference of shares in percentage points, with at most two significant digits."""
    return f"{figure(share * 100, 2)}{SPACE}percentage{SPACE}points"


def probability(p: float) -> str:
    """Return the text of a p-value."""
    if p < 0.001:
        return "<0.001"
    return f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def plain(text: str) -> str:
    """Return the text with ordinary spaces in place of no-break spaces."""
    return text.replace(SPACE, " ")


def _signed(amount: float, decimals: int) -> str:
    text = f"{abs(amount):,.{decimals}f}"
    sign = "" if not float(text.replace(",", "")) else "+" if amount > 0 else MINUS
    return f"{sign}{text}"


def _unit_of(largest: float, form: Form) -> tuple[float, str]:
    """Return a factor, and the text of a unit with a space before it; an empty text for a number without a unit.

    A number of the form, multiplied by the factor, is in this unit. `largest` is the largest such number.
    """
    match form:
        case "percent":
            return 100, f"{SPACE}points"
        case "ms" if largest >= 999.5:
            return 0.001, f"{SPACE}s"
        case "ms" | "s":
            return 1, f"{SPACE}{form}"
        case "bytes":
            unit = _byte_unit(largest)
            return 1 / 1000**unit, f"{SPACE}{_BYTE_UNITS[unit]}"
        case _:
            return 1, ""


def _byte_unit(number: float) -> int:
    unit = 0
    while number >= 999.5 and unit < len(_BYTE_UNITS) - 1:
        number /= 1000
        unit += 1
    return unit


def _power(number: float, digits: int) -> int:
    """Return the exponent of a number in scientific notation with `digits` significant digits.

    The exponent of 9,999 with two digits is 4, because 9,999 is rounded to 10,000.
    """
    return int(f"{number:.{digits - 1}e}".partition("e")[2])


def _fixed(number: float, decimals: int) -> str:
    """Return a number with `decimals` decimals. If this is exact, remove trailing zeros."""
    text = f"{number:,.{decimals}f}"
    if "." not in text or abs(float(text.replace(",", "")) - number) > 1e-9 * abs(number):
        return text
    return text.rstrip("0").rstrip(".")
