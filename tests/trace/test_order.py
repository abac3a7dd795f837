"""`order_of` and `group_ids`: order and groups of rows by their columns."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from hearsay.trace.language.rows import group_ids, order_of

INT64 = np.iinfo(np.int64)
SPANS = [(0, 0), (0, 1), (-1, 3), (-1, 10**6), (0, 2**40), (INT64.min, INT64.max)]


@st.composite
def columns(draw):
    """Draw columns that need few or all of their 64 bits. Their common sort key fills one word, leaves room in it for
    the indices of rows, or needs several words.
    """
    size = draw(st.integers(0, 60))
    return [
        np.array(draw(st.lists(st.integers(*span), min_size=size, max_size=size)), dtype=np.int64)
        for span in draw(st.lists(st.sampled_from(SPANS), min_size=1, max_size=5))
    ]


@examples(3)
@given(columns())
def test_rows_are_sorted_and_equal_rows_keep_their_order(found):
    assert order_of(found).tolist() == np.lexsort(found[::-1]).tolist()


@given(columns())
def test_equal_rows_have_the_same_group(found):
    order, ids = group_ids(found)
    rows = list(zip(*(column.tolist() for column in found), strict=True))
    known = sorted(set(rows))
    assert [known[number] for number in ids] == sorted(rows)
    assert [rows[index] for index in order] == sorted(rows)


def test_many_rows_with_equal_keys_that_fill_a_word_are_sorted():
    generator = np.random.default_rng(1)
    wide = generator.choice(generator.integers(0, 2**62, 50), 20_000)
    found = [wide, generator.integers(0, 9, 20_000), generator.integers(0, 2**62, 20_000) >> 50]
    assert np.array_equal(order_of(found), np.lexsort(found[::-1]))
    assert np.array_equal(order_of(found[:2]), np.lexsort(found[1::-1]))
