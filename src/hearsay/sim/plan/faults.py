"""Times of faults, and the events of a plan with their times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from hearsay.core.language.identifiers import Micros
from hearsay.core.rules.mixing import extend
from hearsay.core.shell.randomness import Purpose, Randomness, below
from hearsay.sim.plan.draws import draw_array, exponential_us, node_numbers, part_of, smallest
from hearsay.sim.plan.topology import Dials
from hearsay.sim.scenario.network import Churn
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.values import MILLION


@dataclass(frozen=True, slots=True)
class Publication:
    """A message and its publisher: a node, or the script (number `nodes`), which sends it to the nodes `inject`."""

    time_us: Micros
    message: int
    topic: int
    publisher: int
    inject: tuple[int, ...]
    size_bytes: int


@dataclass(frozen=True, slots=True)
class TimedAction:
    """A node joins or leaves a topic."""

    time_us: Micros
    node: int
    join: bool
    topic: int


@dataclass(frozen=True, slots=True)
class NodeDown:
    """A node stops; with `goodbye` it leaves its topics first."""

    time_us: Micros
    node: int
    goodbye: bool


@dataclass(frozen=True, slots=True)
class NodeUp:
    """A node starts again."""

    time_us: Micros
    node: int


@dataclass(frozen=True, slots=True)
class LinksCut:
    """Links are cut: those between `side` and all other nodes (a partition), or those in `links`."""

    time_us: Micros
    fault: int
    side: frozenset[int] | None
    links: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class LinksHealed:
    """The nodes that a fault has separated can connect again."""

    time_us: Micros
    fault: int


Fault: TypeAlias = NodeDown | NodeUp | LinksCut | LinksHealed


_FOREVER_US = 1 << 62
_NO_PAIR = np.uint64((1 << 64) - 1)


@dataclass(frozen=True, slots=True, order=True)
class Absence:
    """A node is down from `start_us` until just before `end_us`."""

    start_us: Micros
    end_us: Micros
    goodbye: bool


def planned_faults(
    scenario: Scenario, randomness: Randomness, dials: Dials, absences: dict[int, list[Absence]], end_us: Micros
) -> tuple[Fault, ...]:
    """Return all faults of a run in their order."""
    events: list[Fault] = []
    for node, spans in absences.items():
        for span in spans:
            if span.start_us > 0:
                events.append(NodeDown(span.start_us, node, span.goodbye))
            events.append(NodeUp(span.end_us, node))
    events += _link_faults(scenario, randomness, dials)
    return tuple(sorted((event for event in events if event.time_us <= end_us), key=_order))


def planned_absences(scenario: Scenario, randomness: Randomness, end_us: Micros) -> dict[int, list[Absence]]:
    """Return the absences of each node that is ever away, in order. Those of a node neither overlap nor touch."""
    spans: dict[int, list[Absence]] = {}
    nodes = range(scenario.network.nodes)
    churn = scenario.faults.churn
    if churn is not None and churn.mean_away_us > 0:
        spans = _churn_absences(churn, randomness, nodes, end_us)
    in_order = sorted(enumerate(scenario.faults.crash), key=lambda numbered: numbered[1].at_us)
    for number, crash in in_order:
        at_us = crash.at_us
        rejoin_us = _FOREVER_US if crash.rejoin_after_us is None else at_us + max(1, crash.rejoin_after_us)
        up = [node for node in nodes if not any(span.start_us <= at_us < span.end_us for span in spans.get(node, ()))]
        if crash.share_millionths is None:
            crashed = set(crash.listed or ()) & set(up)
        else:
            draws = draw_array(randomness, Purpose.CRASH, (number,), np.array(up, dtype=np.uint64))
            crashed = {up[place] for place in smallest(draws, part_of(len(up), crash.share_millionths))}
        for node in sorted(crashed):
            spans.setdefault(node, []).append(Absence(at_us, rejoin_us, goodbye=False))
    return {node: _merged(spans[node]) for node in sorted(spans)}


def _churn_absences(churn: Churn, randomness: Randomness, nodes: range, end_us: Micros) -> dict[int, list[Absence]]:
    """Return each node's absences. Its draw 0 decides whether it is away first, draw k the length of its k-th stay or
    absence."""
    away_millionths, start_us, goodbye = churn.away_millionths, churn.start_us, churn.goodbye
    means_us = (churn.mean_session_us, churn.mean_away_us)
    found: dict[int, list[Absence]] = {}
    for node in nodes:
        state = randomness.draw(Purpose.SESSION, node)
        away = below(extend(state, 0), MILLION) < away_millionths
        time_us = start_us
        count = 0
        while time_us <= end_us:
            count += 1
            until_us = time_us + max(1, exponential_us(extend(state, count), means_us[away]))
            if away:
                found.setdefault(node, []).append(Absence(time_us, until_us, goodbye))
            time_us = until_us
            away = not away
    return found


def _merged(absences: list[Absence]) -> list[Absence]:
    merged: list[Absence] = []
    for absence in sorted(absences):
        if merged and absence.start_us <= merged[-1].end_us:
            last = merged[-1]
            merged[-1] = Absence(last.start_us, max(last.end_us, absence.end_us), last.goodbye)
        else:
            merged.append(absence)
    return merged


def _link_faults(scenario: Scenario, randomness: Randomness, dials: Dials) -> list[Fault]:
    """Return partitions, numbered 0, 1, …, and cuts, numbered after them."""
    nodes = scenario.network.nodes
    events: list[Fault] = []
    for fault, partition in enumerate(scenario.faults.partition):
        draws = draw_array(randomness, Purpose.PARTITION, (fault,), node_numbers(nodes))
        side = frozenset(smallest(draws, part_of(nodes, partition.share_millionths)))
        events.append(LinksCut(partition.at_us, fault, side, ()))
        events.append(LinksHealed(partition.heal_us, fault))
    for fault, cut in enumerate(scenario.faults.cut, start=len(scenario.faults.partition)):
        if cut.share_millionths is None:
            links = sorted({(min(link), max(link)) for link in cut.links or ()})
        else:
            links = _links_to_cut(dials, fault, cut.share_millionths, randomness)
        events.append(LinksCut(cut.at_us, fault, None, tuple(links)))
        if cut.heal_us is not None:
            events.append(LinksHealed(cut.heal_us, fault))
    return events


def _links_to_cut(dials: Dials, fault: int, millionths: int, randomness: Randomness) -> list[tuple[int, int]]:
    """Return a share of the pairs that are linked when all dials succeed."""
    nodes = len(dials)
    dialling = np.repeat(node_numbers(nodes), np.diff(dials.starts))
    dialled = dials.targets.astype(np.uint64)
    ends = np.sort(np.minimum(dialling, dialled) * np.uint64(nodes) + np.maximum(dialling, dialled))
    pairs = ends[np.flatnonzero(np.diff(ends, prepend=_NO_PAIR))]  # ten times as fast as np.unique
    low, high = pairs // np.uint64(nodes), pairs % np.uint64(nodes)
    chosen = smallest(draw_array(randomness, Purpose.LINK_CUT, (fault,), low, high), part_of(len(pairs), millionths))
    return list(zip(low[chosen].tolist(), high[chosen].tolist(), strict=True))


_KINDS_IN_ORDER = (LinksHealed, NodeUp, NodeDown, LinksCut)


def _order(fault: Fault) -> tuple[Micros, int, int]:
    number = fault.node if isinstance(fault, NodeUp | NodeDown) else fault.fault
    return fault.time_us, _KINDS_IN_ORDER.index(type(fault)), number
