"""Claims about parts survive a round trip, and other bytes are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearsay.partial import Bitlists, Bitmap, Claim, InvalidParts, counted, group_named

COUNTS = st.integers(1, 130)


@given(count=COUNTS, has=st.integers(0), wants=st.integers(0))
def test_bitlists_survive_a_round_trip(count, has, wants):
    everything = (1 << count) - 1
    claim = Claim(has & everything, wants & everything & ~has)
    assert Bitlists().decode(Bitlists().encode(claim, count), count) == claim


@given(count=COUNTS, has=st.integers(0))
def test_a_bitmap_wants_each_part_that_it_lacks(count, has):
    everything = (1 << count) - 1
    claim = Claim(has & everything, everything & ~has)
    assert Bitmap().decode(Bitmap().encode(claim, count), count) == claim


@pytest.mark.parametrize("form", [Bitmap(), Bitlists()], ids=lambda form: type(form).__name__)
@given(count=COUNTS, metadata=st.binary(max_size=64))
def test_any_bytes_are_refused_or_survive_a_round_trip(form, count, metadata):
    try:
        claim = form.decode(metadata, count)
    except InvalidParts:
        return
    again = form.decode(form.encode(claim, count), count)
    assert again == claim


def test_a_bitlist_of_another_length_is_refused():
    metadata = Bitlists().encode(Claim(1, 2), 8)
    for count in (7, 9, 16):
        with pytest.raises(InvalidParts):
            Bitlists().decode(metadata, count)


def test_the_parts_of_the_interoperability_tests_count_up():
    """Part 0 begins with the group's number, and each part has 128 numbers of 8 bytes; after the largest comes 0."""
    parts = counted(group_named(7), (0, 1))
    assert parts[0][:16] == bytes(7) + b"\x07" + bytes(7) + b"\x08"
    assert parts[0][-8:] == (7 + 127).to_bytes(8, "big")
    assert parts[1][:8] == (7 + 128).to_bytes(8, "big")
    assert counted(b"\xff" * 8, (0,))[0][8:16] == bytes(8)
