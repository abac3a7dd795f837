"""What is wrong with a file of vectors, in one line a person can act on."""

from __future__ import annotations


class VectorError(Exception):
    """The file, the place in it, and what is allowed there."""
