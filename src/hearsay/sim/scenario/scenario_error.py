"""The error of a scenario that cannot be used."""

from __future__ import annotations

from collections.abc import Iterable

from hearsay.user_errors import InvalidInput


class ScenarioError(InvalidInput, ValueError):
    """A scenario that cannot be run; `problems` has one line for each mistake."""

    def __init__(self, problems: Iterable[str]) -> None:
        super().__init__(*problems)
