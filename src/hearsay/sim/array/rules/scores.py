"""Scores of neighbours: kernels of `core.scores.scorer` and `core.scores.records`.

Layout: arrays of counters are indexed by slot and by `own_place` of the topic. A counter that the core has not
created yet is 0 here. The counters of a forgotten neighbour are not read; they are set to 0 when it connects again.
The record of a message's delivery has a state and an end, and lasts until the first decay after this end. The peers
that sent further copies of the message are bits in `senders`, in the order of the node's slots.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hearsay.core.rules import deliveries
from hearsay.core.rules import score_parts as parts
from hearsay.sim.array.compiling import inlined, only_with
from hearsay.sim.array.rules.special_peers import address_part, application_part, is_direct
from hearsay.sim.array.world.knowledge import column
from hearsay.sim.array.world.layout import (
    ACTIVATION,
    ACTIVE,
    CONNECTED,
    COUNTED,
    DECAYS_AWAY,
    DECIDED,
    DEFICIT_AFTER,
    FAILURE_DECAY,
    FAILURE_WEIGHT,
    FAILURES,
    FIRST,
    FIRST_CAP,
    FIRST_DECAY,
    FIRST_MESSAGE,
    FIRST_WEIGHT,
    GRAFTED,
    GRAYLIST_BELOW,
    HAS_ADDRESSES,
    HAS_RATINGS,
    HAS_SCORES,
    IN_MESH,
    INVALID,
    INVALID_DECAY,
    INVALID_WEIGHT,
    IS_SCORED,
    KEEPS_SCORES,
    KEPT,
    MAX_DELIVERIES,
    MAX_DELIVERIES_BINDS,
    MAX_SENDERS,
    MEMBERS_BLAMED,
    MESH,
    MESH_BITS,
    MESH_CAP,
    MESH_DECAY,
    MESH_THRESHOLD,
    MESH_WEIGHT,
    MISBEHAVIOUR,
    MISBEHAVIOUR_DECAY,
    MISBEHAVIOUR_THRESHOLD,
    MISBEHAVIOUR_WEIGHT,
    NEWEST,
    QUANTUM,
    RECORD,
    RECORD_TTL,
    REFRESHED,
    RETAINS,
    SCORE,
    SCORES,
    SECOND_PRUNE,
    SERIAL,
    SLOW_DECAY,
    SLOW_THRESHOLD,
    SLOW_WEIGHT,
    SLOWNESS,
    STATE_BITS,
    TIME_CAP,
    TIME_IN_MESH,
    TIME_WEIGHT,
    TIMES_ARE_NOW,
    TOPIC,
    TOPIC_CAP,
    TOPIC_WEIGHT,
    TOPICS,
    WHOLE_QUANTA,
    WINDOW,
    ZERO,
    World,
    clear_scores,
    control,
    flags,
    members,
    mesh_times,
    messages,
    more64,
    nodes64,
    peer_scores,
    peers,
    reals,
    record_serials,
    records,
    retained,
    senders,
    topic_reals,
    topic_scores,
    topic_times,
)
from hearsay.sim.array.world.record import row
from hearsay.sim.array.world.slots import end_slot, first_slot, own_place, parameter, router
from hearsay.trace.language.schema import TraceEvent

IS_BLAMELESS = 1
"""A bit of `retained`, see `gater.py`."""
_OUTDATED = np.nan
_STATE = (1 << STATE_BITS) - 1
with_scores = only_with(HAS_SCORES)


@inlined
def has_scores(w: World, node: int) -> bool:
    return w[HAS_SCORES] != 0 and parameter(w, node, SCORES) != 0


@inlined
def real(w: World, node: int, field: int) -> float:
    """Return a real-valued parameter of the router of a node."""
    return reals(w)[router(w, node), field]


@inlined
def _is_counted(w: World, node: int, topic: int) -> bool:
    return has_scores(w, node) and members(w)[node, topic] & COUNTED != 0


@with_scores
def start_scoring_topic(w: World, node: int, topic: int) -> None:
    """When a topic is joined, let it count for scores from now on, if the router scores it."""
    if has_scores(w, node) and topic_times(w)[router(w, node), topic, IS_SCORED]:
        members(w)[node, topic] |= COUNTED


@with_scores
def forget_slot(w: World, slot: int) -> None:
    clear_scores(w, slot)
    peer_scores(w)[slot, SCORE] = _OUTDATED


@with_scores
def mark_all_outdated(w: World, node: int) -> None:
    """Mark the scores of all neighbours of a node as outdated, if P6 is used.

    A neighbour connected, disconnected or was forgotten, and other neighbours may share its address.
    """
    if w[HAS_ADDRESSES]:
        for slot in range(first_slot(w, node), end_slot(w, node)):
            mark_outdated(w, slot)


# Sums.


@with_scores
def score(w: World, th: int, now: int, node: int, slot: int) -> float:
    """Return the score of a neighbour, 0 without scores. A heartbeat reads each score only once (STANDING-2)."""
    if not has_scores(w, node):
        return 0.0
    if not control(w)[th, KEEPS_SCORES]:
        return score_now(w, now, node, slot)
    line = peer_scores(w)[slot]
    if np.isnan(line[KEPT]):
        line[KEPT] = score_now(w, now, node, slot)
    return line[KEPT]


@with_scores
def score_now(w: World, now: int, node: int, slot: int) -> float:
    """Return the present score of a neighbour, 0 without scores (SCORE-11).

    The score is stored until `mark_outdated` marks it as outdated; with TIMES_ARE_NOW it is computed at each call.
    """
    if not has_scores(w, node):
        return 0.0
    line = peer_scores(w)[slot]
    if np.isnan(line[SCORE]) or parameter(w, node, TIMES_ARE_NOW):
        topics, application, shared, misbehaviour, slow = _peer_parts(w, now, node, slot)
        line[SCORE] = parts.total(topics, application, shared, misbehaviour, slow)
    return line[SCORE]


@inlined
def _peer_parts(w: World, now: int, node: int, slot: int) -> tuple[float, float, float, float, float]:
    """Return the weighted terms of a score: the topics' sum, P5, P6, P7 and slowness (SCORE-9, SCORE-10)."""
    line = peer_scores(w)[slot]
    misbehaviour = parts.excess_square(line[MISBEHAVIOUR], real(w, node, MISBEHAVIOUR_THRESHOLD))
    slow = parts.excess(line[SLOWNESS], real(w, node, SLOW_THRESHOLD))
    return (
        _sum_of_topics(w, now, node, slot),
        application_part(w, node, slot) if w[HAS_RATINGS] else 0.0,
        address_part(w, node, slot) if w[HAS_ADDRESSES] else 0.0,
        misbehaviour * real(w, node, MISBEHAVIOUR_WEIGHT),
        slow * real(w, node, SLOW_WEIGHT),
    )


