"""What a comparison found, in plain words that follow the numbers."""

from __future__ import annotations

from collections.abc import Sequence

from hearsay.studies.comparison import FigureComparison, Verdict
from hearsay.studies.statistics import Difference
from hearsay.text.numbers import SPACE, apart, interval, points, relative, shown

_SHORT = {Verdict.EQUAL: "the same", Verdict.UNDETECTED: "not seen"}


def verdict_words(line: FigureComparison) -> str:
    """One figure's verdict: "better: 12 % less (between 10 % and 14 %)"."""
    difference = line.difference
    if difference is None:
        without = [side for side, mean in zip("AB", line.means, strict=True) if mean is None]
        where = f" in {without[0]}" if len(without) == 1 else ""
        return f"not measured{where}: fewer than two seeds have it"
    if line.verdict is Verdict.EQUAL:
        return "no difference: the same on every seed"
    if line.verdict is Verdict.UNDETECTED:
        text = f"no difference detectable with {difference.seeds} seeds (would see {_amount(line, line.detectable)})"
        if line.by_itself:
            text += "; its own interval leaves 0 out, which by chance one of several figures may do"
        return text
    low, high = sorted((abs(difference.low), abs(difference.high)))
    least, most = _amount(line, low), _amount(line, high)
    if line.figure.form == "percent":
        least = least.split(SPACE, 1)[0]
    return f"{line.verdict}: {_change(line, difference)} (between {least} and {most})"


def short_verdict(line: FigureComparison) -> str:
    """The verdict in a word or two, for a column of a table."""
    if line.verdict is Verdict.UNKNOWN:
        return verdict_words(line).partition(":")[0]
    return _SHORT.get(line.verdict, str(line.verdict))


def by_itself_words(lines: Sequence[FigureComparison]) -> str:
    """Which intervals leave 0 out although no difference is seen, and why; nothing if none does."""
    titles = [line.figure.title for line in lines if line.verdict is Verdict.UNDETECTED and line.by_itself]
    if not titles:
        return ""
    whose = "its own interval leaves" if len(titles) == 1 else "their own intervals leave"
    return f"{_capital(_listed(titles))}: {whose} 0 out, which by chance one of several figures may do."


def overall_words(lines: Sequence[FigureComparison], names: tuple[str, str]) -> str:
    """All figures in a few sentences."""
    by_verdict = {verdict: [line for line in lines if line.verdict is verdict] for verdict in Verdict}
    seeds = max((line.difference.seeds for line in lines if line.difference is not None), default=0)
    if not seeds:
        return "Nothing was measured on two seeds or more."
    parts = [
        f"{verdict} in {_listed([_with_change(line) for line in by_verdict[verdict]])}"
        for verdict in (Verdict.BETTER, Verdict.WORSE)
        if by_verdict[verdict]
    ]
    equal, unseen = by_verdict[Verdict.EQUAL], by_verdict[Verdict.UNDETECTED]
    if not parts and not unseen:
        return f"No difference: {_listed(_titles(equal))} are the same on each of {seeds} seeds."
    said = [f"{names[1]} against {names[0]}: {'; '.join(parts)}."] if parts else []
    if unseen:
        sees = "; ".join(f"{line.figure.title} {_amount(line, line.detectable)}" for line in unseen)
        among = f" in {_listed(_titles(unseen))}" if parts or equal else ""
        said.append(f"No difference detectable{among} with {seeds} seeds (would see: {sees}).")
    if equal:
        said.append(f"The same on every seed: {_listed(_titles(equal))}.")
    return " ".join(said)


def interval_words(line: FigureComparison) -> str:
    """The difference with its interval, in the figure's own unit."""
    difference = line.difference
    if difference is None:
        return "–"
    return interval(difference.estimate, difference.low, difference.high, line.figure.form)


def side_words(line: FigureComparison) -> tuple[str, str]:
    """A's and B's mean, with the digits that tell them apart."""
    if line.difference is None:
        mean_a, mean_b = ("–" if mean is None else shown(mean, line.figure.form) for mean in line.means)
        return mean_a, mean_b
    a, b = apart((line.difference.mean_a, line.difference.mean_b), line.figure.form)
    return a, b


def unasked_words(lines: Sequence[FigureComparison]) -> str:
    """Which figures of bytes are not there, and why; nothing if all are."""
    asked = any(line.figure.name == "uplink_share" for line in lines)
    return "" if asked else "Share of the uplink: not measured, no uplink has a limit."


def _with_change(line: FigureComparison) -> str:
    assert line.difference is not None
    return f"{line.figure.title} ({_change(line, line.difference)})"


def _change(line: FigureComparison, difference: Difference) -> str:
    return f"{_amount(line, abs(difference.estimate))} {'more' if difference.estimate > 0 else 'less'}"


def _amount(line: FigureComparison, amount: float) -> str:
    """A difference without its sign: a share of A's mean, where that says something."""
    difference = line.difference
    assert difference is not None
    if line.figure.form == "percent":
        return points(amount)
    share = difference.relative(amount)
    return shown(amount, line.figure.form) if share is None else relative(share)


def _titles(lines: Sequence[FigureComparison]) -> list[str]:
    return [line.figure.title for line in lines]


def _capital(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}"


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
