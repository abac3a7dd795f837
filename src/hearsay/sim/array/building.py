"""From a plan to the arrays of a run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hearsay.core.language.events import EventKind
from hearsay.core.language.rpc import FLOODSUB, Message, Rpc
from hearsay.core.language.sizes import framed_size, message_size, part_sizes
from hearsay.core.mesh.gossip_parameters import GossipsubParameters
from hearsay.core.mesh.versions import knows_backoff
from hearsay.core.registry import negotiate
from hearsay.core.shell.randomness import Purpose, Randomness, key_of
from hearsay.core.shell.strategy import Strategy
from hearsay.sim.array.machine.memory import filled, lines_at_most, zeros
from hearsay.sim.array.router_parameters import columns_of
from hearsay.sim.array.run import loop, whole_network
from hearsay.sim.array.travel import send_ring
from hearsay.sim.array.world import layout as at
from hearsay.sim.array.world import queue, slots
from hearsay.sim.array.world.layout import Arrays
from hearsay.sim.array.world.payload import ARENA_BITS
from hearsay.sim.array.world.queue import CHUNK, DIVISIONS, GOSSIP_SPAN
from hearsay.sim.plan.latency import LatencyModel, LogNormalLatency, RegionLatency, UniformLatency
from hearsay.sim.plan.plan import Plan
from hearsay.sim.plan.planned_events import LinksCut, LinksHealed, NodeDown, NodeUp
from hearsay.sim.plan.quantiles import log_normal_tables
from hearsay.sim.plan.subscriptions import SameForAllNodes

Ints = NDArray[np.int64]

MEASURED_US = 1 << 21
_FOREVER = 1 << 60
_MOST_WIDTH_BITS = 17
_LEAST_WIDTH_BITS = 9
_IN_ORDER_WIDTH_BITS = 12
_BUCKETS = 1024
_LEAST_COLUMNS = 64
_CELLS_AT_FIRST = 1 << 26
_BLOCK_BITS = 8
_MOST_BLOCKS = 4096
_WORD, _LINK = 8, 4
"""Bytes."""
_MOST_ENTRIES = 1 << 31
"""Of short lists: headers of nodes name them with 32 bits."""


def build(plan: Plan, latency: LatencyModel, randomness: Randomness, *, tracing: bool, threads: int) -> Arrays:
    """All arrays of a run, as they are before it starts."""
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
    w[at.THREADS] = threads
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
    w[at.REJECT_SHARE] = scenario.validation.reject_millionths
    w[at.DETECTION] = scenario.faults.detection_us
    w[at.REDIAL] = scenario.faults.redial
    w[at.LINGER] = scenario.linger_us
    faulty = bool(plan.faults or plan.initially_down)
    w[at.HAS_LINKS] = faulty or w[at.HAS_LOSS] or w[at.HAS_JITTER] or w[at.UPLINK] > 0
    w[at.TRACKS_SINCE] = faulty or bool(plan.timed)
    w[at.BLOCK_BITS] = max(_BLOCK_BITS, (nodes // _MOST_BLOCKS).bit_length())
    w[at.BLOCKS] = (nodes >> int(w[at.BLOCK_BITS])) + 1
    w[at.MEASURED] = MEASURED_US
    w[at.BUCKETS] = _BUCKETS
    w[at.BUCKET] = -1
    arrays["bases"] = np.array(
        [randomness.draw(purpose) if purpose else 0 for purpose in _purposes()], dtype=np.uint64
    )
    _set_latency(arrays, latency)
    _set_width(arrays, latency.minimum_us)
    _set_routers(arrays, plan)
    _set_topics(arrays, plan, order)
    _set_messages(arrays, plan, place_of)
    _set_nodes(arrays, plan, place_of)
    _set_neighbours(arrays, plan)
    _set_faults(arrays, plan)
    _set_schedule(arrays, plan, place_of)
    _set_start(arrays)
    _set_queue(arrays, threads)
    return arrays


def _purposes() -> list[Purpose | None]:
    known = {int(purpose): purpose for purpose in Purpose}
    return [known.get(number) for number in range(max(known) + 1)]


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
    """Buckets as wide as the smallest latency; in order of time if that is too little to be worth it."""
    w = arrays.world
    bits = min(minimum_us.bit_length() - 1, _MOST_WIDTH_BITS)
    w[at.LOOKAHEAD] = bits >= _LEAST_WIDTH_BITS
    w[at.WIDTH_BITS] = bits if w[at.LOOKAHEAD] else _IN_ORDER_WIDTH_BITS


def _set_routers(arrays: Arrays, plan: Plan) -> None:
    arrays["parameters"] = np.array(
        [columns_of(kind.name, parameters) for kind, parameters in plan.routers], dtype=np.int64
    )
    arrays.world[at.ROUTERS] = len(plan.routers)
    strategies = [kind.strategy(parameters) for kind, parameters in plan.routers]
    table = [[_peering(ours, theirs) for theirs in strategies] for ours in strategies]
    arrays["natives"] = np.array(table, dtype=np.uint8)
    arrays.world[at.ALL_NATIVE] = not arrays.world[at.HAS_LINKS] and bool(arrays["natives"].all())
    longest = max(parameters.seen_ttl_us for _, parameters in plan.routers)
    shortest = min(parameters.seen_ttl_us for _, parameters in plan.routers)
    arrays.world[at.SEEN_EXPIRES] = min(longest, shortest) <= plan.end_us
    most = len(plan.publications)
    arrays.world[at.MAX_SEEN_BINDS] = any(parameters.max_seen < most for _, parameters in plan.routers)
    arrays.world[at.MAX_CACHED_BINDS] = any(
        isinstance(parameters, GossipsubParameters) and parameters.max_cached_messages < most
        for _, parameters in plan.routers
    )
    _set_sure_duplicates(arrays, plan)


def _set_sure_duplicates(arrays: Arrays, plan: Plan) -> None:
    """What may be counted as heard before it arrives, see `send_ring.py`."""
    w = arrays.world
    table = arrays["parameters"]
    if not (w[at.HAS_LINKS] or w[at.SERVICE] or w[at.MAX_SEEN_BINDS]):
        times = table[:, at.SEEN_TTL]
        windows = (table[:, at.SEEN_WINDOWS] - 1) * table[:, at.INTERVAL]
        forgets = table[:, at.SEEN_WINDOWS] > 0
        w[at.SEEN_FOR] = min(times[times > 0].min(initial=_FOREVER), windows[forgets].min(initial=_FOREVER))
    stays = all(timed.join for timed in plan.timed)
    listens = (table[:, at.MAX_CONTROL] > 0) & (table[:, at.MAX_IHAVE] > GOSSIP_SPAN)
    listens &= table[:, at.ROUTER_KIND] == at.GOSSIPSUB
    w[at.HEARD] = queue.INLINE | (queue.GOSSIP if stays and listens.all() else 0)
    w[at.DEFERS] = bool(w[at.LOOKAHEAD] and w[at.SEEN_FOR])


def _peering(ours: Strategy, theirs: Strategy) -> int:
    """What a router is to another, by the protocol that the two speak."""
    protocol = negotiate(ours.protocols, theirs.protocols) or FLOODSUB
    if protocol not in ours.native_protocols:
        return at.FLOODED
    return at.TOLD_BACKOFFS if knows_backoff(protocol) else at.MESHED


def _set_topics(arrays: Arrays, plan: Plan, order: Sequence[int]) -> None:
    names = [plan.topics[topic] for topic in order]
    arrays["topics"] = np.array(
        [[topic, len(name.encode())] for topic, name in zip(order, names, strict=True)], dtype=np.int64
    )
    arrays["topic_keys"] = np.array([key_of(name) for name in names], dtype=np.uint64)


def _set_messages(arrays: Arrays, plan: Plan, place_of: dict[int, int]) -> None:
    """One line more than messages, whose INJECT_FROM ends the last one's."""
    table = np.zeros((len(plan.publications) + 1, 8), dtype=np.int64)
    sizes: dict[tuple[int, int], tuple[int, int, int]] = {}
    injected = 0
    for publication in plan.publications:
        key = (publication.topic, publication.size_bytes)
        if key not in sizes:
            sizes[key] = _message_sizes(plan.topics[publication.topic], publication.size_bytes)
        alone, part, held = sizes[key]
        table[publication.message] = (
            place_of[publication.topic], publication.publisher, publication.time_us, publication.size_bytes,
            alone, part, held, injected,
        )  # fmt: skip
        injected += len(publication.inject)
    table[-1, at.INJECT_FROM] = injected
    arrays["messages"] = table
    judged = len(plan.publications) if plan.scenario.validation.reject_millionths else 0
    arrays["verdicts"] = zeros((judged + 1, 3), np.int64)
    targets = [target for publication in plan.publications for target in publication.inject]
    arrays["inject_targets"] = np.array(targets or [0], dtype=np.int64)