@with_scores
def is_graylisted(w: World, now: int, node: int, slot: int) -> bool:
    """Return whether a peer is graylisted: its score is low, and it is not a direct peer (JUDGE-1)."""
    if not has_scores(w, node) or is_direct(w, node, slot):
        return False
    return parts.is_graylisted(score_now(w, now, node, slot), real(w, node, GRAYLIST_BELOW))


@with_scores
def _sum_of_topics(w: World, now: int, node: int, slot: int) -> float:
    """Return the capped sum of all topics (SCORE-6)."""
    summed = 0.0
    for topic in range(w[TOPICS]):
        if members(w)[node, topic] & COUNTED:
            time, first, deficit, failures, invalid = _topic_parts(w, now, node, slot, topic)
            weight = topic_reals(w)[router(w, node), topic, TOPIC_WEIGHT]
            summed += parts.topic_sum(time, first, deficit, failures, invalid, weight)
    return parts.capped_topics(summed, real(w, node, TOPIC_CAP))


@inlined
def _topic_parts(w: World, now: int, node: int, slot: int, topic: int) -> tuple[float, float, float, float, float]:
    """Return P1, P2, P3, P3b and P4 times their weights (SCORE-1, SCORE-2, SCORE-3, SCORE-4, SCORE-5)."""
    line = topic_scores(w)[slot, own_place(w, node, topic)]
    own = topic_reals(w)[router(w, node), topic]
    deficit = 0.0
    if _is_active(w, now, node, slot, topic):
        deficit = parts.deficit_square(line[MESH], own[MESH_THRESHOLD])
    time = _time_in_mesh(w, now, node, slot, topic)
    quantum = topic_times(w)[router(w, node), topic, QUANTUM]
    quanta = parts.time_in_mesh(time, quantum, own[TIME_CAP], parameter(w, node, WHOLE_QUANTA) != 0)
    return (
        quanta * own[TIME_WEIGHT],
        line[FIRST] * own[FIRST_WEIGHT],
        deficit * own[MESH_WEIGHT],
        line[FAILURES] * own[FAILURE_WEIGHT],
        parts.square(line[INVALID]) * own[INVALID_WEIGHT],
    )


