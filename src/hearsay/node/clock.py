"""A node's time: Unix microseconds that never go back, whatever happens to the machine's clock."""

from __future__ import annotations

from time import monotonic_ns, time_ns

from hearsay.core.language.identifiers import Micros


class Clock:
    def __init__(self) -> None:
        self._offset_ns = time_ns() - monotonic_ns()

    def __call__(self) -> Micros:
        return (monotonic_ns() + self._offset_ns) // 1000
