"""Runs of scenarios on either engine, with or without a run folder for the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from hearsay.core.language.identifiers import Micros
from hearsay.sim.checks.checker import Checker
from hearsay.sim.plan.engines import CapacityExceeded, EngineName, choose_engine, require_memory
from hearsay.sim.plan.network import Dials
from hearsay.sim.plan.plan import Plan, make_plan
from hearsay.sim.recorder import Recorder
from hearsay.sim.reference.engine import ReferenceEngine
from hearsay.sim.scenario.reading import ScenarioError
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.scenario_file import dump_scenario
from hearsay.sim.summary import Summary, summarise
from hearsay.trace.folder.manifest import WrittenTrace
from hearsay.trace.folder.run_folder import RunFolder
from hearsay.trace.folder.writer import TraceWriter
from hearsay.trace.language.rows import Rows
from hearsay.trace.language.schema import TraceRow

if TYPE_CHECKING:
    from hearsay.sim.array.engine import ArrayEngine
    from hearsay.sim.witnesses import Witnesses

Engine: TypeAlias = "ReferenceEngine | ArrayEngine"


class InvariantViolation(AssertionError):
    """The error that a run broke an invariant. Its message has the findings of the check, a line each."""


@dataclass(frozen=True, slots=True)
class Result:
    """The summary of a run, and the problems that the check of the run found; none in a run without a check."""

    summary: Summary
    problems: tuple[str, ...]


class Simulation:
    """One run of a scenario, which the caller can observe and stop."""

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
        """Prepare a run. Raise `ScenarioError` if its plan cannot be carried out, and `CapacityExceeded` if the array
        engine has no memory for it.

        `folder` gets the results, and the trace if `write_trace` is True. With `rotate_us`, a trace file is closed
        after that much simulated time, so that a reader can follow the run.

        A `watcher` gets the rows of either engine in batches. It must not store the array of a batch. A `listener`
        gets single rows. It needs the reference engine, because only that engine records rows in order.

        With `check`, the reference engine checks all invariants of all nodes. The array engine checks only the
        invariants that kernels can check, for all nodes. After the run, routers of the core repeat the calls of some
        nodes, and their invariants are checked too (`witnesses.py`).
        """
        if engine == "array" and listener is not None:
            raise ValueError("engine 'array' records rows out of order; a listener needs engine 'reference'")
        self.plan: Plan = make_plan(scenario)
        self.engine_name: EngineName = engine
        self._folder = folder
        self._writer: TraceWriter | None = None
        if folder is not None and write_trace:
            # A thread for the writer gains nothing with the reference engine, which keeps the GIL.
            background, known_hash = engine == "array", lambda: self.engine.trace_hash
            self._writer = TraceWriter(folder.path, rotate_us=rotate_us, background=background, known_hash=known_hash)
        self._checker = Checker(self.plan) if check and engine == "reference" else None
        self._witnesses: Witnesses | None = None
        consumers = [each for each in (self._writer and self._writer.add, watcher) if each is not None]
        self.recorder = Recorder(consumers, listener)
        try:
            self.engine: Engine = self._make_engine(threads, check, consumers)
        except BaseException:
            if self._writer is not None:
                self._writer.abort()
            raise

    def _make_engine(self, threads: int, check: bool, consumers: Sequence[Callable[[Rows], None]]) -> Engine:
        if self.engine_name == "reference":
            return ReferenceEngine(self.plan, self.recorder, self._checker)
        from hearsay.sim.array.engine import ArrayEngine
        from hearsay.sim.witnesses import Witnesses

        self._witnesses = Witnesses.of(self.plan) if check else None
        engine = ArrayEngine(self.plan, _tee(consumers), threads, self._witnesses)
        self.plan = replace(self.plan, dials=Dials.from_lists([]))  # so that the engine can free the dials
        return engine

    @property
    def delivered(self) -> int:
        """The number of deliveries so far."""
        return self.engine.delivered

    def run(self, progress: Callable[[Micros], None] | None = None) -> Result:
        """Run to the end, or until `engine.stop_requested` is set, and write the results.

        Raise `RouterFailed` if a router raises an exception, and `CapacityExceeded` if a table of the array engine is
        full. If the check on the reference engine had found problems before any exception, raise
        `InvariantViolation` instead.
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
                # A router that breaks the rules may cause an error; the problems found before explain it.
                raise InvariantViolation("\n".join(self._checker.problems)) from error
            if isinstance(error, Exception) and (failure := self.engine.router_failure(error)) is not None:
                raise failure from error
            raise
        if self._witnesses is not None:
            return Result(summary, self._witnesses.repeat().problems)
        return Result(summary, tuple(self._checker.problems) if self._checker is not None else ())

    def change_scenario(self, scenario: Scenario) -> None:
        """Continue with another scenario, whose plan must have the same events before `engine.changeable.next_us`.

        Call this method only from `progress`. Raise `ScenarioError` if the new plan cannot be carried out, and
        `ValueError` if the run is checked or uses the array engine. Then nothing changes.
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
        """Write the scenario and the names of peers and topics, which a reader that follows the run needs."""
        plan = self.plan
        folder.write_text_atomic("scenario.toml", dump_scenario(plan.scenario))
        nodes = range(plan.scenario.network.nodes)
        names, agents = [*map(str, nodes), "script"], ["hearsay"] * (len(nodes) + 1)
        regions = [*map(self.engine.latency.region_of, nodes), None]
        routers = [*(plan.routers[index][0].name for index in plan.router_of), "script"]
        folder.write_peers(range(len(nodes) + 1), names, routers, regions, agents)
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


def _tee(consumers: Sequence[Callable[[Rows], None]]) -> Callable[[Rows], None] | None:
    """Return a function that passes rows to all consumers; None if there are no consumers."""
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
    """Run a scenario on the engine that `choose_engine` returns for it; with a `listener`, on the reference engine.

    `out` is the path of the run folder for the results; with None, nothing is written. If `wanted` is `auto` and the
    array engine raises `CapacityExceeded`, run the scenario again on the reference engine. With the engine `array`,
    raise that error. Raise `ScenarioError` if the run needs too much memory, or if the wanted engine cannot run the
    scenario, and `RunFolderError` if `out` cannot be used.
    """
    if listener is not None:
        if wanted == "array":
            raise ScenarioError(["engine 'array' records rows out of order; a listener needs engine 'reference'"])
        wanted = "reference"
    engine, _ = choose_engine(scenario, wanted)
    require_memory(scenario, engine)
    folder = RunFolder.create(out) if out is not None else None

    simulation = partial(Simulation, scenario, check=check, folder=folder, listener=listener, threads=threads)
    try:
        return simulation(engine=engine).run()
    except CapacityExceeded:
        if wanted != "auto":
            raise
    require_memory(scenario, "reference")
    if folder is not None:
        folder.start_again()
    return simulation(engine="reference").run()
