"""What is wrong with a study, in lines a person can act on."""

from __future__ import annotations

from collections.abc import Iterable

from hearsay.user_errors import Failure, InvalidInput


class StudyError(InvalidInput, ValueError):
    """A study, budget or comparison that cannot be run as it is written: a line for each problem."""

    def __init__(self, problems: Iterable[str]) -> None:
        super().__init__(*problems)


class StudyFolderError(Failure):
    """A study's folder that cannot be written or read; one line that names the path."""
