"""What a command raises when it cannot go on, and how a mistake of the system is told."""

from __future__ import annotations

from hearsay.user_errors import Failure, InvalidInput


def system_words(error: OSError) -> str:
    """What the system says, with the file that it is about, and without the number of the error."""
    place = f"{error.filename}: " if error.filename is not None else ""
    return f"{place}{error.strerror or error}"


class CommandFailed(Failure):
    """A command that could not do its work."""


class WrongInput(InvalidInput):
    """Options or arguments that cannot be used."""
