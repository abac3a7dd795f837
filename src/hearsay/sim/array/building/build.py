"""From a plan to the arrays of a run: the order of the work, and what concerns the run as a whole."""

from __future__ import annotations

import numpy as np

from hearsay.core.shell.randomness import Purpose, Randomness
from hearsay.sim.array.building.nodes import set_messages, set_neighbours, set_nodes, set_routers, set_topics
from hearsay.sim.array.building.room import set_room
from hearsay.sim.array.building.schedule import set_faults, set_schedule, set_start
from hearsay.sim.array.world import layout as at
from hearsay.sim.array.world import slots
from hearsay.sim.array.world.layout import Arrays
from hearsay.sim.plan.draws import log_normal_tables
from hearsay.sim.plan.latency import LatencyModel, LogNormalLatency, RegionLatency, UniformLatency
from hearsay.sim.plan.plan import Plan

_MOST_WIDTH_BITS = 17
_LEAST_WIDTH_BITS = 9
_IN_ORDER_WIDTH_BITS = 12
_BLOCK_BITS = 8
_MOST_BLOCKS = 4096


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
    w[at.BUCKET] = -1
    arrays["bases"] = np.array(
        [randomness.draw(purpose) if purpose else 0 for purpose in _purposes()], dtype=np.uint64
    )
    _set_latency(arrays, latency)
    _set_width(arrays, latency.minimum_us)
    set_routers(arrays, plan)
    set_topics(arrays, plan, order)
    set_messages(arrays, plan, place_of)
    set_nodes(arrays, plan, place_of)
    set_neighbours(arrays, plan)
    set_faults(arrays, plan)
    set_schedule(arrays, plan, place_of)
    set_start(arrays)
    set_room(arrays, threads)
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
