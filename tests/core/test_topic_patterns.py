"""Expressions over names of topics find what Python's do, and take no longer for a name made to make them slow.

Rules: SHELL-8.
"""

from __future__ import annotations

import re
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearsay.core.registry import find_router
from hearsay.core.shell.parameters import ParameterError
from hearsay.core.shell.topic_pattern import MOST_STEPS, TopicPattern

TEXTS = st.text("ab1_-.\n é", max_size=8)
ATOMS = st.sampled_from(
    [
        "a",
        "b",
        ".",
        "1",
        "é",
        r"\.",
        r"\d",
        r"\W",
        r"\s",
        r"\n",
        "[ab]",
        "[^a]",
        "[a-c1]",
        r"[\d_-]",
        "[]a]",
        "^",
        "$",
        r"\A",
        r"\Z",
    ]
)
COUNTS = st.sampled_from(["*", "+", "?", "*?", "{2}", "{1,}", "{,2}", "{1,3}", "{0}"])


def grown(inner):
    repeated = st.builds("(?:{}){}".format, inner, COUNTS) | st.builds("({}){}".format, inner, COUNTS)
    return repeated | st.builds("{}{}".format, inner, inner) | st.builds("(?:{}|{})".format, inner, inner)


EXPRESSIONS = st.recursive(ATOMS, grown, max_leaves=6)


class Counted(list):
    """Steps that may be looked at so many times."""

    def __init__(self, steps, most):
        super().__init__(steps)
        self.looked_at, self._most = 0, most

    def __getitem__(self, number):
        self.looked_at += 1
        assert self.looked_at <= self._most
        return super().__getitem__(number)


def python_finds(expression, text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return re.search(expression, text) is not None


@given(EXPRESSIONS, st.lists(TEXTS, min_size=1, max_size=5))
def test_expressions_find_what_pythons_do(expression, texts):
    pattern = TopicPattern(expression)
    assert [pattern.is_in(text) for text in texts] == [python_finds(expression, text) for text in texts]


@given(st.text("ab1(?:)|[]^$*+{},\\-dAw.", max_size=10), TEXTS)
def test_what_is_understood_is_understood_as_python_does(expression, text):
    """Anything at all is refused, or is an expression of Python's with the same meaning."""
    try:
        pattern = TopicPattern(expression)
    except ValueError:
        return
    assert pattern.is_in(text) == python_finds(expression, text)


@pytest.mark.parametrize(
    "expression",
    ["(a+)+$", "(a|a)*b", "(a*)*b", "(.*)*x", "a*a*a*a*a*a*a*a*b", "((a{1,9}){1,9})*c", "((){9999}){9999}b"],
)
def test_a_name_made_to_make_it_slow_is_no_slower(expression):
    """Python's would take longer than anybody waits. At each place a step is reached once, and left once."""
    name = "a" * 500 + "!"
    pattern = TopicPattern(expression)
    pattern._steps = Counted(pattern._steps, 2 * MOST_STEPS * (len(name) + 1))
    assert not pattern.is_in(name)
    assert pattern._steps.looked_at > 0


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("(", "has a ( without a )"),
        (")", "has a ) without a ("),
        ("[a", "has a [ without a ]"),
        ("[b-a]", "has a class with a range that is none"),
        (r"[\d-z]", "has a class with a range that is none"),
        ("*", "repeats nothing: *"),
        ("a**", "repeats what is repeated; put it into a group"),
        ("a*+", "repeats what is repeated; put it into a group"),
        ("^*", "repeats an edge"),
        ("a{3,2}", "repeats 3 to 2 times"),
        (r"(a)\1", r"has an escape that is not understood: \1"),
        ("a\\", "has an escape that is not understood: \\"),
        ("(?=a)", "has a group that is not understood: (?…; only (…) and (?:…) are"),
        ("(?i)a", "has a group that is not understood: (?…; only (…) and (?:…) are"),
        (f"a{{{MOST_STEPS + 1}}}", f"takes more than {MOST_STEPS} steps"),
        ("((((a{9}){9}){9}){9}){9}", f"takes more than {MOST_STEPS} steps"),
        ("(" * 60 + ")" * 60, "has more than 50 groups in each other"),
    ],
)
def test_what_is_not_understood_is_told(expression, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        TopicPattern(expression)
    kind = find_router("gossipsub")
    with pytest.raises(ParameterError, match="allowed_topics_pattern"):
        kind.parameters.from_mapping({"allowed_topics_pattern": expression})
