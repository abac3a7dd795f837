"""Runs of scenarios, with or without a run folder for the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING

from hearsay.core.language.identifiers import Micros
from hearsay.sim.checks.checker import Checker
from hearsay.sim.engine import Engine
from hearsay.sim.plan.engines import CapacityExceeded, EngineName, choose_engine, require_memory
from hearsay.sim.plan.plan import Plan, make_plan
from hearsay.sim.plan.topology import Dials
from hearsay.sim.reference.engine import ReferenceEngine
from hearsay.sim.results.recorder import Recorder
from hearsay.sim.results.summary import Summary, summarise
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.scenario_error import ScenarioError
from hearsay.sim.scenario.scenario_file import dump_scenario
from hearsay.trace.folder.manifest import WrittenTrace
from hearsay.trace.language.rows import Rows
from hearsay.trace.language.schema import TraceRow
from hearsay.trace.write.run_folder import RunFolder
from hearsay.trace.write.writer import TraceWriter

if TYPE_CHECKING:
    from hearsay.sim.witnesses import Witnesses


class InvariantViolation(AssertionError):
    """A checked run broke an invariant."""


@dataclass(frozen=True, slots=True)
class Result:
    """A run's summary and the checker's problems; none without a check."""

    summary: Summary
    problems: tuple[str, ...]


class Simulation:
    """One run of a scenario, which a caller can observe and stop."""

    def __init__(
        self,
        scenario: Scenario,
        *,
        check: bool = False,
        folder: RunFolder | None = None,
        write_trace: bool = True,
        listener: Callable[[TraceRow], None] | None = None,
        watcher: Callable[[Rows], None] | None = None,
        rotate_us: Micros | None = None,
        engine: EngineName = "reference",
        threads: int = 1,
    ) -> None:
        """Prepare a run.

        With `rotate_us`, a trace file is closed after that much simulated time, so that a reader can follow the run.
        A `watcher` gets batches of rows from both engines; it must not keep the array. A `listener` needs the
        reference engine, which alone has rows in order. With `check` the reference engine checks all nodes. The
        array engine checks the invariants of all nodes that arrays can express, and repeats the calls of some nodes
        with real routers.
        """
        if engine == "array" and listener is not None:
            raise ValueError("engine array: its rows are not in order, which a listener needs")
        self.plan: Plan = make_plan(scenario)
        self.engine_name: EngineName = engine
        self._folder = folder
        self._writer = self._make_writer(folder, rotate_us) if folder is not None and write_trace else None
        self._checker = Checker(self.plan) if check and engine == "reference" else None
        self._witnesses = _witnesses_of(self.plan) if check and engine == "array" else None
        self._watcher = watcher
        self.recorder = Recorder(self._writer, listener, watcher)
        try:
            self.engine: Engine = self._make_engine(threads)
        except BaseException:
            if self._writer is not None:
                self._writer.abort()
            raise

    def _make_writer(self, folder: RunFolder, rotate_us: Micros | None) -> TraceWriter:
        """Return the writer; it has a thread only with the array engine, because the reference engine keeps the
        GIL."""
        in_background = self.engine_name == "array"
        return TraceWriter(
            folder.path, rotate_us=rotate_us, background=in_background, known_hash=lambda: self.engine.trace_hash
        )

    def _make_engine(self, threads: int) -> Engine:
        if self.engine_name == "reference":
            return ReferenceEngine(self.plan, self.recorder, self._checker)
        from hearsay.sim.array.engine import ArrayEngine

        consumers = [each for each in (self._writer and self._writer.add, self._watcher) if each is not None]
        engine = ArrayEngine(self.plan, _tee(consumers), threads, self._witnesses)
        self.plan = replace(self.plan, dials=Dials.from_lists([]))  # so that the engine can free the dials
        return engine

    @property
    def delivered(self) -> int:
        """Deliveries so far."""
        return self.engine.delivered

    def run(self, progress: Callable[[Micros], None] | None = None) -> Result:
        """Run to the end, or until `engine.stop_requested` is set, and write the results.

        Raise `RouterFailed` when a router raises.
        """
        try:
            if self._folder is not None:
                self._store_plan(self._folder)
            complete = self.engine.run(progress)
            summary = summarise(self.plan, self.engine.figures(), self.engine_name, self.engine.now, complete)
            if self._folder is not None:
                self._store(self._folder, summary)
        except BaseException as error:
            if self._writer is not None:
                self._writer.abort()
            if isinstance(error, Exception) and self._checker is not None and self._checker.problems:
                # A router that breaks the rules may return impossible actions; the first broken rule explains them.
                raise InvariantViolation("\n".join(self._checker.problems)) from error
            if isinstance(error, Exception) and (failure := self.engine.router_failure(error)) is not None:
                raise failure from error
            raise
        return Result(summary, self._problems())

    def _problems(self) -> tuple[str, ...]:
        """Return the problems that the check of the run found."""
        if self._checker is not None:
            return tuple(self._checker.problems)
        return self._witnesses.repeat().problems if self._witnesses is not None else ()

    def change_scenario(self, scenario: Scenario) -> None:
        """Continue with another scenario, whose plan is the same before `engine.changeable.next_us`.

        Call it only from `progress`. Raise `ScenarioError` without a change if the plan cannot be carried out.
        """
        changeable = self.engine.changeable
        if changeable is None or self._checker is not None:
            raise ValueError("only an unchecked run of the reference engine can change its scenario")
        plan = make_plan(scenario)
        changeable.change_plan(plan)
        self.plan = plan
        if self._folder is not None:
            self._folder.write_text_atomic("scenario.toml", dump_scenario(scenario))

    def _store_plan(self, folder: RunFolder) -> None:
        """Write the facts that are known before the run; a reader that follows the run needs names and the window."""
        plan = self.plan
        folder.write_text_atomic("scenario.toml", dump_scenario(plan.scenario))
        nodes = plan.scenario.network.nodes
        numbers = range(nodes + 1)
        regions = [self.engine.latency.region_of(node) for node in range(nodes)]
        routers = [plan.routers[index][0].name for index in plan.router_of]
        folder.write_peers(
            numbers,
            [*map(str, range(nodes)), "script"],
            [*routers, "script"],
            [*regions, None],
            ["hearsay"] * (nodes + 1),
        )
        folder.write_topics(range(len(plan.topics)), plan.topics)

    def _store(self, folder: RunFolder, summary: Summary) -> None:
        published = self.plan.publications
        folder.write_messages(
            [each.message for each in published],
            [each.topic for each in published],
            [each.publisher for each in published],
            [each.size_bytes for each in published],
            [each.time_us for each in published],
        )
        folder.write_text_atomic("summary.json", dumps(summary.to_json(), indent=2) + "\n")
        written = self._writer.close() if self._writer is not None else WrittenTrace((), 0, summary.trace_hash)
        folder.write_manifest(written, seed=summary.seed, complete=summary.complete)


def _witnesses_of(plan: Plan) -> Witnesses:
    from hearsay.sim.witnesses import Witnesses

    return Witnesses.of(plan)


def _tee(consumers: Sequence[Callable[[Rows], None]]) -> Callable[[Rows], None] | None:
    """Return a function that passes rows to all; None if there are none."""
    if not consumers:
        return None

    def take(rows: Rows) -> None:
        for each in consumers:
            each(rows)

    return take


def run_on_fitting_engine(
    scenario: Scenario,
    wanted: str = "auto",
    *,
    out: Path | None = None,
    threads: int = 1,
    check: bool = False,
    listener: Callable[[TraceRow], None] | None = None,
) -> Result:
    """Run a scenario on the engine that `choose_engine` returns.

    If `auto` chose the array engine, and that raises `CapacityExceeded`, run it again on the reference engine. Raise
    `ScenarioError` if the run would not fit into memory, or if the wanted engine cannot run it.
    """
    if listener is not None:
        if wanted == "array":
            raise ScenarioError(["engine array: its rows are not in order, which a listener needs"])
        wanted = "reference"
    engine, _ = choose_engine(scenario, wanted)
    require_memory(scenario, engine)
    folder = RunFolder.create(out) if out is not None else None

    def run(engine: EngineName) -> Result:
        given = Simulation(scenario, check=check, folder=folder, listener=listener, engine=engine, threads=threads)
        return given.run()

    try:
        return run(engine)
    except CapacityExceeded:
        if wanted != "auto":
            raise
    require_memory(scenario, "reference")
    if folder is not None:
        folder.start_again()
    return run("reference")
