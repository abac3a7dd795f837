"""Strategies for arbitrary values and tables in a file of a study, a budget or a tuning, and its problems."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from hearsay.studies.checked_file import StudyError

WORDS = ["", "r1", "reference", "array", "loss.rate", "network.nodes", "router", "log", "worst", "\n", "seed"]
SCALARS = st.booleans() | st.integers(-3, 10**6) | st.floats(allow_nan=True) | st.sampled_from(WORDS)


def tables(*keys: str) -> st.SearchStrategy[dict[str, object]]:
    return st.dictionaries(st.sampled_from(keys), ANYTHING, max_size=5)


KEYS = st.sampled_from(["preset", "nodes", "key", "x"])
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner),
    max_leaves=5,
)
BASES = ANYTHING | tables("preset", "file", "network", "router", "loss", "seed")
AXES = tables("key", "keys", "values", "from", "to", "step", "count", "spacing", "labels", "name")


def good_axes(*keys: str) -> st.SearchStrategy[dict[str, object]]:
    """Return a strategy for axes with one of these keys and any values."""
    return st.fixed_dictionaries({"key": st.sampled_from(keys), "values": ANYTHING})


def problems(load: Callable[[], object]) -> list[str]:
    """Read a file with `load`; return the problems that it reports, or an empty list."""
    try:
        load()
    except StudyError as error:
        return error.problems or ["no reason given\n"]
    return []