def _message_sizes(topic: str, size_bytes: int) -> tuple[int, int, int]:
    """Of a simulated message: as a whole RPC with its length, as a part, and by itself."""
    message = Message(0, topic, bytes(size_bytes), 0)
    alone = Rpc(messages=(message,))
    parts = part_sizes(alone)
    return framed_size(alone, parts), parts[0][2], message_size(message)


def _set_nodes(arrays: Arrays, plan: Plan, place_of: dict[int, int]) -> None:
    w = arrays.world
    nodes, topics = int(w[at.NODES]), int(w[at.TOPICS])
    header = zeros((nodes, at.NODE32), np.int32)
    header[:, [at.ANSWERS, at.NEWS, at.BACKOFFS, at.BACKLOG, at.BACKLOG_END]] = -1
    header[:, [at.AGES_AT, at.GOSSIPS_FROM]] = at.NEVER
    header[:, at.ROUTER] = np.frombuffer(plan.router_of, np.uint16)
    header[:, at.UP] = 1
    header[list(plan.initially_down), at.UP] = 0
    arrays["nodes32"] = header
    arrays["nodes64"] = zeros((nodes, at.NODE64), np.int64)
    arrays["bytes_out"] = zeros((nodes,), np.int64)
    arrays["members"] = _members(plan, place_of, nodes, topics)
    if w[at.TRACKS_SINCE]:
        arrays["since_us"] = filled((nodes, topics), np.int64, -1)
    arrays["fanout_us"] = zeros((nodes, topics), np.int64)
    columns = 1
    while columns < min(int(w[at.MESSAGES]), max(_LEAST_COLUMNS, _CELLS_AT_FIRST // nodes)):
        columns *= 2
    w[at.COLUMNS] = columns
    w[at.RECYCLES] = w[at.SERVICE] == 0
    for name in ("seen", "cached"):
        arrays[name] = zeros((-(-nodes * columns // 64),), np.uint64)
    table = (nodes, max(1, min(columns, int(w[at.MESSAGES]))))
    arrays["cells"] = zeros(table, np.uint64)
    if w[at.SEEN_EXPIRES]:
        arrays["first_us"] = zeros(table, np.int64)
    if w[at.MAX_SEEN_BINDS]:
        arrays["seen_serials"] = zeros(table, np.int64)
    if w[at.MAX_CACHED_BINDS]:
        arrays["cache_serials"] = zeros(table, np.int64)


def _members(plan: Plan, place_of: dict[int, int], nodes: int, topics: int) -> NDArray[np.int32]:
    members = zeros((nodes, topics), np.int32)
    if isinstance(plan.subscriptions, SameForAllNodes):
        members[:, [place_of[topic] for topic in plan.subscriptions.topics]] = at.APPLICATION
    else:
        for node, subscribed in enumerate(plan.subscriptions):
            for topic in subscribed:
                members[node, place_of[topic]] = at.APPLICATION
    return members


def _set_neighbours(arrays: Arrays, plan: Plan) -> None:
    """Slots for all who are connected at the start; with links of their own, slots come as nodes dial."""
    w = arrays.world
    nodes = int(w[at.NODES])
    starts, targets = plan.dials.starts, plan.dials.targets
    counts = np.diff(starts)
    arrays["dial_starts"] = starts
    arrays["dial_targets"] = targets if len(targets) else np.zeros(1, np.int32)
    refused = np.zeros(nodes, dtype=np.uint8)
    refused[list(plan.natted)] = 1
    arrays["natted"] = refused
    w[at.HAS_NATTED] = len(plan.natted) > 0
    if len(plan.natted):
        reached = refused[targets] == 0
        degrees = np.bincount(np.repeat(np.arange(nodes), counts)[reached], minlength=nodes)
        degrees += np.bincount(targets[reached], minlength=nodes)
    else:
        degrees = counts + np.bincount(targets, minlength=nodes)
    used = int(degrees.sum())
    header = arrays["nodes32"]
    header[1:, at.FIRST_SLOT] = np.cumsum(degrees[:-1])
    header[:, at.CAP] = degrees
    topics = int(w[at.TOPICS])
    faulty = bool(plan.faults or plan.initially_down)
    room = 4 * used + 64 if faulty else used + 1
    w[at.SLOTS], w[at.SLOTS_USED] = room, used
    arrays["peers"] = zeros((room,), np.int32)
    arrays["flags"] = zeros((room, topics), np.uint8)
    if w[at.HAS_LINKS]:
        links = 2 * int(starts[-1]) + 64
        arrays["links_of"] = filled((room,), np.int32, -1)
        w[at.LINKS] = links
        arrays["links32"] = zeros((links, at.LINK32), np.int32)
        arrays["link_marks"] = zeros((links,), np.uint8)
        arrays["links64"] = zeros((links, at.LINK64), np.int64)
    most = int(degrees.max(initial=1))
    if faulty:
        most = max(most * 2, nodes if nodes <= 100_000 else 4 * most + 1000)
    threads = int(w[at.THREADS])
    arrays["candidates"] = zeros((threads, most + 1), np.int64)
    messages = int(w[at.MESSAGES])
    samples = _gossip_samples(arrays, messages)
    arrays["marks"] = zeros((threads, max(most, messages if samples else 0) + 1), np.uint8)
    arrays["outbox"] = zeros((threads, lines_at_most(1 << 22, 4 * _WORD), 4), np.int64)
    arrays["scratch"] = zeros((threads, max(1024, messages * (1 + min(samples, most)) + 64)), np.int64)


def _gossip_samples(arrays: Arrays, messages: int) -> int:
    """How many peers a node gossips to with a sample of ids for each, if there may be too many ids for one IHAVE."""
    table = arrays["parameters"]
    cramped = (table[:, at.ROUTER_KIND] == at.GOSSIPSUB) & (table[:, at.MAX_IHAVE] < messages)
    return int(table[cramped, at.LAZY].max(initial=0))


def _set_faults(arrays: Arrays, plan: Plan) -> None:
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


def _set_schedule(arrays: Arrays, plan: Plan, place_of: dict[int, int]) -> None:
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


def _set_start(arrays: Arrays) -> None:
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


def _set_queue(arrays: Arrays, threads: int) -> None:
    """Room is taken from the system only where it is touched, so there is plenty of it."""
    w = arrays.world
    nodes = int(w[at.NODES])
    slots_used = int(w[at.SLOTS_USED])
    events = (1 << 20) + 8 * slots_used + 64 * nodes
    chunks = lines_at_most(events // CHUNK, CHUNK * (2 * _WORD + _LINK)) // threads * threads
    arrays["queued"] = zeros((chunks * CHUNK, 2), np.int64)
    at_once = lines_at_most(events // 2, 2 * (2 * _WORD + _LINK))
    arrays["sorted_events"] = zeros((2, at_once, 2), np.int64)
    arrays["sorted_links"] = zeros((2, at_once if w[at.HAS_LINKS] else 1), np.int32)
    if w[at.HAS_LINKS]:
        arrays["queued_links"] = zeros((chunks * CHUNK,), np.int32)
    arrays["chunk_next"] = zeros((chunks,), np.int32)
    rings = _BUCKETS + DIVISIONS
    arrays["heads"] = filled((threads, rings), np.int32, -1)
    arrays["tails"] = filled((threads, rings), np.int32, -1)
    arrays["fills"] = filled((threads, rings), np.int32, CHUNK)
    arrays["far"] = zeros((threads, lines_at_most(events // 4, 4 * _WORD), 4), np.int64)
    arrays["near"] = zeros((threads, lines_at_most(max(1 << 16, events // 8), 4 * _WORD), 4), np.int64)
    arrays["block_starts"] = zeros((2, int(w[at.BLOCKS]) + 1), np.int64)
    arrays["node_counts"] = zeros((threads, (1 << int(w[at.BLOCK_BITS])) + 1), np.int64)
    words = nodes * 64 + slots_used * 12  # at the start every link carries a hello, of one part mostly
    arena_chunks = lines_at_most(64 + (words >> ARENA_BITS), _WORD << ARENA_BITS) * threads
    arena_chunks = min(arena_chunks, queue.TOPIC_PART >> ARENA_BITS) // threads * threads
    arrays["arena"] = zeros((arena_chunks << ARENA_BITS,), np.int64)
    arrays["pending"] = zeros((threads, arena_chunks), np.int32)
    entries = min(lines_at_most((1 << 20) + 16 * nodes, 4 * _WORD), _MOST_ENTRIES)
    arrays["pool"] = zeros((threads, entries, 4), np.int64)
    rows = lines_at_most((1 << 22) + 16 * nodes, 13 * _WORD) if w[at.TRACING] else 1
    arrays["rows"] = zeros((threads, rows, 13), np.int64)
    arrays["sums"] = zeros((threads, 8), np.uint64)
    arrays["counts"] = zeros((threads, at.COUNTERS), np.int64)
    arrays["latency_counts"] = zeros((threads, MEASURED_US), np.int64)
    arrays["latencies_seen"] = zeros((threads, 1 << 12), np.int64)
    latencies = lines_at_most(2 * loop.LATENCIES_AT_ONCE + 16 * nodes, _WORD)
    arrays["long_latencies"] = zeros((threads, latencies), np.int64)
    arrays["leaving"] = zeros((threads, send_ring.ROOM, 4), np.int64)
    arrays["control"] = _control(threads, chunks, arena_chunks)


def _control(threads: int, chunks: int, arena_chunks: int) -> Ints:
    table = np.zeros((threads, at.CONTROL), dtype=np.int64)
    for thread in range(threads):
        line = table[thread]
        line[queue.CHUNK_FREE] = line[queue.POOL_FREE] = line[queue.ARENA_FREE] = -1
        line[queue.CHUNK_FRESH] = thread * chunks // threads
        line[queue.CHUNK_END] = (thread + 1) * chunks // threads
        line[queue.ARENA_FRESH] = thread * arena_chunks // threads
        line[queue.ARENA_END] = (thread + 1) * arena_chunks // threads
        line[queue.ARENA_CHUNK] = -1
        line[queue.FAR_FIRST] = _FOREVER
    return table
