"""The arrays of a run, built from its plan: settings, schedule, and room for events, RPCs and rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hearsay.core.language.events import EventKind
from hearsay.core.shell.randomness import Purpose, Randomness
from hearsay.sim.array.build_features import set_features
from hearsay.sim.array.build_nodes import (
    set_messages,
    set_neighbours,
    set_nodes,
    set_opinions,
    set_routers,
    set_topics,
    set_verdicts,
)
from hearsay.sim.array.machine.memory import filled, lines_at_most, zeros
from hearsay.sim.array.run import loop, whole_network
from hearsay.sim.array.travel import transport
from hearsay.sim.array.world import layout as at
from hearsay.sim.array.world import queue, slots
from hearsay.sim.array.world.layout import Arrays
from hearsay.sim.array.world.payload import ARENA_BITS
from hearsay.sim.array.world.queue import CHUNK, DIVISIONS, NO_BUCKET
from hearsay.sim.plan.draws import log_normal_tables
from hearsay.sim.plan.engines import chooses_neighbours, exchanges_features, part_words, routers_dial
from hearsay.sim.plan.faults import LinksCut, LinksHealed, NodeDown, NodeUp
from hearsay.sim.plan.latency import LatencyModel, LogNormalLatency, RegionLatency, UniformLatency
from hearsay.sim.plan.plan import Plan, Verdicts

MEASURED_US = 1 << 21
_BUCKETS = 1024
_WORD_BYTES = 8
_LINK_BYTES = 4
_MOST_ENTRIES = 1 << 31
"""The most entries of `pool` for each thread: the headers of nodes have 32 bits for the index of an entry."""


def set_room(arrays: Arrays, threads: int) -> None:
    """Create the arrays for events, RPCs and rows; the system provides a page when it is first touched."""
    w = arrays.world
    w[at.MEASURED] = MEASURED_US
    w[at.BUCKETS] = _BUCKETS
    nodes = int(w[at.NODES])
    slots_used = int(w[at.SLOTS_USED])
    events = (1 << 20) + 8 * slots_used + 64 * nodes
    chunks = lines_at_most(events // CHUNK, CHUNK * (2 * _WORD_BYTES + _LINK_BYTES)) // threads * threads
    arrays["queued"] = zeros((chunks * CHUNK, 2), np.int64)
    at_once = lines_at_most(events // 2, 2 * (2 * _WORD_BYTES + _LINK_BYTES))
    arrays["sorted_events"] = zeros((2, at_once, 2), np.int64)
    arrays["sorted_links"] = zeros((2, at_once if w[at.HAS_LINKS] else 1), np.int32)
    if w[at.HAS_LINKS]:
        arrays["queued_links"] = zeros((chunks * CHUNK,), np.int32)
    arrays["chunk_next"] = zeros((chunks,), np.int32)
    rings = _BUCKETS + DIVISIONS
    arrays["heads"] = filled((threads, rings), np.int32, -1)
    arrays["tails"] = filled((threads, rings), np.int32, -1)
    arrays["fills"] = filled((threads, rings), np.int32, CHUNK)
    arrays["far"] = zeros((threads, lines_at_most(events // 4, 4 * _WORD_BYTES), 4), np.int64)
    arrays["near"] = zeros((threads, lines_at_most(max(1 << 16, events // 8), 4 * _WORD_BYTES), 4), np.int64)
    arrays["block_starts"] = zeros((2, int(w[at.BLOCKS]) + 1), np.int64)
    arrays["node_counts"] = zeros((threads, (1 << int(w[at.BLOCK_BITS])) + 1), np.int64)
    words = nodes * 64 + slots_used * 12  # at the start every link carries a hello, mostly of one part
    arena_chunks = lines_at_most(64 + (words >> ARENA_BITS), _WORD_BYTES << ARENA_BITS) * threads
    arena_chunks = min(arena_chunks, queue.TOPIC_PART >> ARENA_BITS) // threads * threads
    arrays["arena"] = zeros((arena_chunks << ARENA_BITS,), np.int64)
    arrays["outbox"] = zeros((threads, lines_at_most(1 << 22, 4 * _WORD_BYTES), 4), np.int64)
    arrays["pending"] = zeros((threads, arena_chunks), np.int32)
    if w[at.USES_12]:
        arrays["urgent"] = zeros((threads, lines_at_most(1 << 22, 2 * _WORD_BYTES), 2), np.int64)
    if w[at.HAS_DIALS]:
        arrays["names"] = zeros((threads, lines_at_most(1 << 22, _WORD_BYTES)), np.int64)
        under_way = lines_at_most((1 << 16) + 64 * nodes, 6 * _WORD_BYTES)
        arrays["dials"] = zeros((threads, under_way, 6), np.int64)
        arrays["arrivals"] = zeros((under_way, 6), np.int64)
    entries = min(lines_at_most((1 << 20) + 16 * nodes, 4 * _WORD_BYTES), _MOST_ENTRIES)
    arrays["pool"] = zeros((threads, entries, 4), np.int64)
    rows = lines_at_most((1 << 22) + 16 * nodes, 13 * _WORD_BYTES) if w[at.TRACING] else 1
    arrays["rows"] = zeros((threads, rows, 13), np.int64)
    arrays["sums"] = zeros((threads, 8), np.uint64)
    arrays["counts"] = zeros((threads, at.COUNTERS), np.int64)
    arrays["latency_counts"] = zeros((threads, MEASURED_US), np.int64)
    arrays["latencies_seen"] = zeros((threads, 1 << 12), np.int64)
    latencies = lines_at_most(2 * loop.LATENCIES_AT_ONCE + 16 * nodes, _WORD_BYTES)
    arrays["long_latencies"] = zeros((threads, latencies), np.int64)
    arrays["leaving"] = zeros((threads, transport.ROOM, 4), np.int64)
    arrays["control"] = _control(threads, chunks, arena_chunks)


def _control(threads: int, chunks: int, arena_chunks: int) -> NDArray[np.int64]:
    table = np.zeros((threads, at.CONTROL), dtype=np.int64)
    for thread in range(threads):
        line = table[thread]
        line[at.CHUNK_FREE] = line[at.POOL_FREE] = line[at.ARENA_FREE] = line[at.ERRAND_FREE] = -1
        line[at.CHUNK_FRESH] = thread * chunks // threads
        line[at.CHUNK_END] = (thread + 1) * chunks // threads
        line[at.ARENA_FRESH] = thread * arena_chunks // threads
        line[at.ARENA_END] = (thread + 1) * arena_chunks // threads
        line[at.ARENA_CHUNK] = -1
        line[at.FAR_FIRST] = NO_BUCKET
    return table


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
    """Set `schedule`, events of the whole network in the order of handling, and `planned`, those of single nodes."""
    script = plan.scenario.network.nodes
    whole: list[tuple[int, int, int, int, int, int]] = [(0, 0, 0, whole_network.START_ALL, 0, 0)]
    for number, fault in enumerate(plan.faults, start=1):
        kind, first, second = _fault(fault)
        whole.append((fault.time_us, 0, number, kind, first, second))
    interval_us = plan.scenario.trace.state_interval_us
    if interval_us:
        samples = range(interval_us, plan.end_us, interval_us)
        whole += [(time_us, 1, number, whole_network.SAMPLE_STATE, 0, 0) for number, time_us in enumerate(samples)]
    interval_us = plan.scenario.scores.every_us
    if interval_us:
        samples = range(interval_us, plan.end_us, interval_us)
        whole += [(time_us, 2, number, whole_network.SAMPLE_SCORES, 0, 0) for number, time_us in enumerate(samples)]
        arrays.world[at.SAMPLES_SCORES] = 1
    single: list[tuple[int, int, int, int]] = []
    for timed in plan.timed:
        kind = EventKind.JOIN if timed.join else EventKind.LEAVE
        single.append((timed.time_us, timed.node, int(kind), place_of[timed.topic]))
    for publication in plan.publications:
        message = publication.message
        if publication.publisher == script:
            whole.append((publication.time_us, 3, message, whole_network.INJECT, message, 0))
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
    """Set QUIET_UNTIL if the first connections can be made node by node; otherwise provide `dial_buckets`.

    In a run that stores rows they cannot: rows are in the order of time.
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


