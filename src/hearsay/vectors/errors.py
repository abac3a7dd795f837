"""What is wrong with a file of vectors, in one line a person can act on."""

from __future__ import annotations

from hearsay.user_errors import InvalidInput


class VectorError(InvalidInput):
    """The file, the place in it, and what is allowed there."""
