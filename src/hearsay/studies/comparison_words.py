"""What a comparison found, in plain words that follow the numbers."""

from __future__ import annotations

from collections.abc import Sequence

from hearsay.studies.comparison import Compared, Verdict
from hearsay.studies.statistics import Difference

_POINTS = "percentage points"


def verdict_words(line: Compared) -> str:
    """One figure's verdict: "better: 12 % less (between 10 % and 14 %)"."""
    difference = line.difference
    if difference is None:
        return "not measured: fewer than two seeds have it"
    if line.verdict is Verdict.EQUAL:
        return "no difference: the same on every seed"
    if line.verdict is Verdict.UNDETECTED:
        text = f"no difference detectable with {difference.seeds} seeds (would see {_amount(line, line.detectable)})"
        if line.by_itself:
            text += "; its own interval leaves 0 out, which by chance one of several figures may do"
        return text
    return f"{line.verdict}: {_change(line, difference)}"


def overall_words(lines: Sequence[Compared], names: tuple[str, str]) -> str:
    """All figures in a sentence or two."""
    by_verdict = {verdict: [line.figure.title for line in lines if line.verdict is verdict] for verdict in Verdict}
    parts = [
        f"{verdict} in {_listed(by_verdict[verdict])}"
        for verdict in (Verdict.BETTER, Verdict.WORSE)
        if by_verdict[verdict]
    ]
    same = by_verdict[Verdict.EQUAL] + by_verdict[Verdict.UNDETECTED]
    seeds = max((line.difference.seeds for line in lines if line.difference is not None), default=0)
    if not parts:
        if not same:
            return "Nothing was measured on two seeds or more."
        least = [line for line in lines if line.verdict is Verdict.UNDETECTED]
        sees = "; ".join(f"{line.figure.title} {_amount(line, line.detectable)}" for line in least)
        would = f" (would see: {sees})" if sees else ""
        return f"No difference detectable with {seeds} seeds{would}."
    text = f"{names[1]} against {names[0]}: {'; '.join(parts)}."
    return f"{text} No difference detectable in {_listed(same)}." if same else text


def interval_words(line: Compared) -> str:
    """The difference with its interval, in the figure's own unit."""
    difference = line.difference
    if difference is None:
        return "–"
    low, high = (_signed(line, bound) for bound in (difference.low, difference.high))
    return f"{_signed(line, difference.estimate)} ({low} … {high})"


def value_words(line: Compared, value: float) -> str:
    match line.figure.form:
        case "percent":
            return f"{value:.3%}"
        case "ms":
            return f"{value:,.1f} ms"
        case "s":
            return f"{value:,.1f} s"
        case "count" | "bytes":
            return f"{value:,.0f}"
        case "number":
            return f"{value:,.3f}"


def _change(line: Compared, difference: Difference) -> str:
    bounds = sorted((abs(difference.low), abs(difference.high)))
    more = "more" if difference.estimate > 0 else "less"
    low, high = (_amount(line, bound) for bound in bounds)
    low = low.removesuffix(f" {_POINTS}")
    return f"{_amount(line, abs(difference.estimate))} {more} (between {low} and {high})"


def _amount(line: Compared, amount: float) -> str:
    """A difference without its sign: a share of A's mean, where that says something."""
    difference = line.difference
    assert difference is not None
    if line.figure.form == "percent":
        return f"{amount * 100:.2g} {_POINTS}"
    relative = difference.relative(amount)
    return value_words(line, amount) if relative is None else f"{relative * 100:.2g} %"


def _signed(line: Compared, value: float) -> str:
    sign = "+" if value > 0 else "−" if value < 0 else "±"
    if line.figure.form == "percent":
        return f"{sign}{abs(value) * 100:.3f} points"
    return f"{sign}{value_words(line, abs(value))}"


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
