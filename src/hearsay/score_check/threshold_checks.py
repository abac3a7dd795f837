"""Checks on caps, weights and times without effect, on thresholds, and on parameters that an implementation
rejects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from hearsay.core.rules.score_parts import exchange_is_accepted, mesh_is_poor
from hearsay.core.scores.declarations import MeshTimes, Validation
from hearsay.core.scores.score_parameters import PeerScoreParameters as Peer
from hearsay.core.scores.score_parameters import ScoreThresholds as Thresholds
from hearsay.core.scores.score_parameters import TopicScoreParameters as Topic
from hearsay.core.shell.parameters import ParameterError
from hearsay.number_text import figure
from hearsay.score_check.findings import Remark, check
from hearsay.score_check.offences import levels
from hearsay.score_check.worth import TopicWorth, Worth

_RULES: dict[str, tuple[tuple[type, str, str, Callable[[Any], bool]], ...]] = {
    "nim": (
        (Peer, "decay_to_zero", "above 0 and at most 0.5", lambda own: 0 < own.decay_to_zero <= 0.5),
        (Peer, "shared_address_threshold", "at least 1", lambda own: own.shared_address_threshold >= 1),
        (Peer, "slow_peer_decay", "above 0", lambda own: own.slow_peer_decay > 0 or not own.slow_peer_threshold),
        (Peer, "misbehaviour_weight", "below 0", lambda own: own.misbehaviour_weight < 0),
        (Thresholds, "gossip", "below 0", lambda own: own.gossip < 0),
        (Thresholds, "publish", "below gossip", lambda own: own.publish < own.gossip),
        (Thresholds, "graylist", "below publish", lambda own: own.graylist < own.publish),
        (Topic, "time_in_mesh_weight", "above 0 and at most 1", lambda own: 0 < own.time_in_mesh_weight <= 1),
        (Topic, "time_in_mesh_cap", "above 0", lambda own: own.time_in_mesh_cap > 0),
        (Topic, "first_deliveries_weight", "above 0", lambda own: own.first_deliveries_weight > 0),
        (Topic, "mesh_deliveries_weight", "below 0", lambda own: own.mesh_deliveries_weight < 0),
        (Topic, "mesh_deliveries_threshold", "above 0", lambda own: own.mesh_deliveries_threshold > 0),
        (Topic, "mesh_failure_weight", "below 0", lambda own: own.mesh_failure_weight < 0),
        (Topic, "invalid_messages_weight", "below 0", lambda own: own.invalid_messages_weight < 0),
    ),
    "jvm": (
        (Peer, "misbehaviour_decay", "above 0", lambda own: own.misbehaviour_decay > 0),
        (Thresholds, "graylist", "below publish, or both must be 0",
         lambda own: own.graylist < own.publish or own.graylist == own.publish == 0),
    ),
}  # fmt: skip
"""The requirements of implementations: the class and the name of a parameter, and its rule as text and function."""
_NEGLIGIBLE = 0.001
"""Share of the sum of all topics below which a score part is negligible."""
_SHORT_STAY_S = 60.0
_JUST_BELOW = 1.0 - 1e-9
"""A factor for caps: a value that reaches a cap except for rounding is not below the cap times this factor."""


@check
def threshold_unreachable(worth: Worth) -> Iterator[Remark]:
    """Find thresholds below which no score can fall. Counts of offences have no cap, so one kind of offence with a
    weight is enough to reach all thresholds.
    """
    of_topics = any(
        topic.numbers.weight and (topic.numbers.invalid_weight or topic.numbers.failure_weight)
        for topic in worth.topics
    )
    if not worth.topics or _scores_peers(worth) or of_topics:
        return
    lowest = worth.score(sum(topic.deficit * topic.group.count for topic in worth.topics))
    missed = {name: level for name, level in levels(worth).items() if lowest >= level}
    if missed:
        named = ("a score below 0" if name == "negative" else f"{name} ({figure(missed[name])})" for name in missed)
        yield Remark(None, {"lowest": lowest, **missed}, {"named": ", ".join(named)})


@check
def threshold_at_zero(worth: Worth) -> Iterator[Remark]:
    """Find thresholds at 0 if graylist is 0. In implementations without defaults, an unset threshold is 0."""
    found = worth.subject.score.thresholds
    names = [name for name in ("gossip", "publish", "graylist") if getattr(found, name) == 0]
    if "graylist" in names and (worth.topics or _scores_peers(worth)):
        yield Remark(values={"names": ", ".join(names)})


@check
def thresholds_equal(worth: Worth) -> Iterator[Remark]:
    found = worth.subject.score.thresholds
    for lower, upper in (("publish", "gossip"), ("graylist", "publish")):
        level = getattr(found, lower)
        if level and level == getattr(found, upper):
            yield Remark(None, {"threshold": level}, {"lower": lower, "upper": upper})


@check
def invalid_graylists(worth: Worth) -> Iterator[Remark]:
    """Find topics in which one invalid message graylists a new peer: then a bug in a release cuts off all
    its nodes.
    """
    graylist = worth.subject.score.thresholds.graylist
    for topic in worth.topics:
        score = worth.score(worth.invalid(topic, 1.0))
        if score < graylist < 0:
            yield Remark(topic.group, {"score": score, "graylist": graylist})


@check
def exchange_unreachable(worth: Worth) -> Iterator[Remark]:
    level = worth.subject.score.thresholds.accept_exchange
    if not exchange_is_accepted(worth.best, level):
        only = "only P5 can reach it" if worth.peer.application_weight else "no peer reaches it"
        yield Remark(None, {"threshold": level, "best": worth.best}, {"only": only})


@check
def exchange_from_anyone(worth: Worth) -> Iterator[Remark]:
    dials = worth.subject.dials_exchanged
    if worth.subject.score.thresholds.accept_exchange == 0 and dials is not False:
        yield Remark(values={"condition": "" if dials else ", if the router dials"})


@check
def opportunity_unreachable(worth: Worth) -> Iterator[Remark]:
    level = worth.subject.score.thresholds.opportunistic_graft
    if worth.topics and worth.subject.expected.opportunistic_graft_ticks and mesh_is_poor(worth.usual, level):
        yield Remark(None, {"threshold": level, "usual": worth.usual, "best": worth.best})


@check
def opportunity_off(worth: Worth) -> Iterator[Remark]:
    """Find out whether only one of the two parameters of opportunistic grafting is set."""
    level = worth.subject.score.thresholds.opportunistic_graft
    ticks = worth.subject.expected.opportunistic_graft_ticks
    if bool(ticks) != bool(level):
        reason = ": a mesh full of peers that do nothing never counts as poor"
        if level:
            reason = " and opportunistic_graft_ticks is 0: no mesh is ever checked, so the threshold has no effect"
        yield Remark(None, {"threshold": level}, {"reason": reason})


@check
def refused_incomplete(worth: Worth) -> Iterator[Remark]:
    for group, own in ((None, worth.subject.score.peer), *worth.subject.scored):
        try:
            replace(own, validation=Validation.ATOMIC)
        except ParameterError as error:
            for each in error.violations:
                yield Remark(group, values={"parameter": each.field, "rule": each.rule})


@check
def refused_by_nim(worth: Worth) -> Iterator[Remark]:
    return _refused("nim", worth)


@check
def refused_by_jvm(worth: Worth) -> Iterator[Remark]:
    return _refused("jvm", worth)


@check
def nothing_scored(worth: Worth) -> Iterator[Remark]:
    if not worth.topics and not _scores_peers(worth):
        yield Remark()


@check
def topic_weightless(worth: Worth) -> Iterator[Remark]:
    return (Remark(topic.group) for topic in worth.topics if not topic.numbers.weight)


@check
def topic_not_there(worth: Worth) -> Iterator[Remark]:
    """Find parameters in the file for topics that do not exist. A preset may have parameters for other topics."""
    return (Remark(group) for group in worth.subject.unmet if group.place in worth.subject.lines)


@check
def first_cap_never_binds(worth: Worth) -> Iterator[Remark]:
    for topic, rate in _with_traffic(worth):
        own = topic.numbers
        most = rate / (1.0 - own.first_decay)
        if own.first_weight and most < own.first_cap * _JUST_BELOW:
            values = {"reached": most / own.first_cap * topic.first, "at_cap": topic.first}
            yield Remark(topic.group, {"most": most, "cap": own.first_cap}, values)


@check
def first_cap_always_binds(worth: Worth) -> Iterator[Remark]:
    degree = worth.subject.expected.degree
    for topic, rate in _with_traffic(worth):
        own = topic.numbers
        usual = rate / degree * own.first_decay / (1.0 - own.first_decay)
        if own.first_weight and degree > 1 and own.first_cap < usual:
            yield Remark(topic.group, {"usual": usual, "cap": own.first_cap})


@check
def mesh_cap_never_binds(worth: Worth) -> Iterator[Remark]:
    for topic, rate in _with_traffic(worth):
        own = topic.numbers
        most = rate / (1.0 - own.mesh_decay)
        if topic.has_p3 and own.mesh_threshold <= most < own.mesh_cap:
            yield Remark(topic.group, {"most": most, "cap": own.mesh_cap})


@check
def time_cap_at_once(worth: Worth) -> Iterator[Remark]:
    for topic in worth.topics:
        own = topic.numbers
        full_s = own.time_in_mesh_cap * own.quantum / 1_000_000
        if own.time_in_mesh_weight and full_s <= _SHORT_STAY_S:
            yield Remark(topic.group, {"full_s": full_s})


@check
def weight_negligible(worth: Worth) -> Iterator[Remark]:
    whole = worth.all_topics
    for topic in worth.topics:
        for name, most, on in (
            ("time_in_mesh_weight", topic.in_mesh, topic.numbers.time_in_mesh_weight),
            ("first_deliveries_weight", topic.first, topic.numbers.first_weight),
        ):
            if on and topic.numbers.weight and most * topic.group.count < _NEGLIGIBLE * whole:
                yield Remark(topic.group, {"most": most, "all_topics": whole}, {"parameter": name})


@check
def topic_cap_never_binds(worth: Worth) -> Iterator[Remark]:
    cap = float(worth.peer.topic_cap)
    if worth.topics and cap and worth.all_topics <= cap:
        yield Remark(None, {"cap": cap, "all_topics": worth.all_topics})


@check
def topic_cap_missing(worth: Worth) -> Iterator[Remark]:
    if worth.topics and not worth.peer.topic_cap:
        yield Remark(None, {"all_topics": worth.all_topics})


@check
def activation_within_refresh(worth: Worth) -> Iterator[Remark]:
    interval = worth.subject.score.peer.decay_interval_ms
    for topic in worth.topics:
        activation = topic.parameters.mesh_deliveries_activation_ms
        if topic.has_p3 and activation < interval and worth.peer.mesh_times is not MeshTimes.NOW:
            yield Remark(topic.group, {"activation_ms": activation, "interval_ms": interval})


@check
def refresh_rare(worth: Worth) -> Iterator[Remark]:
    """Find out whether two refreshes are a backoff or more apart. Between them, counts do not decay, and times in
    meshes do not grow.
    """
    interval, backoff = worth.subject.score.peer.decay_interval_ms, worth.subject.expected.prune_backoff_ms
    if backoff and interval >= backoff:
        yield Remark(None, {"interval_s": interval / 1000, "backoff_s": backoff / 1000})


def _refused(implementation: str, worth: Worth) -> Iterator[Remark]:
    score = worth.subject.score
    for group, own in ((None, score.peer), (None, score.thresholds), *worth.subject.scored):
        for kind, name, rule, holds in _RULES[implementation]:
            if isinstance(own, kind) and not holds(own):
                parameter = f"thresholds.{name}" if kind is Thresholds else name
                yield Remark(group, values={"parameter": parameter, "rule": rule})


def _scores_peers(worth: Worth) -> bool:
    """Return True if shared addresses, misbehaviour or slowness of peers have a weight."""
    peer = worth.peer
    return bool(peer.shared_address_weight or peer.misbehaviour_weight or peer.slow_peer_weight)


def _with_traffic(worth: Worth) -> Iterator[tuple[TopicWorth, float]]:
    """Yield the topics whose traffic is known and not 0, each with the number of its messages between two
    refreshes.
    """
    return ((topic, topic.per_refresh) for topic in worth.topics if topic.per_refresh)