@with_scores
def sample_scores(w: World, th: int, now: int, node: int) -> None:
    """Record the scores of all connected peers, and the terms that are not 0."""
    if not has_scores(w, node):
        return
    for slot in range(first_slot(w, node), end_slot(w, node)):
        if not flags(w)[slot, 0] & CONNECTED:
            continue
        topics, application, shared, misbehaviour, slow = _peer_parts(w, now, node, slot)
        total = parts.total(topics, application, shared, misbehaviour, slow)
        _number_row(w, th, now, TraceEvent.SCORE, node, slot, -1, total)
        _number_row(w, th, now, TraceEvent.SCORE_TOPICS, node, slot, -1, topics)
        _number_row(w, th, now, TraceEvent.SCORE_P5, node, slot, -1, application)
        _number_row(w, th, now, TraceEvent.SCORE_P6, node, slot, -1, shared)
        _number_row(w, th, now, TraceEvent.SCORE_P7, node, slot, -1, misbehaviour)
        _number_row(w, th, now, TraceEvent.SCORE_SLOW, node, slot, -1, slow)
        for topic in range(w[TOPICS]):
            if members(w)[node, topic] & COUNTED:
                time, brought, deficit, failures, invalid = _topic_parts(w, now, node, slot, topic)
                _number_row(w, th, now, TraceEvent.SCORE_P1, node, slot, topic, time)
                _number_row(w, th, now, TraceEvent.SCORE_P2, node, slot, topic, brought)
                _number_row(w, th, now, TraceEvent.SCORE_P3, node, slot, topic, deficit)
                _number_row(w, th, now, TraceEvent.SCORE_P3B, node, slot, topic, failures)
                _number_row(w, th, now, TraceEvent.SCORE_P4, node, slot, topic, invalid)


@with_scores
def _number_row(w: World, th: int, now: int, event: int, node: int, slot: int, topic: int, number: float) -> None:
    """Record a score, or a term that is not 0; the column of the size has the bits of the double.

    -0.0 becomes 0.0.
    """
    if number or event == TraceEvent.SCORE:
        bits: Any = np.float64(number + 0.0).view(np.int64)
        row(w, th, (now, event, -1, node, peers(w)[slot], topic, -1, -1, bits, -1, -1, -1, -1))


@with_scores
def _time_in_mesh(w: World, now: int, node: int, slot: int, topic: int) -> int:
    if not flags(w)[slot, topic] & IN_MESH:
        return 0
    times = mesh_times(w)[slot, own_place(w, node, topic)]
    return now - times[GRAFTED] if parameter(w, node, TIMES_ARE_NOW) else times[TIME_IN_MESH]


@with_scores
def _is_active(w: World, now: int, node: int, slot: int, topic: int) -> bool:
    """Return whether mesh deliveries of a peer are expected (ACTIVE-1, ACTIVE-2)."""
    times = mesh_times(w)[slot, own_place(w, node, topic)]
    if parameter(w, node, TIMES_ARE_NOW) and flags(w)[slot, topic] & IN_MESH:
        return parts.is_active(now - times[GRAFTED], topic_times(w)[router(w, node), topic, ACTIVATION])
    return times[MESH_BITS] & ACTIVE != 0


# Changes.


@inlined
def mark_outdated(w: World, slot: int) -> None:
    """Mark a score as outdated."""
    peer_scores(w)[slot, SCORE] = _OUTDATED


