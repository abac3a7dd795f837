"""The loop of a run: it opens one bucket after the other, and handles events of nodes and of the whole network.

A bucket is handled in parts. A part ends at the end of the bucket or of the run, or at the next event of the whole
network: a fault, an injection by the script, a sample of state or scores, the end of a message's window, or the
arrival of a router's dial. If routers choose their neighbours, dials do not end parts (`blocks.py`). An event of the
whole network is handled before the events of nodes in the same microsecond.
"""

from __future__ import annotations

from hearsay.sim.array.compiling import entry, kernel
from hearsay.sim.array.run.blocks import run_share
from hearsay.sim.array.run.links import dials_that_arrive
from hearsay.sim.array.run.mutual import check_the_end
from hearsay.sim.array.run.reuse import admit, collect_links
from hearsay.sim.array.run.whole_network import (
    TIME,
    close_windows,
    next_close,
    next_due,
    run_due_events,
    sample_all_scores,
)
from hearsay.sim.array.travel.dials import collect_dials, next_arrival
from hearsay.sim.array.travel.transport import queue_leaving
from hearsay.sim.array.travel.uplink import has_queue, send_all_waiting
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.layout import (
    BUCKET,
    BUCKET_IS_SPLIT,
    DIALS_UP_TO,
    END,
    FINISHED,
    GLOBALS,
    GLOBALS_DONE,
    HAS_DIALS,
    HAS_LINKS,
    HAS_OVERLAY,
    HELD_END,
    LOOKAHEAD,
    NETWORK_STARTS,
    NODES,
    NOW,
    OK,
    PART_BLOCKS,
    PART_END,
    PART_EVENTS,
    PLANNED_DONE,
    QUIET_UNTIL,
    ROWS_WAIT,
    SAMPLES_SCORES,
    STATUS,
    THREADS,
    WIDTH_BITS,
    World,
    block_starts,
    counts,
    planned,
    schedule,
    world,
    world_10,
    world_10_checked,
    world_11,
    world_checked,
    world_of_features,
    world_of_mixes,
    world_of_overlays,
    world_of_slots,
    world_of_trees,
)
from hearsay.sim.array.world.queue import bring_near, divide, gather, has_events, push
from hearsay.sim.array.world.record import LONG, ROWS, count_latencies
from hearsay.sim.array.world.slots import lay_out_callers, lay_out_targets

ADVANCE, BEGIN, SHARE, FINISH, CLOSE, COLLECT, DRAIN, CHECK = range(8)
"""Tasks of `work`."""
PLAN_NODE, PLAN_KIND, PLAN_PAYLOAD = 1, 2, 3
"""Columns of `planned`, after the column TIME."""
ROWS_AT_ONCE = 1 << 17
LATENCIES_AT_ONCE = 1 << 22
_MANY_PARTS = 2


@entry
def work(table: World, task: int, number: int) -> bool:
    """Do a task. There is one entry for all tasks, because each entry is compiled with all kernels that it calls.

    ADVANCE runs until the time `number`, or until Python has to do something first. With several threads, three tasks
    take the place of ADVANCE, and the threads wait for each other after every part of a bucket. BEGIN prepares the
    next part, with PART_EVENTS events. SHARE handles the events of the nodes of thread `number`. FINISH ends the part
    once all threads are done. ADVANCE, BEGIN and FINISH return False if Python has to do something first; STATUS has
    the reason. All other tasks return True. COLLECT finds links that may be used again. When the run is over or was
    stopped, DRAIN sends the RPCs that wait for uplinks, CLOSE ends the windows of all messages published so far, and
    CHECK checks sent parts and mesh links.
    """
    return _work(world(table), task, number)


@entry
def work_checked(table: World, task: int, number: int) -> bool:
    """Do a task of `work`, and check the invariants of all nodes."""
    return _work(world_checked(table), task, number)


@entry
def work_10_checked(table: World, task: int, number: int) -> bool:
    """Do a task of `work_10`, and check the invariants of all nodes."""
    return _work(world_10_checked(table), task, number)


@entry
def work_of_mixes(table: World, task: int, number: int) -> bool:
    """Do a task of `work` in a world without extensions of 1.3."""
    return _work(world_of_mixes(table), task, number)


@entry
def work_of_features(table: World, task: int, number: int) -> bool:
    """Do a task of `work` in a world without episub."""
    return _work(world_of_features(table), task, number)


@entry
def work_11(table: World, task: int, number: int) -> bool:
    """Do a task of `work_of_features` in a world without extensions of 1.3."""
    return _work(world_11(table), task, number)


@entry
def work_of_overlays(table: World, task: int, number: int) -> bool:
    """Do a task of `work` in a world without gossipsub 1.1 and later versions."""
    return _work(world_of_overlays(table), task, number)


