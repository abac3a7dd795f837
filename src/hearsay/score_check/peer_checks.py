"""Checks on the behaviour of peers: silence in a mesh, honest members, and the costs of offences."""

from __future__ import annotations

from collections.abc import Iterator

from hearsay.core.rules.score_parts import may_be_in_mesh
from hearsay.core.scores.declarations import RetainedScores
from hearsay.number_text import count, figure, plural, seconds
from hearsay.score_check.findings import Remark, check
from hearsay.score_check.offences import (
    GRAFTS,
    SHARING_PEERS,
    Verdict,
    active_after_s,
    most_silent,
    offences_of_the_peer,
    silences,
)
from hearsay.score_check.worth import TopicWorth, Worth, deficit_of, first_that, refreshes_to_reach, refreshes_until

_NAMED = 3
"""Maximum number of groups of topics that a finding names."""
_FEWEST_GAPS = 3
"""Number of mean gaps between messages that a usual gap may last. In random traffic, one gap in twenty is longer."""
_PATIENCE = 10
"""Maximum number of invalid messages that a peer may send by accident."""


@check
def silence_outweighed(worth: Worth) -> Iterator[Remark]:
    cap = worth.peer.topic_cap
    for each in silences(worth):
        topic = each.topic
        if topic is None or each.verdict is not Verdict.OUTWEIGHED:
            continue
        others = worth.all_topics - topic.most
        kept = others + topic.in_mesh
        above = f", above topic_cap ({figure(cap)})" if 0 < cap < kept else ""
        useless = f"; topic_cap ({figure(cap)}) does not help, it bounds the sum" if 0 < cap < -topic.deficit else ""
        values = {"cost": -topic.deficit, "kept": kept, "above": above, "useless": useless}
        figures = {"deficit": topic.deficit, "others": others, "time_in_mesh": topic.in_mesh, "score": each.score}
        yield Remark(each.group, figures, values)


@check
def silence_in_many(worth: Worth) -> Iterator[Remark]:
    chosen = most_silent(worth)
    expecting = [(topic, many) for topic, many in chosen if topic.has_p3]
    if not expecting:
        return
    of = sum(topic.group.count for topic in worth.topics)
    silent, scored = (sum(many for _, many in each) for each in (chosen, expecting))
    values = {
        "topics": plural(of, "scored topic"),
        "named": ", ".join(f"{count(many)} of {topic.group.name}" for topic, many in expecting[:_NAMED]),
        "more": f" and {len(expecting) - _NAMED} more groups" if len(expecting) > _NAMED else "",
    }
    yield Remark(None, {"silent": silent, "with_deliveries_scored": scored, "of": of}, values)


@check
def silence_nowhere_expected(worth: Worth) -> Iterator[Remark]:
    if worth.topics and not any(topic.has_p3 for topic in worth.topics):
        in_mesh = sum(each.in_mesh * each.group.count for each in worth.topics)
        yield Remark(None, {"score": worth.score(in_mesh)})


@check
def silence_not_expected(worth: Worth) -> Iterator[Remark]:
    for each in silences(worth):
        if each.verdict is Verdict.NOT_EXPECTED:
            yield Remark(each.group, {"score": each.score})


@check
def topic_unscored(worth: Worth) -> Iterator[Remark]:
    return (Remark(group) for group in worth.subject.topics if group.parameters is None)


@check
def time_outweighs_silence(worth: Worth) -> Iterator[Remark]:
    for topic in worth.topics:
        if topic.has_p3 and topic.silent >= 0:
            figures = {"time_in_mesh": topic.in_mesh, "deficit": topic.deficit}
            yield Remark(topic.group, figures, {"cost": -topic.deficit})


@check
def silence_graylists(worth: Worth) -> Iterator[Remark]:
    """Find topics in which silence graylists a peer that is at its best elsewhere. A broken link also causes
    silence.
    """
    level = worth.subject.score.thresholds.graylist
    for topic in worth.topics:
        score = worth.silent_in(topic)
        if topic.has_p3 and score < level < 0:
            yield Remark(topic.group, {"score": score, "graylist": level, "deficit": topic.deficit})


@check
def failure_not_scored(worth: Worth) -> Iterator[Remark]:
    for topic in worth.topics:
        if topic.has_p3 and not topic.numbers.failure_weight:
            yield Remark(topic.group, {"activation_s": active_after_s(worth, topic)})


@check
def failure_fades(worth: Worth) -> Iterator[Remark]:
    backoff_s = worth.subject.expected.prune_backoff_ms / 1000
    for topic in worth.topics:
        own = topic.numbers
        if not (topic.has_p3 and own.failure_weight and backoff_s):
            continue
        lasts = refreshes_until(own.mesh_threshold**2, own.failure_decay, worth.peer.decay_to_zero) * worth.interval_s
        if lasts < backoff_s:
            yield Remark(topic.group, {"forgotten_s": lasts, "backoff_s": backoff_s})


