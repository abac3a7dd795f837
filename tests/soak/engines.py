"""Random scenarios on both engines: equal traces, row for row, and equal summaries, with one thread or two."""

from __future__ import annotations

from collections import Counter

from engines_agree import agree, even_plan

SCENARIOS = 8


def soak(number: int) -> Counter[str]:
    seen: Counter[str] = Counter()
    threads = 1 + number % 2
    for scenario in range(number * SCENARIOS, (number + 1) * SCENARIOS):
        text, plan = even_plan(scenario)
        try:
            whole = agree(plan, threads)
        except BaseException:
            print(text)
            raise
        seen[f"scenarios on both engines, threads: {threads}" if whole else "scenarios with a storm of messages"] += 1
    return seen