_MOST_WIDTH_BITS = 17
_LEAST_WIDTH_BITS = 9
_IN_ORDER_WIDTH_BITS = 12
_BLOCK_BITS = 8
_MOST_BLOCKS = 4096


def build(plan: Plan, latency: LatencyModel, randomness: Randomness, *, tracing: int, threads: int) -> Arrays:
    """Return all arrays of a run, as they are before it starts."""
    arrays = Arrays()
    w = arrays.world
    scenario = plan.scenario
    nodes = scenario.network.nodes
    order = sorted(range(len(plan.topics)), key=plan.topics.__getitem__)
    place_of = {topic: place for place, topic in enumerate(order)}
    w[at.NODES] = w[at.SCRIPT] = nodes
    w[at.TOPICS] = len(order)
    w[at.MESSAGES] = len(plan.publications)
    w[at.END] = plan.end_us
    w[at.TRACING] = tracing
    w[at.LOSS] = scenario.loss.rate_millionths
    w[at.HAS_LOSS] = scenario.loss.rate_millionths > 0
    w[at.LOSS_CONTROL] = scenario.loss.control
    w[at.HAS_JITTER] = latency.has_jitter
    w[at.JITTER] = scenario.links.jitter_us
    w[at.UPLINK] = scenario.links.uplink_bits_per_s
    w[at.UPLINK_BYTES] = scenario.links.uplink_queue_bytes
    w[at.SERVICE] = scenario.service.time_us
    w[at.VALIDATION] = scenario.validation.delay_us
    w[at.HAS_VERDICTS] = bool(scenario.validation.reject_millionths or scenario.validation.invalid)
    w[at.DETECTION] = scenario.faults.detection_us
    w[at.REDIAL] = scenario.faults.redial
    w[at.LINGER] = scenario.linger_us
    faulty = bool(plan.faults or plan.initially_down)
    w[at.HAS_OVERLAY] = chooses_neighbours(scenario)
    w[at.HAS_FEATURES] = exchanges_features(scenario)
    w[at.PART_WORDS] = part_words(scenario)
    w[at.THREADS] = 1 if w[at.HAS_OVERLAY] or w[at.PART_WORDS] else threads
    w[at.RENDEZVOUS] = scenario.network.rendezvous_us
    w[at.HAS_DIALS] = w[at.HAS_OVERLAY] or routers_dial(scenario)
    w[at.HAS_LINKS] = faulty or w[at.HAS_LOSS] or w[at.HAS_JITTER] or w[at.UPLINK] > 0 or w[at.HAS_DIALS]
    w[at.TRACKS_SINCE] = faulty or bool(plan.timed)
    w[at.BLOCK_BITS] = max(_BLOCK_BITS, (nodes // _MOST_BLOCKS).bit_length())
    w[at.BLOCKS] = (nodes >> int(w[at.BLOCK_BITS])) + 1
    w[at.BUCKET] = -1
    arrays["bases"] = np.zeros(max(Purpose) + 1, dtype=np.uint64)
    for purpose in Purpose:
        arrays["bases"][purpose] = randomness.draw(purpose)
    _set_latency(arrays, latency)
    _set_width(arrays, latency.minimum_us)
    set_routers(arrays, plan)
    set_topics(arrays, plan, order)
    set_messages(arrays, plan, place_of)
    set_nodes(arrays, plan, place_of)
    set_verdicts(arrays, plan, Verdicts(plan, randomness))
    set_opinions(arrays, plan, randomness)
    set_neighbours(arrays, plan, place_of)
    if w[at.HAS_FEATURES]:
        set_features(arrays, plan, order)
    set_faults(arrays, plan)
    set_schedule(arrays, plan, place_of)
    set_start(arrays)
    set_room(arrays, int(w[at.THREADS]))
    return arrays


def _set_latency(arrays: Arrays, latency: LatencyModel) -> None:
    w = arrays.world
    match latency:
        case UniformLatency():
            w[at.LATENCY_KIND] = slots.UNIFORM
            w[at.LATENCY_LEAST], w[at.LATENCY_SPAN] = latency.bounds
        case LogNormalLatency():
            w[at.LATENCY_KIND] = slots.LOG_NORMAL
            arrays["latencies"] = np.concatenate([np.array(part) for part in log_normal_tables(*latency.shape)])
        case RegionLatency():
            w[at.LATENCY_KIND] = slots.REGIONS
            w[at.REGION_COUNT] = len(latency.regions.names)
            arrays["latencies"] = np.array(latency.regions.latency_us, dtype=np.int64).ravel()
            arrays["region_jitters"] = np.array(latency.regions.jitter_us, dtype=np.int64)
        case _:
            raise TypeError(f"no kernel for {type(latency).__name__}")


def _set_width(arrays: Arrays, minimum_us: int) -> None:
    """Make buckets as wide as the smallest latency; if that is too small, handle events in the order of time.

    Runs whose routers choose their neighbours use the order of time, and one thread: these routers close and measure
    connections, and both nodes see the result at once. So do runs with partial messages: see `part_lines.py`.
    """
    w = arrays.world
    bits = min(minimum_us.bit_length() - 1, _MOST_WIDTH_BITS)
    in_order = bits < _LEAST_WIDTH_BITS or w[at.HAS_OVERLAY] or w[at.PART_WORDS]
    w[at.LOOKAHEAD] = not in_order
    w[at.WIDTH_BITS] = bits if w[at.LOOKAHEAD] else _IN_ORDER_WIDTH_BITS
