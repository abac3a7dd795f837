"""What is decided to happen in a run: faults, joins and leaves, publications, samples, and how it starts."""

from __future__ import annotations

import numpy as np

from hearsay.core.language.events import EventKind
from hearsay.sim.array.machine.memory import zeros
from hearsay.sim.array.run import whole_network
from hearsay.sim.array.world import layout as at
from hearsay.sim.array.world.layout import Arrays
from hearsay.sim.plan.faults import LinksCut, LinksHealed, NodeDown, NodeUp
from hearsay.sim.plan.plan import Plan


def set_faults(arrays: Arrays, plan: Plan) -> None:
    nodes = int(arrays.world[at.NODES])
    cuts = [fault for fault in plan.faults if isinstance(fault, LinksCut)]
    count = max((cut.fault + 1 for cut in cuts), default=0)
    partitions = max((cut.fault + 1 for cut in cuts if cut.side is not None), default=0)
    sides = np.zeros((partitions, nodes), dtype=np.uint8)
    ranges = np.zeros((count, 3), dtype=np.int64)
    pairs: list[int] = []
    for cut in cuts:
        if cut.side is not None:
            sides[cut.fault, list(cut.side)] = 1
        named = sorted({min(a, b) * nodes + max(a, b) for a, b in cut.links})
        ranges[cut.fault] = (len(pairs), len(pairs) + len(named), 0)
        pairs += named
    arrays["sides"] = sides
    arrays["cut_ranges"] = ranges
    arrays["cut_pairs"] = np.array(pairs or [0], dtype=np.int64)
    arrays["lost_links"] = zeros((max(1, count), nodes if count else 1), np.int32)


def set_schedule(arrays: Arrays, plan: Plan, place_of: dict[int, int]) -> None:
    """What concerns the whole network, in its order, and what concerns one node."""
    script = plan.scenario.network.nodes
    whole: list[tuple[int, int, int, int, int, int]] = [(0, 0, 0, whole_network.START_ALL, 0, 0)]
    for number, fault in enumerate(plan.faults, start=1):
        kind, first, second = _fault(fault)
        whole.append((fault.time_us, 0, number, kind, first, second))
    interval_us = plan.scenario.trace.state_interval_us
    if interval_us:
        samples = range(interval_us, plan.end_us, interval_us)
        whole += [(time_us, 1, number, whole_network.SAMPLE_STATE, 0, 0) for number, time_us in enumerate(samples)]
    single: list[tuple[int, int, int, int]] = []
    for timed in plan.timed:
        kind = EventKind.JOIN if timed.join else EventKind.LEAVE
        single.append((timed.time_us, timed.node, int(kind), place_of[timed.topic]))
    for publication in plan.publications:
        message = publication.message
        if publication.publisher == script:
            whole.append((publication.time_us, 2, message, whole_network.INJECT, message, 0))
        else:
            single.append((publication.time_us, publication.publisher, int(EventKind.PUBLISH), message))
    whole.sort()
    single.sort(key=lambda event: event[0])
    table = np.array(whole, dtype=np.int64)
    arrays["schedule"] = np.ascontiguousarray(table[:, [0, 3, 4, 5]])
    arrays.world[at.GLOBALS] = len(table)
    arrays["planned"] = np.array(single, dtype=np.int64).reshape(-1, 4)


def _fault(fault: NodeDown | NodeUp | LinksCut | LinksHealed) -> tuple[int, int, int]:
    match fault:
        case NodeDown():
            return whole_network.NODE_DOWN, fault.node, int(fault.goodbye)
        case NodeUp():
            return whole_network.NODE_UP, fault.node, 0
        case LinksCut():
            return whole_network.CUT_LINKS, fault.fault, 0
        case LinksHealed():
            return whole_network.HEAL_LINKS, fault.fault, 0


def set_start(arrays: Arrays) -> None:
    """Whether the network can come about at once, and else when its dials arrive.

    Rows are kept in the order of time, and so only without them.
    """
    w = arrays.world
    table = arrays["parameters"]
    says_hello = bool(table[:, at.HELLO].any())
    if not (says_hello or w[at.HAS_LINKS] or w[at.SERVICE] or w[at.TRACING]):
        beats = table[table[:, at.ROUTER_KIND] >= at.MESHSUB, at.FIRST_BEAT]
        others = np.concatenate(
            [arrays["schedule"][1:, whole_network.TIME], arrays["planned"][:, whole_network.TIME]]
        )
        until = min(beats.min(initial=w[at.END]), others.min(initial=w[at.END]))
        w[at.QUIET_UNTIL] = until if until >= 1 << w[at.WIDTH_BITS] else 0
    if not (w[at.QUIET_UNTIL] or w[at.HAS_LINKS]):
        arrays["dial_buckets"] = zeros(arrays["dial_targets"].shape, np.uint8)