@with_scores
def count_graft(w: World, now: int, node: int, slot: int, topic: int) -> None:
    """Reset the times of a peer that enters the mesh."""
    if _is_counted(w, node, topic):
        times = mesh_times(w)[slot, own_place(w, node, topic)]
        times[GRAFTED] = now
        times[TIME_IN_MESH] = 0
        times[MESH_BITS] = 0
        mark_outdated(w, slot)


@with_scores
def count_prune(w: World, now: int, node: int, slot: int, topic: int, member: bool) -> None:
    """Update the counters of a peer that leaves the mesh or, if `member` is False, sends PRUNE after it has left.

    If its mesh deliveries were expected, their deficit counts as a mesh failure; if `member` is False, only with
    SECOND_PRUNE. Rules: ACTIVE-3, ACTIVE-4.
    """
    if not _is_counted(w, node, topic) or not is_present(w, slot):
        return
    times = mesh_times(w)[slot, own_place(w, node, topic)]
    active = times[MESH_BITS] & ACTIVE != 0
    if member and parameter(w, node, TIMES_ARE_NOW):
        active = parts.is_active(now - times[GRAFTED], topic_times(w)[router(w, node), topic, ACTIVATION])
    if parts.counts_as_failure(active, member, parameter(w, node, SECOND_PRUNE) != 0):
        line = topic_scores(w)[slot, own_place(w, node, topic)]
        threshold = topic_reals(w)[router(w, node), topic, MESH_THRESHOLD]
        line[FAILURES] += parts.deficit_square(line[MESH], threshold)
    stays = parts.stays_active(active, parameter(w, node, DEFICIT_AFTER) != 0)
    times[MESH_BITS] = times[MESH_BITS] & ~ACTIVE | (ACTIVE if stays else 0)
    mark_outdated(w, slot)


@with_scores
def retain_counters(w: World, now: int, node: int, slot: int, topic: int) -> None:
    """Update the counters of a topic for a peer that disconnects and whose score is retained (RETAIN-2)."""
    topic_scores(w)[slot, own_place(w, node, topic), FIRST] = 0.0
    if flags(w)[slot, topic] & IN_MESH:
        count_prune(w, now, node, slot, topic, True)


@inlined
def is_present(w: World, slot: int) -> bool:
    return w[RETAINS] == 0 or flags(w)[slot, 0] & CONNECTED != 0


@with_scores
def penalise(w: World, node: int, slot: int, amount: float) -> None:
    """Add to a peer's misbehaviour (SCORE-9); slot -1 is ignored."""
    if has_scores(w, node) and slot >= 0:
        peer_scores(w)[slot, MISBEHAVIOUR] += amount
        _mark_blamed(w, slot)


@with_scores
def _mark_blamed(w: World, slot: int) -> None:
    """Mark the score of a neighbour as outdated, and the neighbour as not blameless."""
    mark_outdated(w, slot)
    if w[RETAINS]:
        retained(w)[slot] &= ~IS_BLAMELESS


@with_scores
def penalise_slow(w: World, node: int, slot: int, amount: int) -> None:
    """Count messages that could not be sent to a peer (SCORE-10)."""
    if has_scores(w, node):
        peer_scores(w)[slot, SLOWNESS] += amount
        mark_outdated(w, slot)


@with_scores
def _count_invalid(w: World, node: int, slot: int, topic: int) -> None:
    topic_scores(w)[slot, own_place(w, node, topic), INVALID] += 1.0
    _mark_blamed(w, slot)


@with_scores
def _count_copy(w: World, node: int, slot: int, topic: int) -> None:
    """Count a mesh delivery of a peer if it is a member of the mesh (COUNTER-1)."""
    if flags(w)[slot, topic] & IN_MESH:
        line = topic_scores(w)[slot, own_place(w, node, topic)]
        line[MESH] = parts.counted(line[MESH], 1.0, topic_reals(w)[router(w, node), topic, MESH_CAP])
        mark_outdated(w, slot)


# Messages.


