"""Text of figures, on the terminal and in reports. `report/assets/dom.js` has the same rules for charts.

Rules:

* At most three significant digits and three decimals, and never an exponent. Counts are exact.
* Rounding never makes a share better than it is: 100 % and 0 % appear only if they are exact.
* The unit depends on the size of the figure: ms or s, B to PB. A no-break space precedes it; `plain` makes it an
  ordinary space, for programs and terminals.
* Compared figures get as many digits as are needed to distinguish them (`apart`), or one unit and one number of
  decimals (`interval`).
* The caller handles a missing figure (None), because it needs a reason, not a dash.
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
    """Return a ratio as a percentage, with two significant digits of the smaller of `ratio` and 1 - `ratio`."""
    share = ratio * 100
    rest = min(share, 100 - share)
    if rest <= 0:
        return f"{count(share)}{SPACE}%"
    if rest < 1e-6:
        return f"over 99.999999{SPACE}%" if share > 50 else f"under 0.000001{SPACE}%"
    extra = digits - DIGITS
    return f"{_digits(share, min(7, max(1, 1 - floor(log10(rest))) + extra))}{SPACE}%"


def count(number: float, digits: int = DIGITS) -> str:
    return f"{number:,.0f}" if digits == DIGITS or number == int(number) else figure(number, digits)


def plural(number: int, noun: str, many: str | None = None) -> str:
    return f"{count(number)}{SPACE}{noun if number == 1 else many or noun + 's'}"


def figure(number: float, digits: int = DIGITS) -> str:
    """Return a number with at most `digits` significant digits."""
    if number == 0:
        return "0"
    decimals = digits - 1 - _power(number, digits)
    if decimals < 0:
        step = 10**-decimals
        return f"{floor(number / step + 0.5) * step:,}"
    most = max(DIGITS, digits)
    if 0 < number < 0.5 * 10**-most:
        return f"under {10**-most:.{most}f}"
    return _digits(number, min(decimals, most))


def size(number: float, digits: int = DIGITS) -> str:
    """Return a number of bytes with a decimal unit (kB = 1000 B), without fractions of a byte."""
    unit = _byte_unit(number)
    if unit == 0:
        return f"under 1{SPACE}B" if 0 < number < 0.5 else f"{floor(number + 0.5)}{SPACE}B"
    return f"{figure(number / 1000**unit, digits)}{SPACE}{_BYTE_UNITS[unit]}"


def milliseconds(number: float, digits: int = DIGITS) -> str:
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


def shown(value: float, form: Form) -> str:
    return FORMS[form](value)


def apart(values: Sequence[float], form: Form) -> list[str]:
    """Return the texts of compared figures, with as many digits as distinguish different figures."""
    different = len(set(values))
    for digits in range(DIGITS, _MOST_DIGITS):
        texts = [FORMS[form](value, digits) for value in values]
        if len(set(texts)) == different:
            return texts
    return [FORMS[form](value) for value in values]


def interval(middle: float, low: float, high: float, form: Form) -> str:
    """Return a change with its confidence interval: "+1.2 ms (+0.9 … +1.5)"; "the same" if all three are 0."""
    if middle == low == high == 0:
        return "the same"
    largest = max((middle, low, high), key=abs)
    middle_text, least, most = _signed((middle, low, high), form)
    unit = _unit_of(largest, form)
    return f"{middle_text}{unit}" if low == high else f"{middle_text}{unit} ({least} … {most})"


def between(low: float, high: float, form: Form) -> str:
    """Return the ends of an interval: "12 ms … 15 ms"."""
    least, most = apart((low, high), form)
    return f"{least} … {most}"


def relative(share: float, digits: int = 2) -> str:
    """Return a ratio as a rounded percentage: "12 %", "250 %"."""
    return f"{figure(share * 100, digits)}{SPACE}%"


def points(share: float) -> str:
    """Return a difference of shares in percentage points, rounded."""
    return f"{figure(share * 100, 2)}{SPACE}percentage{SPACE}points"


def probability(p: float) -> str:
    """Return the text of a p-value."""
    if p < 0.001:
        return "<0.001"
    return f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def plain(text: str) -> str:
    """Return the text with ordinary spaces."""
    return text.replace(SPACE, " ")


def _signed(values: Sequence[float], form: Form) -> list[str]:
    """Return signed amounts in one unit, with two digits for the largest, because further digits would be noise."""
    largest = max(abs(value) for value in values)
    factor = _factor(largest, form)
    amount = largest * factor
    decimals = min(DIGITS, max(0, 1 - _power(amount, 2))) if amount else 0
    if form == "count" or (form == "bytes" and largest < 999.5):
        decimals = 0
    texts: list[str] = []
    for value in values:
        text = f"{abs(value) * factor:,.{decimals}f}"
        sign = "" if not float(text.replace(",", "")) else "+" if value > 0 else MINUS
        texts.append(f"{sign}{text}")
    return texts


def _factor(largest: float, form: Form) -> float:
    if form == "percent":
        return 100
    if form == "ms" and largest >= 999.5:
        return 0.001
    if form == "bytes":
        return 1 / 1000 ** _byte_unit(largest)
    return 1


def _unit_of(largest: float, form: Form) -> str:
    """Return the unit that fits `_factor`, after a space."""
    match form:
        case "percent":
            unit = "points"
        case "ms":
            unit = "s" if abs(largest) >= 999.5 else "ms"
        case "s":
            unit = "s"
        case "bytes":
            unit = _BYTE_UNITS[_byte_unit(abs(largest))]
        case "number" | "count":
            return ""
    return f"{SPACE}{unit}"


def _byte_unit(number: float) -> int:
    unit = 0
    while number >= 999.5 and unit < len(_BYTE_UNITS) - 1:
        number /= 1000
        unit += 1
    return unit


def _power(number: float, digits: int) -> int:
    """Return the power of ten of a number that is rounded to `digits` digits."""
    return int(f"{number:.{digits - 1}e}".partition("e")[2])


def _digits(number: float, digits: int) -> str:
    """Return a number with `digits` decimals. Trailing zeros of an exact number are removed."""
    text = f"{number:,.{digits}f}"
    if "." not in text or abs(float(text.replace(",", "")) - number) > 1e-9 * abs(number):
        return text
    return text.rstrip("0").rstrip(".")
