"""The error of a run folder, in one line."""

from __future__ import annotations

from hearsay.text.escape import one_line
from hearsay.user_errors import Failure


class RunFolderError(Failure):
    """A run folder that cannot be created, read or trusted. The message is one line with the path."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))
