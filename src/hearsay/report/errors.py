"""What keeps a report from being written, in one line a person can act on."""

from __future__ import annotations

from hearsay.text.escape import one_line
from hearsay.user_errors import Failure


class ReportError(Failure):
    """A run that cannot be reported, or a report that cannot be written. The message names the path."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))
