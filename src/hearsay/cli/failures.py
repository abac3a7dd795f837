"""What a command raises when it cannot go on, and how a mistake of the system is told."""

from __future__ import annotations


def system_words(error: OSError) -> str:
    """What the system says, with the file that it is about, and without the number of the error."""
    place = f"{error.filename}: " if error.filename is not None else ""
    return f"{place}{error.strerror or error}"


class CommandFailed(Exception):
    """A command could not do its work: exit 1 with this message."""


class WrongInput(Exception):
    """What the user gave cannot be used: exit 2, a line for each problem."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