@check
def window_mirrors(worth: Worth) -> Iterator[Remark]:
    trip = worth.subject.expected.round_trip_ms
    for topic in worth.topics:
        window = topic.parameters.mesh_deliveries_window_ms
        if topic.has_p3 and trip and window >= trip:
            yield Remark(topic.group, {"window_ms": window, "round_trip_ms": trip})


@check
def threshold_out_of_reach(worth: Worth) -> Iterator[Remark]:
    for topic in worth.topics:
        own = topic.numbers
        if topic.has_p3 and topic.most_counted < own.mesh_threshold:
            figures = {"threshold": own.mesh_threshold, "most": topic.most_counted, "cap": own.mesh_cap}
            yield Remark(topic.group, figures)


@check
def idle_prunes(worth: Worth) -> Iterator[Remark]:
    for topic, cost in _lacking(worth, 1.0):
        if not may_be_in_mesh(worth.score(worth.usual_topics - cost)):
            yield _idle(worth, topic, 1.0, cost)


@check
def idle_costs(worth: Worth) -> Iterator[Remark]:
    pruned = {remark.group for remark in idle_prunes.look(worth)}
    for topic, cost in _lacking(worth, worth.share):
        if topic.group not in pruned:
            yield _idle(worth, topic, worth.share, cost)


@check
def pause_prunes(worth: Worth) -> Iterator[Remark]:
    """Find topics in which a usual gap between the messages with which a member is first causes a deficit, although
    the traffic is enough on average.
    """
    lacking = {topic.group for topic, _ in _lacking(worth, worth.share)}
    for topic in worth.topics:
        level, own = worth.delivered(topic, worth.share), topic.numbers
        if not topic.has_p3 or not level or not topic.per_refresh or topic.group in lacking:
            continue
        pause = refreshes_until(level, own.mesh_decay, own.mesh_threshold) * worth.interval_s
        gap = worth.interval_s / (topic.per_refresh * worth.share)
        if pause < _FEWEST_GAPS * gap:
            yield Remark(topic.group, {"pause_s": pause, "gap_s": gap})


@check
def activation_early(worth: Worth) -> Iterator[Remark]:
    for topic in worth.topics:
        own = topic.numbers
        if not topic.has_p3 or not topic.per_refresh or topic.most_counted < own.mesh_threshold:
            continue
        needed = refreshes_to_reach(own.mesh_threshold, topic.per_refresh * worth.share, own.mesh_decay)
        active = active_after_s(worth, topic)
        if needed is not None and needed * worth.interval_s > active:
            yield Remark(topic.group, {"active_s": active, "filled_s": needed * worth.interval_s})


@check
def traffic_unknown(worth: Worth) -> Iterator[Remark]:
    for topic in worth.topics:
        if topic.per_refresh is None and topic.has_p3 and topic.most_counted >= topic.numbers.mesh_threshold:
            least, safe = (_least_rate(worth, topic, share) for share in (1.0, worth.share))
            yield Remark(topic.group, {"least_messages_per_s": least, "safe_messages_per_s": safe})


@check
def invalid_unpunished(worth: Worth) -> Iterator[Remark]:
    return (Remark(topic.group) for topic in worth.topics if not worth.invalid(topic, 1.0))


@check
def invalid_cheap(worth: Worth) -> Iterator[Remark]:
    for topic in worth.topics:
        one, number = worth.invalid(topic, 1.0), _needed(worth, topic)
        if one and (number is None or number > _PATIENCE):
            values = {"amount": "no number of" if number is None else count(number), "cost": -one}
            yield Remark(topic.group, {"best": worth.best, "one": one, "needed": number or 0.0}, values)


@check
def invalid_forgotten(worth: Worth) -> Iterator[Remark]:
    """Find topics in which one invalid message at every heartbeat never brings a peer at its best below 0."""
    for topic in worth.topics:
        most = _at_every_heartbeat(worth, topic.numbers.invalid_decay)
        score = worth.score(worth.all_topics + worth.invalid(topic, most))
        if worth.invalid(topic, 1.0) and may_be_in_mesh(score):
            yield Remark(topic.group, {"counted": most, "score": score})


@check
def misbehaviour_unpunished(worth: Worth) -> Iterator[Remark]:
    if not worth.peer.misbehaviour_weight:
        yield Remark(values={"reason": "broken promises and GRAFTs in a backoff cost nothing (P7)"})
    elif not worth.subject.expected.promises_per_heartbeat:
        yield Remark(values={"reason": "promises are not tracked (tracked_promises), so none is ever broken"})


@check
def misbehaviour_forgotten(worth: Worth) -> Iterator[Remark]:
    """Find out whether the maximum number of broken promises at every heartbeat never brings a peer at its best below
    0.
    """
    peer, each = worth.peer, worth.subject.expected.promises_per_heartbeat
    most = each * _at_every_heartbeat(worth, peer.misbehaviour_decay)
    score = worth.score(worth.all_topics, 0.0, most)
    if peer.misbehaviour_weight and each and may_be_in_mesh(score):
        yield Remark(None, {"counted": most, "score": score}, {"promises": plural(each, "broken promise")})