@with_scores
def _state(w: World, now: int, node: int, at: int) -> int:
    """Return the state of a message's record; begin a record if there is none (DELIVERY-8)."""
    line = records(w)[node, at]
    if not _is_recorded(w, node, at):
        if w[MAX_DELIVERIES_BINDS]:
            _make_room(w, node, at)
        line[RECORD] = (now + parameter(w, node, RECORD_TTL)) << STATE_BITS | deliveries.OPEN
        _forget_senders(w, node, at)
    return line[RECORD] & _STATE


@inlined
def _is_recorded(w: World, node: int, at: int) -> bool:
    record = records(w)[node, at, RECORD]
    return record != 0 and record >> STATE_BITS >= more64(w)[node, REFRESHED]


@with_scores
def _make_room(w: World, node: int, newest: int) -> None:
    """Forget the oldest record if the node has MAX_DELIVERIES of them, and number the new one (DELIVERY-8)."""
    order = record_serials(w)[node]
    count = 0
    oldest = -1
    for message in range(w[FIRST_MESSAGE], w[NEWEST]):
        at = column(w, message)
        if _is_recorded(w, node, at):
            count += 1
            if oldest < 0 or order[at] < order[oldest]:
                oldest = at
    if count >= parameter(w, node, MAX_DELIVERIES):
        records(w)[node, oldest, RECORD] = 0
    nodes64(w)[node, SERIAL] += 1
    order[newest] = nodes64(w)[node, SERIAL]


@with_scores
def _set_state(w: World, node: int, at: int, state: int) -> None:
    records(w)[node, at, RECORD] = records(w)[node, at, RECORD] & ~_STATE | state


@with_scores
def _forget_senders(w: World, node: int, at: int) -> None:
    for place in range(senders(w).shape[2]):
        senders(w)[node, at, place] = np.uint64(0)


@inlined
def _has_sent(w: World, node: int, at: int, slot: int) -> bool:
    place = slot - first_slot(w, node)
    return senders(w)[node, at, place >> 6] >> np.uint64(place & 63) & np.uint64(1) != np.uint64(0)


@with_scores
def count_validation(w: World, now: int, node: int, message: int) -> None:
    """Create or reopen the record of a message whose first copy is validated (DELIVERY-9)."""
    if _is_counted(w, node, messages(w)[message, TOPIC]):
        at = column(w, message)
        _set_state(w, node, at, deliveries.reopened(_state(w, now, node, at)))


@with_scores
def count_delivery(w: World, now: int, node: int, slot: int, message: int) -> None:
    """Count an accepted message; `slot` is that of its first sender, -1 if the node published the message.

    Rules: DELIVERY-1, DELIVERY-7.
    """
    topic = messages(w)[message, TOPIC]
    if not _is_counted(w, node, topic):
        return
    if slot >= 0:
        count_first_delivery(w, node, slot, topic)
    at = column(w, message)
    if _state(w, now, node, at) != deliveries.OPEN:
        return
    _set_state(w, node, at, deliveries.ACCEPTED)
    records(w)[node, at, DECIDED] = now
    for other in range(first_slot(w, node), end_slot(w, node)):
        if other != slot and _has_sent(w, node, at, other):
            _count_copy(w, node, other, topic)


@with_scores
def count_first_delivery(w: World, node: int, slot: int, topic: int) -> None:
    """Count a first delivery of a peer, or new parts that it sent, and also a mesh delivery if it is a member."""
    if _is_counted(w, node, topic):
        line = topic_scores(w)[slot, own_place(w, node, topic)]
        line[FIRST] = parts.counted(line[FIRST], 1.0, topic_reals(w)[router(w, node), topic, FIRST_CAP])
        mark_outdated(w, slot)
        _count_copy(w, node, slot, topic)


@with_scores
def count_duplicate(w: World, now: int, node: int, slot: int, message: int) -> None:
    """Count a further copy of a message (DELIVERY-2, DELIVERY-3, DELIVERY-4)."""
    topic = messages(w)[message, TOPIC]
    if not _is_counted(w, node, topic):
        return
    at = column(w, message)
    answer = deliveries.copy_answer(_state(w, now, node, at), _has_sent(w, node, at, slot))
    if answer == deliveries.BLAMED:
        _blame_copy(w, node, slot, topic)
    elif answer != deliveries.NOTHING and _has_room(w, node, at):
        place = slot - first_slot(w, node)
        senders(w)[node, at, place >> 6] |= np.uint64(1) << np.uint64(place & 63)
        window = topic_times(w)[router(w, node), topic, WINDOW]
        if answer == deliveries.CREDITED and deliveries.is_in_window(now - records(w)[node, at, DECIDED], window):
            _count_copy(w, node, slot, topic)


