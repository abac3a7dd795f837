"""Whether this process is the program's own from its start, or belongs to somebody who imports the package.

Libraries that a process of somebody else's shares are left as they are. A process of one's own need not wait for what
nothing in it uses: pyarrow and PySpark import pandas where it is installed, to know its types when they meet them,
which takes as long as all else that a small command does.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from threading import get_ident
from typing import Any

_claimed = False


def claim_process() -> None:
    """Said first by whatever starts a process: a command, or a Python to which work is sent."""
    global _claimed
    _claimed = True


def is_own_process() -> bool:
    return _claimed


@contextmanager
def no_pandas() -> Generator[None]:
    """For imports of others, in a process of one's own: pandas is not there, for this thread, until this ends."""
    if not _claimed:
        yield
        return
    absent: Any = _NoPandas()
    sys.meta_path.insert(0, absent)
    try:
        yield
    finally:
        sys.meta_path.remove(absent)


class _NoPandas:
    """Asked first where a module is that was not imported before."""

    def __init__(self) -> None:
        self._thread = get_ident()

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "pandas" and get_ident() == self._thread:
            raise ModuleNotFoundError(name)
