"""Errors with a reason for the user: a command ends with their lines, not with a traceback."""

from __future__ import annotations


class Failure(Exception):
    """An action that is impossible. A command prints the message and exits with 1."""


class InvalidInput(Exception):
    """Input that cannot be used. A command prints a line for each problem and exits with 2."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)
