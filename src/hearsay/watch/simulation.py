"""A simulation whose pace users set, and which users pause, stop and change while it runs.

Changes by users (touches) take effect between two buckets of the engine's queue. They become part of the scenario,
which then reproduces the run: a published message becomes a `[[timed]]` publication, a crash becomes a
`[[faults.crash]]` with one listed node, and the return of the node becomes the `rejoin_after_s` of the crash.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from threading import Event
from time import monotonic
from typing import Any

from hearsay.core.language.identifiers import Micros
from hearsay.sim.scenario.network import Crash
from hearsay.sim.scenario.reading import ScenarioError
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.scenario_file import change_scenario, dump_scenario
from hearsay.sim.scenario.values import MILLION, Section
from hearsay.sim.scenario.workload import Timed, TimedKind
from hearsay.sim.simulate import Result, Simulation
from hearsay.watch.broadcast import FRAME_S, Broadcast, Refused
from hearsay.watch.pacing import Pacing
from hearsay.watch.picture import Changes, Picture

MOST_TOUCHES = 1000
"""Maximum changes of a run by users."""
SHORTEST_STEP_US: Micros = 1000


class SimulatedSource:
    """A simulation that runs on its own thread."""

    def __init__(self, simulation: Simulation, picture: Picture, pace: float | None, *, paused: bool = False) -> None:
        """Create the source of a simulation whose watcher is the picture's `add_rows`. `pace` is simulated time per
        real time; None means as fast as possible.
        """
        self._simulation = simulation
        self._picture = picture
        self._engine = simulation.engine
        self._scenario = simulation.plan.scenario
        self._pacing = Pacing(pace, paused=paused)
        self._touches = 0
        self._over = False
        self._closed = Event()
        self._broadcast: Broadcast | None = None
        self._resumed_s = 0.0
        self._longest_step_us = self._engine.step_us
        self._engine.step_us = SHORTEST_STEP_US

    def about(self) -> Changes:
        can = ["pause", "pace"]
        if self._engine.changeable is not None:
            can += ["publish", "crash", "return"]
        return {
            "source": "simulation",
            "of": self._scenario.network.nodes,
            "end": self._simulation.plan.end_us,
            "names": dict(enumerate(self._simulation.plan.topics)),
            "can": can,
        }

    @property
    def has_begun(self) -> bool:
        return self._broadcast is not None

    def scenario_text(self) -> str:
        """Return the text of the scenario file with all changes by users so far."""
        return dump_scenario(self._scenario)

    def run(self, broadcast: Broadcast) -> Result:
        """Run the simulation to its end, or until `close`, and return the result."""
        self._broadcast = broadcast
        self._pacing.begin(0)
        self._resumed_s = monotonic()
        result = self._simulation.run(self._progress)
        self._over = True
        self._answer_and_send()
        return result

    def linger(self) -> None:
        """Answer viewers of a finished run until `close`. Return at once if the run has not begun."""
        while self._broadcast is not None and not self._closed.is_set():
            self._answer_and_send()
            self._broadcast.wait_until_due()

    def close(self) -> None:
        """End the run, or `linger`; any thread may call this."""
        self._engine.stop_requested = True
        self._closed.set()
        if self._broadcast is not None:
            self._broadcast.woken.set()

    def _progress(self, now_us: Micros) -> None:
        broadcast = self._broadcast
        assert broadcast is not None
        self._fit_steps(monotonic() - self._resumed_s)
        if broadcast.is_due:
            self._answer_and_send()
        while not self._closed.is_set() and (due_us := self._pacing.due_us()) is not None and due_us <= now_us:
            broadcast.wait_until_due()
            self._answer_and_send()
        self._resumed_s = monotonic()

    def _fit_steps(self, took_s: float) -> None:
        """Adapt the length of the engine's steps to `took_s`, the real time of the last step. A step should last at
        most about half a frame, and simulate at most the time that the pace allows for a frame.
        """
        engine = self._engine
        pace = self._pacing.pace
        longest_us = self._longest_step_us if pace is None else round(FRAME_S * pace * 1e6)
        step_us = engine.step_us // 2 if took_s > FRAME_S / 2 else engine.step_us
        step_us = 2 * step_us if took_s < FRAME_S / 8 else step_us
        engine.step_us = max(min(step_us, longest_us), SHORTEST_STEP_US)

    def _answer_and_send(self) -> None:
        assert self._broadcast is not None
        self._simulation.recorder.flush()
        state = {**self._pacing.state(), "over": self._over, "touches": self._touches}
        self._broadcast.answer_and_send(self._engine.now, state, self._perform)

    def _perform(self, request: dict[str, Any]) -> Changes | None:
        scenario, topics, drawn = self._scenario, self._simulation.plan.topics, self._picture.drawn.numbers
        match request:
            case {"do": "publish", "place": int(place), "topic": int(topic)}:
                if not 0 <= topic < len(topics):
                    raise Refused(f"there are topics 0…{len(topics) - 1}")
                node = drawn[place]
                return self._touch(node, True, lambda at_us: with_publication(scenario, node, topics[topic], at_us))
            case {"do": "crash", "place": int(place)}:
                node = drawn[place]
                return self._touch(node, True, lambda at_us: with_crash(scenario, node, at_us))
            case {"do": "return", "place": int(place)}:
                node = drawn[place]
                return self._touch(node, False, lambda at_us: with_return(scenario, node, at_us))
            case _:
                return self._pacing.perform(request, self._engine.now)

    def _touch(self, node: int, is_up: bool, changed: Callable[[Micros], Scenario]) -> Changes:
        run = self._engine.changeable
        if run is None:
            raise Refused("only runs of the reference engine can be changed; use --engine reference")
        if self._over:
            raise Refused("the run is over")
        if self._touches >= MOST_TOUCHES:
            raise Refused(f"a run can be changed at most {MOST_TOUCHES} times")
        if run.is_up(node) != is_up:
            raise Refused(f"node {node} is {'down' if is_up else 'up'}")
        at_us = run.next_us
        scenario = changed(at_us)
        try:
            self._simulation.change_scenario(scenario)
        except ScenarioError as error:
            raise Refused("; ".join(error.problems)) from None
        self._scenario = scenario
        self._touches += 1
        assert self._broadcast is not None
        self._broadcast.add_state(end=self._simulation.plan.end_us)
        return {"node": node, "at": at_us}


def with_publication(scenario: Scenario, node: int, topic: str, at_us: Micros) -> Scenario:
    """Return the scenario with one more publication, by a node at a time. Raise `Refused` if it is not valid."""
    more = Timed(at_s=_seconds(at_us), node=node, action=TimedKind.PUBLISH, topic=topic)
    return _changed(scenario, {"timed": (*scenario.timed, more)})


def with_crash(scenario: Scenario, node: int, at_us: Micros) -> Scenario:
    """Return the scenario with one more crash of a node. Raise `Refused` if it is not valid."""
    return _with_crashes(scenario, (*scenario.faults.crash, Crash(at_s=_seconds(at_us), listed=(node,))))


def _with_crashes(scenario: Scenario, crashes: Sequence[Crash]) -> Scenario:
    return _changed(scenario, {"faults": scenario.faults.model_copy(update={"crash": tuple(crashes)})})


def with_return(scenario: Scenario, node: int, at_us: Micros) -> Scenario:
    """Return the scenario with a return of a node at `at_us`, from its last crash by a user: a crash that lists only
    this node and has no return yet. Raise `Refused` if there is no such crash, or if the new scenario is not valid.
    """
    crashes = list(scenario.faults.crash)
    for place in reversed(range(len(crashes))):
        crash = crashes[place]
        if crash.listed == (node,) and crash.rejoin_after_s is None:
            after = _seconds(at_us - crash.at_us)
            crashes[place] = Crash(at_s=crash.at_s, listed=(node,), rejoin_after_s=after)
            return _with_crashes(scenario, crashes)
    raise Refused(f"node {node} is down by a fault of the scenario; only nodes that a page took down can return")


def _changed(scenario: Scenario, update: dict[str, Section | tuple[Section, ...]]) -> Scenario:
    """Return the scenario with new values. Raise `Refused` if it is not valid by the checks for scenario files."""
    try:
        return change_scenario(scenario.model_copy(update=update), (), {})
    except ScenarioError as error:
        raise Refused("; ".join(error.problems)) from None


def _seconds(time_us: Micros) -> Decimal:
    return Decimal(time_us) / MILLION
