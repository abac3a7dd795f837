"""The profiles of hypothesis, which alone set the number of examples.

`quick` is for `make test` and `thorough` for `make test-all`; both try the same examples each time. `soak` searches
for new failures, and prints how to reproduce one. `mutants` only checks whether a test fails, and does not shrink
examples. Choose with `--hypothesis-profile=NAME`.
"""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

EXAMPLES = {"quick": 12, "thorough": 100, "soak": 1000}


def register() -> None:
    for name, examples in EXAMPLES.items():
        settings.register_profile(
            name,
            max_examples=examples,
            deadline=None,
            derandomize=name != "soak",
            print_blob=True,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
        )
    phases = (Phase.explicit, Phase.generate)
    settings.register_profile("mutants", settings.get_profile("thorough"), phases=phases)
    settings.load_profile("quick")


def examples(times: float) -> settings:
    """Return settings with the profile's number of examples times a factor."""
    return settings(max_examples=round(times * settings.default.max_examples))
