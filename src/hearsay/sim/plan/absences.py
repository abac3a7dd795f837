"""When nodes are away.

A node is away when churn or a crash says so. Its absences are merged, so that it never goes down twice in a row; one
that starts at time 0 makes it initially down. A crash without rejoining is for good, whatever churn says.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hearsay.core.language.identifiers import Micros
from hearsay.core.rules.mixing import extend
from hearsay.core.shell.randomness import Purpose, Randomness, below
from hearsay.sim.plan.planned_events import Fault, NodeDown, NodeUp
from hearsay.sim.plan.quantiles import exponential_us
from hearsay.sim.plan.shares import part_of, smallest
from hearsay.sim.plan.topology import draw_array
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.values import MILLION

_FOREVER_US = 1 << 62


@dataclass(frozen=True, slots=True, order=True)
class Absence:
    """A node is down from `start_us` until just before `end_us`."""

    start_us: Micros
    end_us: Micros
    goodbye: bool


def planned_absences(scenario: Scenario, randomness: Randomness, end_us: Micros) -> dict[int, list[Absence]]:
    """The nodes that are ever away, ascending, each with its absences in order, none touching the next."""
    spans: dict[int, list[Absence]] = {}
    churn = scenario.faults.churn
    if churn is not None and churn.mean_away_us > 0:
        rates = _ChurnRates(
            churn.away_millionths, (churn.mean_session_us, churn.mean_away_us), churn.start_us, churn.goodbye
        )
        for node in range(scenario.network.nodes):
            away = _churn(rates, randomness, node, end_us)
            if away:
                spans[node] = away
    in_order = sorted(enumerate(scenario.faults.crash), key=lambda numbered: numbered[1].at_us)
    for number, crash in in_order:
        at_us = crash.at_us
        rejoin_us = _FOREVER_US if crash.rejoin_after_us is None else at_us + max(1, crash.rejoin_after_us)
        up = [
            node
            for node in range(scenario.network.nodes)
            if not any(span.start_us <= at_us < span.end_us for span in spans.get(node, ()))
        ]
        if crash.share_millionths is None:
            crashed = set(crash.listed or ()) & set(up)
        else:
            draws = draw_array(randomness, Purpose.CRASH, (number,), np.array(up, dtype=np.uint64))
            crashed = {up[place] for place in smallest(draws, part_of(len(up), crash.share_millionths))}
        for node in sorted(crashed):
            spans.setdefault(node, []).append(Absence(at_us, rejoin_us, goodbye=False))
    return {node: _merged(spans[node]) for node in sorted(spans)}


@dataclass(frozen=True, slots=True)
class _ChurnRates:
    """`[faults.churn]` in integers, computed once; `means_us` are those of a session and of an absence."""

    away_millionths: int
    means_us: tuple[Micros, Micros]
    start_us: Micros
    goodbye: bool


def _churn(churn: _ChurnRates, randomness: Randomness, node: int, end_us: Micros) -> list[Absence]:
    """Absences of one node by churn: draw 0 says whether it starts away, draw k how long its k-th span lasts."""
    state = randomness.draw(Purpose.SESSION, node)
    away = below(extend(state, 0), MILLION) < churn.away_millionths
    time_us = churn.start_us
    absences: list[Absence] = []
    count = 0
    while time_us <= end_us:
        count += 1
        until_us = time_us + max(1, exponential_us(extend(state, count), churn.means_us[away]))
        if away:
            absences.append(Absence(time_us, until_us, churn.goodbye))
        time_us = until_us
        away = not away
    return absences


def _merged(absences: list[Absence]) -> list[Absence]:
    merged: list[Absence] = []
    for absence in sorted(absences):
        if merged and absence.start_us <= merged[-1].end_us:
            last = merged[-1]
            merged[-1] = Absence(last.start_us, max(last.end_us, absence.end_us), last.goodbye)
        else:
            merged.append(absence)
    return merged


def comings_and_goings(absences: dict[int, list[Absence]], end_us: Micros) -> list[Fault]:
    events: list[Fault] = []
    for node, spans in absences.items():
        for span in spans:
            if 0 < span.start_us <= end_us:
                events.append(NodeDown(span.start_us, node, span.goodbye))
            if span.end_us <= end_us:
                events.append(NodeUp(span.end_us, node))
    return events
