"""The interface of both engines: an engine runs a plan and returns its figures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from hearsay.core.language.identifiers import Micros
from hearsay.core.shell.contract import RouterFailed
from hearsay.sim.plan.latency import LatencyModel
from hearsay.sim.plan.plan import Plan
from hearsay.sim.results.summary import Figures


class ChangeableRun(Protocol):
    """A run whose plan can change between two calls of `progress`."""

    @property
    def next_us(self) -> Micros:
        """The simulated time from which the plan can still change."""
        ...

    def is_up(self, node: int) -> bool:
        """Return whether a node runs now."""
        ...

    def change_plan(self, plan: Plan) -> None:
        """Continue with another plan, which is the same before `next_us`."""
        ...


class Engine(Protocol):
    """One run of a plan."""

    stop_requested: bool
    """Set by the caller, from any thread, to end the run early."""
    step_us: Micros
    """Simulated time between two calls of `progress`; a request, which the reference engine ignores."""
    latency: LatencyModel

    @property
    def now(self) -> Micros:
        """The simulated time."""
        ...

    @property
    def delivered(self) -> int:
        """Deliveries so far."""
        ...

    @property
    def trace_hash(self) -> str:
        """The hash of all trace rows so far."""
        ...

    @property
    def changeable(self) -> ChangeableRun | None:
        """The run as one whose plan can change; None if the engine does not support it."""
        ...

    def run(self, progress: Callable[[Micros], None] | None = None) -> bool:
        """Run to the end; return False if a stop was requested before."""
        ...

    def figures(self) -> Figures:
        """Return the figures of the run so far."""
        ...

    def router_failure(self, error: Exception) -> RouterFailed | None:
        """Return the failure of a router that caused an error of `run`; None if no router did."""
        ...
