"""Random scenarios on both engines: equal traces, row for row, and equal summaries, with one thread or two."""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, given, seed, settings

from engines_agree import check
from random_scenarios import scenario_texts

EXAMPLES = 40


def soak(number: int) -> Counter[str]:
    seen: Counter[str] = Counter()
    threads = 1 + number % 2

    @seed(number)
    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(scenario_texts())
    def agree(text: str) -> None:
        check(text, threads)
        seen[f"scenarios on both engines, threads: {threads}"] += 1

    agree()
    return seen