@entry
def work_of_trees(table: World, task: int, number: int) -> bool:
    """Do a task of `work_of_overlays` in a world where no router dials."""
    return _work(world_of_trees(table), task, number)


@entry
def work_10(table: World, task: int, number: int) -> bool:
    """Do a task of `work` in a world without episub, without gossipsub 1.1 and later, and without dials of
    routers."""
    return _work(world_10(table), task, number)


@entry
def work_of_slots(table: World, task: int, number: int) -> bool:
    """Do a task of `work_10` in a world whose links need no memory."""
    return _work(world_of_slots(table), task, number)


@kernel
def _work(w: World, task: int, number: int) -> bool:
    if task == SHARE:
        run_share(w, number)
        return True
    if task == CLOSE:
        close_windows(w, True)
        for th in range(w[THREADS]):
            count_latencies(w, th)
        return True
    if task == CHECK:
        check_the_end(w)
        return True
    if task == COLLECT:
        collect_links(w)
        return True
    if task == DRAIN:
        for node in range(w[NODES]):
            if has_queue(w, node):
                send_all_waiting(w, lists.owner(w, node), node)
        return True
    if task == FINISH:
        return _end_part(w)
    w[STATUS] = OK
    if task == BEGIN:
        return _begin_part(w)
    while w[NOW] < number:
        if not _begin_part(w):
            return False
        if w[PART_EVENTS]:
            for th in range(w[THREADS]):
                run_share(w, th)
        if not _end_part(w):
            return False
    return True


@kernel
def _begin_part(w: World) -> bool:
    queue_leaving(w)
    if w[BUCKET] < 0:
        if not w[HAS_LINKS]:
            lay_out_callers(w)
            if not w[QUIET_UNTIL]:
                for node in range(w[NODES]):
                    lay_out_targets(w, 0, node)
        _open_next(w)
    bucket_end = (w[BUCKET] + 1) << w[WIDTH_BITS]
    if not admit(w, bucket_end):
        return False
    if w[HAS_DIALS]:
        collect_dials(w)
    w[PART_END] = min(bucket_end, next_due(w), next_close(w), w[END])
    if not w[HAS_OVERLAY]:
        w[PART_END] = min(w[PART_END], next_arrival(w))
    w[HELD_END] = w[PART_END]
    w[PART_EVENTS] = 0
    if w[PART_END] > w[NOW] and (has_events(w) or next_arrival(w) < w[PART_END]):
        gather(w)
        w[PART_EVENTS] = max(block_starts(w)[0, w[PART_BLOCKS]], int(next_arrival(w) < w[PART_END]))
    if w[NETWORK_STARTS]:
        w[PART_EVENTS] = max(w[PART_EVENTS], w[NODES])
    return w[STATUS] == OK


@kernel
def _end_part(w: World) -> bool:
    if w[STATUS] != OK:
        return False
    w[NETWORK_STARTS] = 0
    w[NOW] = w[PART_END]
    if w[NOW] >= w[END]:
        if w[SAMPLES_SCORES]:
            sample_all_scores(w)
        w[STATUS] = FINISHED
        return False
    if w[NOW] == (w[BUCKET] + 1) << w[WIDTH_BITS]:
        _open_next(w)
    if not run_due_events(w):
        return False
    for th in range(w[THREADS]):
        if counts(w)[th, ROWS] >= ROWS_AT_ONCE or counts(w)[th, LONG] >= LATENCIES_AT_ONCE:
            w[STATUS] = ROWS_WAIT
    return w[STATUS] == OK


@kernel
def _open_next(w: World) -> None:
    w[BUCKET] += 1
    w[BUCKET_IS_SPLIT] = 0
    if w[HAS_DIALS]:
        collect_dials(w)
    for th in range(w[THREADS]):
        bring_near(w, th)
    if 0 < w[BUCKET] <= w[DIALS_UP_TO]:
        dials_that_arrive(w)
    end = (w[BUCKET] + 1) << w[WIDTH_BITS]
    plan = planned(w)
    while w[PLANNED_DONE] < plan.shape[0] and plan[w[PLANNED_DONE], TIME] < end:
        line = plan[w[PLANNED_DONE]]
        th = lists.owner(w, line[PLAN_NODE])
        push(w, th, line[TIME], line[PLAN_NODE], line[PLAN_KIND], -1, line[PLAN_PAYLOAD], 0)
        w[PLANNED_DONE] += 1
    later = w[GLOBALS_DONE] + _MANY_PARTS
    many = later < w[GLOBALS] and schedule(w)[later, TIME] < end
    if w[LOOKAHEAD] and (many or next_arrival(w) < end):
        divide(w)
