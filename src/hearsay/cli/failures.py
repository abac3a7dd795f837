"""What a command raises when it cannot go on."""

from __future__ import annotations


class CommandFailed(Exception):
    """A command could not do its work: exit 1 with this message."""


class WrongInput(Exception):
    """What the user gave cannot be used: exit 2, a line for each problem."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
