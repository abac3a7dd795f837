"""Field numbers that the pubsub specification does not fix.

Experimental fields have numbers above 0x200000 (gossipsub v1.3). Ours had short ones before: these are still read, as
the same number above 0x200000.
"""

from __future__ import annotations

from hearsay.core.language.rpc import EXPERIMENTAL_FIELDS, FIRST_EXTENSION_FIELD

TEST_EXTENSION = 6_492_434
"""Of the extensions control: go's, for tests."""
HOPS = EXPERIMENTAL_FIELDS + 7
"""Of a message."""
EPISUB = EXPERIMENTAL_FIELDS + 7
"""Of the control message: one of episub's parts."""


def is_hops(number: int) -> bool:
    return number in (HOPS, HOPS - EXPERIMENTAL_FIELDS)


def is_episub(number: int) -> bool:
    return number in (EPISUB, EPISUB - EXPERIMENTAL_FIELDS)


def extension_number(number: int) -> int | None:
    """Under which number an outside router knows a field of the control message; None if it is none of theirs."""
    if FIRST_EXTENSION_FIELD - EXPERIMENTAL_FIELDS <= number <= EXPERIMENTAL_FIELDS:
        number += EXPERIMENTAL_FIELDS
    return number if number >= FIRST_EXTENSION_FIELD else None
