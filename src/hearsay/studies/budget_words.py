"""Which budget held, which broke, and by how much."""

from __future__ import annotations

from hearsay.studies.budgets import Judged
from hearsay.studies.figures import Form


def judged_words(judged: Judged) -> str:
    """One line: "broken: CASE: p99 latency is 450 ms, 12.5 % above the 400 ms allowed (mean of 10 seeds, …)"."""
    budget = judged.budget
    name = f"{budget.case}: {budget.figure.title}"
    if judged.failures:
        return f"broken: {name}: {judged.failures} of its runs failed"
    if judged.value is None or judged.mean is None:
        return f"broken: {name}: not measured, nothing was there to count"
    form = budget.figure.form
    value = _value(judged.value, form)
    if judged.held:
        bounds = [
            f"at {word} {_value(bound, form)}"
            for word, bound in (("least", budget.at_least), ("most", budget.at_most))
            if bound is not None
        ]
        return f"held: {name} is {value}, allowed {' and '.join(bounds)} ({_basis(judged)})"
    above = budget.at_most is not None and judged.value > budget.at_most
    bound = budget.at_most if above else budget.at_least
    assert bound is not None
    share = f"{judged.excess / abs(bound):.1%} " if bound and form != "percent" else f"{_value(judged.excess, form)} "
    direction = "above" if above else "below"
    return f"broken: {name} is {value}, {share}{direction} the {_value(bound, form)} allowed ({_basis(judged)})"


def _basis(judged: Judged) -> str:
    mean, form = judged.mean, judged.budget.figure.form
    assert mean is not None
    if judged.budget.judge == "worst":
        return f"worst of {mean.seeds} seeds"
    if mean.low is None or mean.high is None:
        return "one seed"
    if mean.low == mean.high:
        return f"the same on {mean.seeds} seeds"
    return f"mean of {mean.seeds} seeds, 95 % interval {_value(mean.low, form)} … {_value(mean.high, form)}"


def _value(value: float, form: Form) -> str:
    match form:
        case "percent":
            return f"{value * 100:.4g} %"
        case "ms":
            return f"{value:,.4g} ms" if value < 1000 else f"{value:,.0f} ms"
        case "s":
            return f"{value:,.4g} s"
        case "count" | "number" | "bytes":
            return f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"
