"""Random RPCs on every path through the intake of a real node: the router must receive exactly the sent RPCs."""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, Phase, given, seed, settings
from intake_paths import PATHS, assert_received, sent_rpcs

EXAMPLES = 60


def soak(number: int) -> Counter[str]:
    """Test one path with random RPCs; path and RPCs depend only on the number."""
    name = list(PATHS)[number % len(PATHS)]
    seen: Counter[str] = Counter()

    @seed(number)
    @settings(
        max_examples=EXAMPLES,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    @given(sent_rpcs())
    def compare(sent):
        seen[f"RPCs on the path: {name}"] += assert_received(name, sent)

    compare()
    return seen
