"""Partitions and cuts: which links are cut when, and when they heal."""

from __future__ import annotations

import numpy as np

from hearsay.core.language.identifiers import Micros
from hearsay.core.shell.randomness import Purpose, Randomness
from hearsay.sim.plan.planned_events import Fault, LinksCut, LinksHealed, NodeDown, NodeUp
from hearsay.sim.plan.shares import node_numbers, part_of, smallest
from hearsay.sim.plan.topology import Dials, draw_array
from hearsay.sim.scenario.scenario import Scenario

_NO_PAIR = np.uint64((1 << 64) - 1)


def planned_link_faults(scenario: Scenario, randomness: Randomness, targets: Dials, end_us: Micros) -> list[Fault]:
    """Partitions are faults 0, 1, …, cuts have the numbers after them."""
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
            links = _links_to_cut(targets, fault, cut.share_millionths, randomness)
        events.append(LinksCut(cut.at_us, fault, None, tuple(links)))
        if cut.heal_us is not None:
            events.append(LinksHealed(cut.heal_us, fault))
    return [event for event in events if event.time_us <= end_us]


def _links_to_cut(targets: Dials, fault: int, millionths: int, randomness: Randomness) -> list[tuple[int, int]]:
    """A share of the pairs that are linked when all dials succeed."""
    nodes = len(targets)
    dialling = np.repeat(node_numbers(nodes), np.diff(targets.starts))
    dialled = targets.targets.astype(np.uint64)
    ends = np.sort(np.minimum(dialling, dialled) * np.uint64(nodes) + np.maximum(dialling, dialled))
    pairs = ends[np.flatnonzero(np.diff(ends, prepend=_NO_PAIR))]  # A tenth of the time of np.unique.
    low, high = pairs // np.uint64(nodes), pairs % np.uint64(nodes)
    chosen = smallest(draw_array(randomness, Purpose.LINK_CUT, (fault,), low, high), part_of(len(pairs), millionths))
    return list(zip(low[chosen].tolist(), high[chosen].tolist(), strict=True))


def fault_order(fault: Fault) -> tuple[Micros, int, int]:
    """By time; at one time what comes back before what goes."""
    match fault:
        case LinksHealed():
            return fault.time_us, 0, fault.fault
        case NodeUp():
            return fault.time_us, 1, fault.node
        case NodeDown():
            return fault.time_us, 2, fault.node
        case LinksCut():
            return fault.time_us, 3, fault.fault
