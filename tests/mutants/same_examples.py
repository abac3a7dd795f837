"""A plugin of pytest for mutants: Hypothesis tries the same examples each time, and makes none smaller."""

from __future__ import annotations

from hypothesis import Phase, settings

settings.register_profile("mutants", derandomize=True, phases=(Phase.explicit, Phase.generate))
settings.load_profile("mutants")
