"""Progress: where a bar can be drawn, and that of simulated time; elsewhere a plain line now and then."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hearsay.sim.simulate import Simulation

REFRESH_S = 0.1
PLAIN_EVERY_S = 10.0


def bars_can_be_drawn() -> bool:
    """A terminal that can move back and write over a line."""
    return sys.stderr.isatty() and os.environ.get("TERM", "") not in ("", "dumb", "unknown")


@contextmanager
def simulated_time(simulation: Simulation) -> Generator[Callable[[int], None]]:
    """A callback that takes the simulated time in microseconds."""
    if bars_can_be_drawn():
        with _bar(simulation) as update:
            yield update
    else:
        yield _plain(simulation)


@contextmanager
def _bar(simulation: Simulation) -> Generator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    end_s = simulation.plan.end_us / 1e6
    columns = (
        TextColumn("simulating"),
        BarColumn(),
        TextColumn("{task.completed:.1f} of {task.total:.1f} s"),
        TextColumn("{task.fields[delivered]:,} delivered"),
        TimeElapsedColumn(),
    )
    last = 0.0
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=end_s, delivered=0)

        def update(now_us: int) -> None:
            nonlocal last
            if monotonic() - last >= REFRESH_S:
                last = monotonic()
                progress.update(task, completed=now_us / 1e6, delivered=simulation.delivered)

        yield update


def _plain(simulation: Simulation) -> Callable[[int], None]:
    end_s = simulation.plan.end_us / 1e6
    last = monotonic()

    def update(now_us: int) -> None:
        nonlocal last
        if monotonic() - last >= PLAIN_EVERY_S:
            last = monotonic()
            delivered = simulation.delivered
            print(f"simulated {now_us / 1e6:.1f} of {end_s:.1f} s, {delivered:,} delivered", file=sys.stderr)

    return update
