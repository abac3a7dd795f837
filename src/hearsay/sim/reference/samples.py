"""What is looked at now and then: how much nodes remember, and what their routers think of their peers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hearsay.core.language.identifiers import Micros
from hearsay.sim.reference.nodes import SimNode
from hearsay.sim.results.recorder import Recorder
from hearsay.trace.language.event_rows import state_row
from hearsay.trace.language.score_rows import score_rows


def sample_state(nodes: Iterable[SimNode], now: Micros, recorder: Recorder) -> None:
    for node in nodes:
        if node.router is not None:
            size = node.router.state_size(now)
            recorder.row(state_row(now, node.id, size.bytes, size.entries))


def sample_scores(
    nodes: Iterable[SimNode], topic_numbers: Mapping[Any, int], now: Micros, recorder: Recorder
) -> None:
    """Of each router that judges, each connected peer."""
    for node in nodes:
        if node.router is not None and node.router.strategy.judges:
            for peer, parts in node.router.strategy.scores():
                number: Any = peer
                for row in score_rows(now, node.id, number, parts, topic_numbers):
                    recorder.row(row)
