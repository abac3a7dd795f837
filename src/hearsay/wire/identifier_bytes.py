"""Peers, topics and message ids as the bytes they travel as."""

from __future__ import annotations

from hearsay.core.language.identifiers import Identifier


def raw(identifier: Identifier) -> bytes:
    """An identifier's bytes."""
    if isinstance(identifier, bytes):
        return identifier
    if isinstance(identifier, str):
        return identifier.encode()
    raise TypeError(f"{identifier!r} cannot be sent: numbers name things in simulations only")
