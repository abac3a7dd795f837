"""Who watches a run, and what of it may be looked at in the end."""

from __future__ import annotations

from typing import Protocol

from hearsay.core.language.actions import Action
from hearsay.core.language.events import Event
from hearsay.core.language.identifiers import Micros
from hearsay.sim.reference.nodes import SimNode


class FinishedRun(Protocol):
    """A run that is over, with what was still under way."""

    now: Micros
    nodes: list[SimNode]

    def control_under_way(self) -> set[tuple[int, int]]: ...

    def episub_under_way(self) -> set[tuple[int, int]]: ...


class Observer(Protocol):
    """Watches every event and the actions it caused."""

    def node_started(self, node: SimNode, now: Micros) -> None: ...

    def node_stopped(self, node: SimNode, now: Micros) -> None: ...

    def handled(self, node: SimNode, event: Event, actions: list[Action], now: Micros) -> None: ...

    def finished(self, run: FinishedRun) -> None: ...