@with_scores
def _has_room(w: World, node: int, at: int) -> bool:
    most = parameter(w, node, MAX_SENDERS)
    if end_slot(w, node) - first_slot(w, node) <= most:
        return True
    known = 0
    for slot in range(first_slot(w, node), end_slot(w, node)):
        known += int(_has_sent(w, node, at, slot))
    return known < most


@with_scores
def _blame_copy(w: World, node: int, slot: int, topic: int) -> None:
    members_only = parameter(w, node, MEMBERS_BLAMED) != 0
    if deliveries.is_blamed(flags(w)[slot, topic] & IN_MESH != 0, members_only):
        _count_invalid(w, node, slot, topic)


@with_scores
def count_rejection(w: World, now: int, node: int, slot: int, message: int, reason: int) -> None:
    """Count a message that is refused for `reason` (DELIVERY-4, DELIVERY-5, DELIVERY-6).

    `slot` is that of the peer that sent this copy; -1 if the peer has no slot any more.
    """
    topic = messages(w)[message, TOPIC]
    if not _is_counted(w, node, topic):
        return
    verdict = deliveries.rejection(reason)
    if verdict == deliveries.BLAMED_AT_ONCE and slot >= 0:
        _count_invalid(w, node, slot, topic)
    if verdict < 0:
        return
    at = column(w, message)
    if _state(w, now, node, at) != deliveries.OPEN:
        return
    _set_state(w, node, at, verdict)
    if verdict == deliveries.INVALID:
        if slot >= 0:
            _count_invalid(w, node, slot, topic)
        for other in range(first_slot(w, node), end_slot(w, node)):
            if _has_sent(w, node, at, other):
                _blame_copy(w, node, other, topic)
    _forget_senders(w, node, at)


# Time.


@with_scores
def decay(w: World, now: int, node: int) -> None:
    """Let the counters of neighbours decay, and update their times in meshes (COUNTER-2, RETAIN-4).

    Counters of disconnected neighbours decay only with DECAYS_AWAY.
    """
    zero = real(w, node, ZERO)
    for slot in range(first_slot(w, node), end_slot(w, node)):
        if not is_present(w, slot) and not parameter(w, node, DECAYS_AWAY):
            continue
        line = peer_scores(w)[slot]
        line[MISBEHAVIOUR] = parts.decayed(line[MISBEHAVIOUR], real(w, node, MISBEHAVIOUR_DECAY), zero)
        line[SLOWNESS] = parts.decayed(line[SLOWNESS], real(w, node, SLOW_DECAY), zero)
        mark_outdated(w, slot)
        for topic in range(w[TOPICS]):
            if members(w)[node, topic] & COUNTED:
                _decay_topic(w, now, node, slot, topic, zero)
    more64(w)[node, REFRESHED] = now


@with_scores
def _decay_topic(w: World, now: int, node: int, slot: int, topic: int, zero: float) -> None:
    own = topic_reals(w)[router(w, node), topic]
    counted = topic_scores(w)[slot, own_place(w, node, topic)]
    counted[FIRST] = parts.decayed(counted[FIRST], own[FIRST_DECAY], zero)
    counted[MESH] = parts.decayed(counted[MESH], own[MESH_DECAY], zero)
    counted[FAILURES] = parts.decayed(counted[FAILURES], own[FAILURE_DECAY], zero)
    counted[INVALID] = parts.decayed(counted[INVALID], own[INVALID_DECAY], zero)
    if flags(w)[slot, topic] & IN_MESH:
        times = mesh_times(w)[slot, own_place(w, node, topic)]
        times[TIME_IN_MESH] = now - times[GRAFTED]
        if parts.is_active(times[TIME_IN_MESH], topic_times(w)[router(w, node), topic, ACTIVATION]):
            times[MESH_BITS] |= ACTIVE
