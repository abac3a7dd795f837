"""The progress of a command on stderr: a bar if stderr is a terminal that can overwrite a line, otherwise plain
lines.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from hearsay.sim.simulate import Simulation

_REFRESH_S = 0.1
_LINE_EVERY_S = 10.0


class ShowProgress(Protocol):
    """A function that shows that `done` of `total` units are done, with a text. Without `now`, it shows nothing if
    the last output was a short time ago.
    """

    def __call__(self, done: float, total: float, text: Callable[[], str], *, now: bool = False) -> None: ...


@contextmanager
def shown_progress(
    name: str, begin: str, line_every_s: float = _LINE_EVERY_S, *, first: str = "starting"
) -> Generator[ShowProgress]:
    """Yield a function that shows progress: in a bar with the name `name`, or in lines that begin with `begin`, at
    most one in `line_every_s` seconds without `now`. Until the bar is updated, it shows `first`.
    """
    is_bar = sys.stderr.isatty() and os.environ.get("TERM", "") not in ("", "dumb", "unknown")
    last = monotonic()

    def is_due(every_s: float, now: bool) -> bool:
        nonlocal last
        if now or monotonic() - last >= every_s:
            last = monotonic()
            return True
        return False

    def print_line(done: float, total: float, text: Callable[[], str], *, now: bool = False) -> None:
        if is_due(line_every_s, now):
            print(f"{begin}{text()}", file=sys.stderr, flush=True)

    if not is_bar:
        yield print_line
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TimeElapsedColumn

    columns = name, BarColumn(), "{task.fields[text]}", TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, text=first)

        def update_bar(done: float, total: float, text: Callable[[], str], *, now: bool = False) -> None:
            if is_due(_REFRESH_S, now):
                bar.update(task, completed=done, total=total, text=text())

        yield update_bar


@contextmanager
def simulated_time(simulation: Simulation) -> Generator[Callable[[int], None]]:
    """Yield a function that shows the progress of a simulation. Its argument is the simulated time in
    microseconds.
    """
    end_us = simulation.plan.end_us
    with shown_progress("simulating", "simulated ") as show:

        def update(now_us: int) -> None:
            show(
                now_us,
                end_us,
                lambda: f"{now_us / 1e6:.1f} of {end_us / 1e6:.1f} s, {simulation.delivered:,} delivered",
            )

        yield update