@check
def addresses_unpunished(worth: Worth) -> Iterator[Remark]:
    if not worth.peer.shared_address_weight:
        yield Remark()


@check
def address_of_household(worth: Worth) -> Iterator[Remark]:
    weight = float(worth.peer.shared_address_weight)
    if weight and worth.peer.shared_address_threshold <= 1:
        yield Remark(None, {"one": weight, "score": worth.score(worth.all_topics, 2.0)}, {"cost": -weight})


@check
def offence_cheap(worth: Worth) -> Iterator[Remark]:
    """Find GRAFTs in a backoff, and peers at one address, if more than ten times `_PATIENCE` of them are needed to
    bring a peer at its best below 0.
    """
    found = {each.name: each for each in offences_of_the_peer(worth)}
    for name, parameter, on in (
        (GRAFTS, "misbehaviour_weight", worth.peer.misbehaviour_weight),
        (SHARING_PEERS, "shared_address_weight", worth.peer.shared_address_weight),
    ):
        number = found[name].needed["negative"]
        if on and number is not None and number > 10 * _PATIENCE:
            values = {"parameter": parameter, "offence": name, "best": worth.best}
            yield Remark(None, {"needed": number}, values)


@check
def forgotten_in_backoff(worth: Worth) -> Iterator[Remark]:
    retain_s, backoff_s = worth.peer.retain_ms / 1000, worth.subject.expected.prune_backoff_ms / 1000
    if retain_s < backoff_s:
        kept = f"kept for {seconds(retain_s)}" if retain_s else "not kept"
        yield Remark(None, {"retain_s": retain_s, "backoff_s": backoff_s}, {"kept": kept})


@check
def return_is_fresh(worth: Worth) -> Iterator[Remark]:
    if worth.peer.retained_scores is RetainedScores.UNTIL_RETURN:
        yield Remark()


@check
def decay_below_zero(worth: Worth) -> Iterator[Remark]:
    """Find counts that one refresh takes from 1 to 0, so that single events in different intervals do not add up."""
    peer, zero = worth.peer, worth.peer.decay_to_zero
    decays = [
        (None, "misbehaviour_decay", peer.misbehaviour_decay, peer.misbehaviour_weight),
        (None, "slow_peer_decay", peer.slow_peer_decay, peer.slow_peer_weight),
    ]
    for topic in worth.topics:
        own = topic.numbers
        decays += [
            (topic.group, "first_deliveries_decay", own.first_decay, own.first_weight),
            (topic.group, "mesh_deliveries_decay", own.mesh_decay, own.mesh_weight),
            (topic.group, "mesh_failure_decay", own.failure_decay, own.failure_weight),
            (topic.group, "invalid_messages_decay", own.invalid_decay, own.invalid_weight),
        ]
    for group, parameter, decay, weight in decays:
        if weight and decay < zero:
            yield Remark(group, {"decay": decay, "zero": zero}, {"parameter": parameter})


def _least_rate(worth: Worth, topic: TopicWorth, share: float) -> float:
    """Return the messages per second of a topic with which a member that delivers this share of the messages reaches
    the threshold of mesh deliveries. The cap of mesh deliveries must allow this.
    """
    own = topic.numbers
    return own.mesh_threshold * (1.0 - own.mesh_decay) / own.mesh_decay / share / worth.interval_s


def _idle(worth: Worth, topic: TopicWorth, share: float, cost: float) -> Remark:
    figures = {
        "messages_per_s": topic.group.messages_per_s or 0.0,
        "delivered": worth.delivered(topic, share) or 0.0,
        "threshold": topic.numbers.mesh_threshold,
        "score": worth.score(worth.usual_topics - cost),
        "least_messages_per_s": _least_rate(worth, topic, share),
    }
    return Remark(topic.group, figures, {"cost": cost})


def _lacking(worth: Worth, share: float) -> Iterator[tuple[TopicWorth, float]]:
    """Yield the topics in which a member that delivers this share of the traffic has a deficit, each with the score
    that the deficit costs. Leave out topics whose cap of mesh deliveries causes a deficit, and topics with unknown
    traffic.
    """
    for topic in worth.topics:
        level = worth.delivered(topic, share)
        if topic.has_p3 and level is not None and topic.most_counted >= topic.numbers.mesh_threshold:
            cost = -deficit_of(topic.numbers, level)
            if cost > 0:
                yield topic, cost


def _needed(worth: Worth, topic: TopicWorth) -> int | None:
    """Return the smallest number of simultaneous invalid messages that brings a peer at its best below 0; None if no
    number does.
    """
    return first_that(lambda sent: not may_be_in_mesh(worth.score(worth.all_topics + worth.invalid(topic, sent))))


def _at_every_heartbeat(worth: Worth, decay: float) -> float:
    """Return the largest value, in the long run, of a count to which every heartbeat adds one."""
    per_refresh = worth.interval_s * 1000 / worth.subject.expected.heartbeat_ms
    if per_refresh >= 1:
        return per_refresh / (1.0 - decay)
    return 1.0 / (1.0 - decay ** (1.0 / per_refresh))
