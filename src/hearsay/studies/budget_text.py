"""Which budget held, which broke, and by how much."""

from __future__ import annotations

from collections.abc import Mapping

from hearsay.studies.budgets import Budget, Judgement
from hearsay.text.numbers import DIGITS, apart, between, points, relative, shown


def judged_words(judged: Judgement) -> str:
    """One line: "broken: CASE: p99 latency is 450 ms, 12.5 % above the 400 ms allowed (mean of 10 seeds, …)"."""
    budget = judged.budget
    name = f"{budget.case}: {budget.figure.title}"
    if judged.failures:
        return f"broken: {name}: {judged.failures} of its runs failed"
    if judged.value is None or judged.mean is None:
        return f"broken: {name}: not measured, nothing was there to count"
    form = budget.figure.form
    known = [bound for bound in (budget.at_least, budget.at_most) if bound is not None]
    value, *bounds_said = apart([judged.value, *known], form)
    said = dict(zip(known, bounds_said, strict=True))
    if judged.held:
        return f"held: {name} is {value}, allowed {_allowed(budget, said)} ({_basis(judged)})"
    above = budget.at_most is not None and judged.value > budget.at_most
    bound = budget.at_most if above else budget.at_least
    assert bound is not None
    direction = "above" if above else "below"
    excess = f"{_excess(judged, bound)} {direction} the {said[bound]} allowed"
    return f"broken: {name} is {value}, {excess} ({_basis(judged)})"


def allowed_words(budget: Budget) -> str:
    """The bounds of a budget: "at least 1 and at most 6"."""
    known = [bound for bound in (budget.at_least, budget.at_most) if bound is not None]
    return _allowed(budget, {bound: shown(bound, budget.figure.form) for bound in known})


def _allowed(budget: Budget, said: Mapping[float, str]) -> str:
    bounds = (("least", budget.at_least), ("most", budget.at_most))
    return " and ".join(f"at {word} {said[bound]}" for word, bound in bounds if bound is not None)


def _excess(judged: Judgement, bound: float) -> str:
    form = judged.budget.figure.form
    if form == "percent":
        return points(judged.excess)
    return relative(judged.excess / abs(bound), DIGITS) if bound else shown(judged.excess, form)


def _basis(judged: Judgement) -> str:
    mean, form = judged.mean, judged.budget.figure.form
    assert mean is not None
    if judged.budget.judge == "worst":
        return f"worst of {mean.seeds} seeds"
    if judged.budget.judge == "p90":
        return f"the worst that nine of ten of {mean.seeds} seeds have"
    if mean.low is None or mean.high is None:
        return "one seed"
    if mean.low == mean.high:
        return f"the same on {mean.seeds} seeds"
    if judged.budget.judge == "interval":
        return f"an end of the 95 % interval of {mean.seeds} seeds, whose mean is {shown(mean.mean, form)}"
    return f"mean of {mean.seeds} seeds, 95 % interval {between(mean.low, mean.high, form)}"
