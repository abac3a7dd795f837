"""Names that others chose, for people to read.

They come from configurations and from the network: characters that do not print (line breaks, escape sequences,
direction marks) are shown as their escapes, so that no name can forge a line or command a terminal.
"""

from __future__ import annotations

MAX_MESSAGE = 1000
"""Characters of a message about a file."""


def escape(name: str) -> str:
    """The name with everything that does not print escaped; bytes that were no UTF-8 come as `surrogateescape`."""
    return "".join(
        character if character.isprintable() and character != "\\" else _escape_of(character) for character in name
    )


def one_line(message: str) -> str:
    """A message that may quote others: what does not print is escaped, and what is long is cut."""
    shown = "".join(character if character.isprintable() else _escape_of(character) for character in message)
    return shown if len(shown) <= MAX_MESSAGE else f"{shown[:MAX_MESSAGE]}…"


def _escape_of(character: str) -> str:
    if "\udc80" <= character <= "\udcff":
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")
