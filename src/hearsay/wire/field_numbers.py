"""Field numbers that the pubsub specification does not fix, and how far apart experiments keep from it.

Experimental fields have numbers above 0x200000, which take four bytes, so that the short ones are left to the
specification (gossipsub v1.3, "Extensions").
"""

from __future__ import annotations

TEST_EXTENSION = 6_492_434
"""Of the extensions control: go's, for tests."""
