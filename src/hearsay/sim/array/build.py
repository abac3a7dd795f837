"""Functions that build the arrays of a run from its plan: settings, schedule, partial messages, and room.

The arrays for events, RPCs and rows need room. `build_nodes.py` has the functions for nodes, routers and topics.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hearsay.core.language.events import EventKind
from hearsay.core.language.rpc import PartialUse
from hearsay.core.rules.partial_rules import NO_USE
from hearsay.core.rules.randomness import Purpose, Randomness
from hearsay.partial.exchange import Asking
from hearsay.partial.formats import Claim, group_named
from hearsay.sim.array.build_nodes import (
    set_messages,
    set_neighbours,
    set_nodes,
    set_routers,
    set_score_inputs,
    set_topics,
    set_verdicts,
)
from hearsay.sim.array.compiling import lines_at_most
from hearsay.sim.array.run import loop, whole_network
from hearsay.sim.array.travel import transport
from hearsay.sim.array.world import layout as at
from hearsay.sim.array.world import part_lines, queue, slots
from hearsay.sim.array.world.layout import Arrays
from hearsay.sim.array.world.payload import ARENA_BITS, UNPACKED
from hearsay.sim.array.world.queue import CHUNK, DIVISIONS, NO_BUCKET
from hearsay.sim.plan.draws import log_normal_tables
from hearsay.sim.plan.engines import chooses_neighbours, exchanges_features, part_words, routers_dial
from hearsay.sim.plan.events import LinksCut, LinksHealed, NodeDown, NodeUp
from hearsay.sim.plan.network import LatencyModel, LogNormalLatency, RegionLatency, UniformLatency
from hearsay.sim.plan.plan import Plan, Verdicts
from hearsay.sim.reference.action_handler import PartialTopic

_LEAST_LINES = 1 << 18
MEASURED_US = 1 << 21
"""Latencies below this number of microseconds are counted in `latency_counts`, longer ones in `long_latencies`."""
_BUCKETS = 1024
_WORD_BYTES = 8
_LINK_BYTES = 4
_MOST_ENTRIES = 1 << 31
"""The maximum number of entries of `pool` for each thread, because the headers of nodes have 32 bits for the index of
an entry."""
_MOST_WIDTH_BITS = 17
_LEAST_WIDTH_BITS = 9
_IN_ORDER_WIDTH_BITS = 12
_BLOCK_BITS = 8
_MOST_BLOCKS = 4096


def build(plan: Plan, latency: LatencyModel, randomness: Randomness, *, tracing: int, threads: int) -> Arrays:
    """Return all arrays of a run as they are before the run starts. `tracing` selects the rows that are stored
    (`record.NO_ROWS`, …)."""
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
    set_score_inputs(arrays, plan, randomness)
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
    """Set the width of buckets to the largest power of two that is no more than the smallest latency and 2 ** 17 µs.

    If the smallest latency is below 512 µs, set a width of 4096 µs instead, and handle events in the order of time.
    The same is done if routers choose their neighbours: these routers close and measure connections, and both nodes
    see the result at once. It is also done for partial messages, see `part_lines.py`.
    """
    w = arrays.world
    bits = min(minimum_us.bit_length() - 1, _MOST_WIDTH_BITS)
    in_order = bits < _LEAST_WIDTH_BITS or w[at.HAS_OVERLAY] or w[at.PART_WORDS]
    w[at.LOOKAHEAD] = not in_order
    w[at.WIDTH_BITS] = bits if w[at.LOOKAHEAD] else _IN_ORDER_WIDTH_BITS


def set_features(arrays: Arrays, plan: Plan, order: Sequence[int]) -> None:
    w = arrays.world
    threads, nodes, topics = int(w[at.THREADS]), int(w[at.NODES]), int(w[at.TOPICS])
    arrays.make("traits", int(w[at.SLOTS]), 1 + topics)
    arrays.make("alone", threads, lines_at_most(1 << 18, 16))
    if not w[at.PART_WORDS]:
        return
    scenario = plan.scenario
    settings: dict[str, list[int]] = {}
    for group in scenario.topics:
        if group.partial is not None and group.goes_in_parts:
            topic = PartialTopic(group.partial, group.size_bytes or scenario.workload.size_bytes)
            line = [list(PartialUse).index(topic.use), group.partial.parts, group.partial.known_parts]
            line += [int(group.partial.eager), int(group.partial.asks is Asking.ONE), topic.form.part_bytes]
            nothing = group_named(0)
            line += [len(topic.form.encode(nothing, {})), len(topic.form.encode_claim(nothing, Claim(0, 0)))]
            settings |= dict.fromkeys(group.names, line)
    whole = [NO_USE] * 8
    arrays["part_topics"] = np.array([settings.get(plan.topics[topic], whole) for topic in order], dtype=np.int64)
    arrays.make("part_heads", nodes, topics)
    arrays.make("group_of", *arrays["cells"].shape)
    words = part_lines.SETS * int(w[at.PART_WORDS])
    lines = min(lines_at_most(_LEAST_LINES + 64 * nodes, 8 * (11 + words)), (1 << 31) - 1)
    arrays.make("part_lines", lines)
    arrays.make("part_sets", lines, words)
    arrays.make("handed", threads, int(w[at.MESSAGES]) + 1)


def set_room(arrays: Arrays, threads: int) -> None:
    """Create the arrays for events, RPCs and rows. They are large, but the system provides a page of memory only when
    a kernel first touches it."""
    w = arrays.world
    w[at.MEASURED] = MEASURED_US
    w[at.BUCKETS] = _BUCKETS
    nodes = int(w[at.NODES])
    slots_used = int(w[at.SLOTS_USED])
    events = (1 << 20) + 8 * slots_used + 64 * nodes
    chunks = lines_at_most(events // CHUNK, CHUNK * (2 * _WORD_BYTES + _LINK_BYTES)) // threads * threads
    arrays.make("queued", chunks * CHUNK)
    at_once = lines_at_most(events // 2, 2 * (2 * _WORD_BYTES + _LINK_BYTES))
    arrays.make("sorted_events", 2, at_once)
    arrays.make("sorted_links", 2, at_once if w[at.HAS_LINKS] else 1)
    if w[at.HAS_LINKS]:
        arrays.make("queued_links", chunks * CHUNK)
    arrays.make("chunk_next", chunks)
    arrays.make("heads tails", threads, _BUCKETS + DIVISIONS, value=-1)
    arrays.make("fills", threads, _BUCKETS + DIVISIONS, value=CHUNK)
    arrays.make("far", threads, lines_at_most(events // 4, 4 * _WORD_BYTES))
    arrays.make("near", threads, lines_at_most(max(1 << 16, events // 8), 4 * _WORD_BYTES))
    arrays.make("block_starts", 2, int(w[at.BLOCKS]) + 1)
    arrays.make("node_counts", threads, (1 << int(w[at.BLOCK_BITS])) + 1)
    words = nodes * 64 + slots_used * 12  # at the start every node sends a hello over each link, mostly of one part
    arena_chunks = lines_at_most(64 + (words >> ARENA_BITS), _WORD_BYTES << ARENA_BITS) * threads
    arena_chunks = min(arena_chunks, queue.TOPIC_PART >> ARENA_BITS) // threads * threads
    arrays.make("arena", (arena_chunks << ARENA_BITS) + threads * UNPACKED)
    arrays.make("outbox", threads, lines_at_most(1 << 22, 4 * _WORD_BYTES))
    arrays.make("pending", threads, arena_chunks)
    if w[at.USES_12]:
        arrays.make("urgent", threads, lines_at_most(1 << 22, 2 * _WORD_BYTES))
    if w[at.HAS_DIALS]:
        arrays.make("names", threads, lines_at_most(1 << 22, _WORD_BYTES))
        under_way = lines_at_most((1 << 16) + 64 * nodes, 6 * _WORD_BYTES)
        arrays.make("dials", threads, under_way)
        arrays.make("arrivals", under_way)
    arrays.make("pool", threads, min(lines_at_most((1 << 20) + 16 * nodes, 4 * _WORD_BYTES), _MOST_ENTRIES))
    arrays.make("rows", threads, lines_at_most((1 << 22) + 16 * nodes, 13 * _WORD_BYTES) if w[at.TRACING] else 1)
    arrays.make("sums counts", threads)
    arrays.make("latency_counts", threads, MEASURED_US)
    arrays.make("latencies_seen", threads, 1 << 12)
    arrays.make("long_latencies", threads, lines_at_most(2 * loop.LATENCIES_AT_ONCE + 16 * nodes, _WORD_BYTES))
    arrays.make("leaving", threads, transport.ROOM)
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
    arrays.make("lost_links", max(1, count), nodes if count else 1)


def set_schedule(arrays: Arrays, plan: Plan, place_of: dict[int, int]) -> None:
    """Set `schedule` to the events of the whole network, in the order in which they are handled, and `planned` to the
    events of single nodes, in the order of time. `place_of` has the index of each topic in the order of names."""
    script = plan.scenario.network.nodes
    whole: list[tuple[int, int, int, int, int, int]] = [(0, 0, 0, whole_network.START_ALL, 0, 0)]
    for number, fault in enumerate(plan.faults, start=1):
        kind, first, second = _fault(fault)
        whole.append((fault.time_us, 0, number, kind, first, second))
    arrays.world[at.SAMPLES_SCORES] = plan.scenario.scores.every_us > 0
    samples = (
        (1, plan.scenario.trace.state_interval_us, whole_network.SAMPLE_STATE),
        (2, plan.scenario.scores.every_us, whole_network.SAMPLE_SCORES),
    )
    for order, interval_us, kind in samples:
        times = range(interval_us, plan.end_us, interval_us) if interval_us else ()
        whole += [(time_us, order, number, kind, 0, 0) for number, time_us in enumerate(times)]
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
    if isinstance(fault, NodeDown):
        return whole_network.NODE_DOWN, fault.node, int(fault.goodbye)
    if isinstance(fault, NodeUp):
        return whole_network.NODE_UP, fault.node, 0
    return whole_network.CUT_LINKS if isinstance(fault, LinksCut) else whole_network.HEAL_LINKS, fault.fault, 0


def set_start(arrays: Arrays) -> None:
    """Set QUIET_UNTIL if the first connections can be made node by node. Otherwise create `dial_buckets`, if links
    need no memory.

    In a run that stores rows, connections cannot be made node by node, because rows are in the order of time.
    """
    w = arrays.world
    table = arrays["parameters"]
    says_hello = bool(table[:, at.HELLO].any())
    if not (says_hello or w[at.HAS_LINKS] or w[at.SERVICE] or w[at.TRACING]):
        beats = table[table[:, at.ROUTER_KIND] >= at.MESHSUB, at.FIRST_BEAT]
        others = np.append(arrays["schedule"][1:, whole_network.TIME], arrays["planned"][:, whole_network.TIME])
        until = min(beats.min(initial=w[at.END]), others.min(initial=w[at.END]))
        w[at.QUIET_UNTIL] = until if until >= 1 << w[at.WIDTH_BITS] else 0
    if not (w[at.QUIET_UNTIL] or w[at.HAS_LINKS]):
        arrays.make("dial_buckets", len(arrays["dial_targets"]))
