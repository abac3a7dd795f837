"""`TraceDigest`: the trace hash, a sum of the hashes of all rows."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from rows_strategy import as_rows, many_rows

from hearsay.core.rules.randomness import mix
from hearsay.trace.language.rows import LOWER_CONSTANTS, UPPER_CONSTANTS, TraceDigest

int64s = st.integers(-(2**63), 2**63 - 1)
rows_of_any_integers = st.lists(st.tuples(*[int64s] * 13), max_size=20)


def row_digest(row):
    """Return the hash of one row, computed with Python's integers."""
    upper = sum(value * constant for value, constant in zip(row, UPPER_CONSTANTS, strict=True))
    lower = sum(value * constant for value, constant in zip(row, LOWER_CONSTANTS, strict=True))
    return mix(upper) << 64 | mix(lower)


def digest_of(rows):
    digest = TraceDigest()
    digest.add(rows)
    return digest.hex()


@given(rows_of_any_integers)
def test_a_hash_equals_that_of_plain_integers(codes):
    assert digest_of(as_rows(codes)) == f"{sum(map(row_digest, codes)) % 2**128:032x}"


def test_sums_of_many_rows_carry_beyond_64_bits():
    rows = many_rows(40_000, seed=1)
    plain = sum(row_digest(codes) for codes in rows.tolist()) % 2**128
    assert digest_of(rows) == f"{plain:032x}"


@given(rows_of_any_integers, st.randoms())
def test_neither_order_nor_portions_matter(codes, random):
    shuffled = random.sample(codes, len(codes))
    portions = TraceDigest()
    middle = len(codes) // 2
    portions.add(as_rows(shuffled[:middle]))
    portions.add(as_rows(shuffled[middle:]))
    assert portions.hex() == digest_of(as_rows(codes))


@given(st.tuples(*[int64s] * 13), st.integers(0, 12), st.integers(0, 63))
def test_a_flipped_bit_changes_the_hash(codes, column, bit):
    rows = as_rows([codes])
    changed = rows.copy()
    changed[0, column] ^= np.int64(-(2**63) if bit == 63 else 1 << bit)
    assert digest_of(changed) != digest_of(rows)


def test_a_repeated_row_and_swapped_columns_change_the_hash():
    rows = many_rows(10, seed=2)
    assert digest_of(np.concatenate((rows, rows[:1]))) != digest_of(rows)
    rows[:, 3], rows[:, 4] = 1, 2
    swapped = rows.copy()
    swapped[:, 3], swapped[:, 4] = 2, 1
    assert digest_of(swapped) != digest_of(rows)


def test_the_hash_of_a_row_is_fixed():
    assert digest_of(as_rows([tuple(range(13))])) == "28f688da10b52c8b597fb6453955f02c"


def test_the_constants_are_the_outputs_of_splitmix64():
    """Constants are odd. The outputs for seed 0 are published with the reference implementation of splitmix64."""
    assert UPPER_CONSTANTS[:2] == (0xE220A8397B1DCDAF | 1, 0x6E789E6AA1B965F4 | 1)
