"""Why a file is not taken."""

from __future__ import annotations


class BadSource(Exception):
    """This file cannot be read whole and right; the message says why, without the file's name."""
