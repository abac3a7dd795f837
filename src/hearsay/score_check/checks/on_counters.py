"""Checks on caps, weights and times that do not do what they look like."""

from __future__ import annotations

from collections.abc import Iterator

from hearsay.core.scores.declarations import MeshTimes
from hearsay.score_check.checks.on_thresholds import scores_anything
from hearsay.score_check.findings import Remark
from hearsay.score_check.worth import TopicWorth, Worth
from hearsay.text.numbers import count, figure, seconds

_NEGLIGIBLE = 0.001
"""Share of the total below which a part has no effect."""
_SHORT_STAY_S = 60.0
_JUST_BELOW = 1.0 - 1e-9
"""Tolerance for values that reach a cap exactly, before rounding."""


def nothing_scored(worth: Worth) -> Iterator[Remark]:
    if not scores_anything(worth):
        yield Remark("no topic and nothing of the peer is scored: every score is 0 but for the application's opinion")


def weightless_topic(worth: Worth) -> Iterator[Remark]:
    for topic in worth.topics:
        if not topic.numbers.weight:
            yield Remark("topic_weight is 0, so nothing in it counts", "topic_weight", topic.group)


def unmet(worth: Worth) -> Iterator[Remark]:
    """Only tables of the file count; a preset may have tables for topics that a network lacks."""
    written = (group for group in worth.subject.unmet if group.place in worth.subject.lines)
    for group in written:
        yield Remark("has parameters, and no topic of that name is there", group=group)


def first_cap_never_binds(worth: Worth) -> Iterator[Remark]:
    for topic, rate in _with_traffic(worth):
        own = topic.numbers
        most = rate / (1.0 - own.first_decay)
        if own.first_weight and most < own.first_cap * _JUST_BELOW:
            words = (
                f"a peer that is first with every message has {figure(most)} first deliveries, so the "
                f"cap of {figure(own.first_cap)} never binds; what P2 gives at most is "
                f"{figure(most / own.first_cap * topic.first)}, not {figure(topic.first)}"
            )
            figures = {"most": most, "cap": own.first_cap}
            yield Remark(words, "first_deliveries_cap", topic.group, figures)


def first_cap_always_binds(worth: Worth) -> Iterator[Remark]:
    degree = worth.subject.expected.degree
    for topic, rate in _with_traffic(worth):
        own = topic.numbers
        usual = rate / degree * own.first_decay / (1.0 - own.first_decay)
        if own.first_weight and degree > 1 and own.first_cap < usual:
            words = (
                f"a member that is first with its share settles at {figure(usual)} first "
                f"deliveries, above the cap of {figure(own.first_cap)}: P2 does not distinguish good members"
            )
            yield Remark(words, "first_deliveries_cap", topic.group, {"usual": usual, "cap": own.first_cap})


def mesh_cap_never_binds(worth: Worth) -> Iterator[Remark]:
    for topic, rate in _with_traffic(worth):
        own = topic.numbers
        most = rate / (1.0 - own.mesh_decay)
        if topic.expects and rate and own.mesh_threshold <= most < own.mesh_cap:
            words = (
                f"a peer that delivers every message has {figure(most)} mesh deliveries, so the cap of "
                f"{figure(own.mesh_cap)} never binds"
            )
            yield Remark(words, "mesh_deliveries_cap", topic.group, {"most": most, "cap": own.mesh_cap})


def time_cap_at_once(worth: Worth) -> Iterator[Remark]:
    for topic in worth.topics:
        own = topic.numbers
        full_s = own.time_in_mesh_cap * own.quantum / 1_000_000
        if own.time_in_mesh_weight and full_s <= _SHORT_STAY_S:
            words = f"time in the mesh is at its cap after {seconds(full_s)}; all members have it alike"
            yield Remark(words, "time_in_mesh_cap", topic.group, {"full_s": full_s})


def negligible(worth: Worth) -> Iterator[Remark]:
    whole = worth.all_topics
    for topic in worth.topics:
        for name, most, on in (
            ("time_in_mesh_weight", topic.in_mesh, topic.numbers.time_in_mesh_weight),
            ("first_deliveries_weight", topic.first, topic.numbers.first_weight),
        ):
            if on and topic.numbers.weight and most * topic.group.count < _NEGLIGIBLE * whole:
                words = f"{name} gives {most:.2g} at most, of {figure(whole)} that topics can give"
                yield Remark(words, name, topic.group, {"most": most, "all_topics": whole})


def topic_cap_never_binds(worth: Worth) -> Iterator[Remark]:
    cap = float(worth.peer.topic_cap)
    if worth.topics and cap and worth.all_topics <= cap:
        words = f"topic_cap ({figure(cap)}) never binds: all topics together give {figure(worth.all_topics)} at most"
        yield Remark(words, "topic_cap", None, {"cap": cap, "all_topics": worth.all_topics})


def topic_cap_missing(worth: Worth) -> Iterator[Remark]:
    if worth.topics and not worth.peer.topic_cap:
        words = (
            f"there is no topic_cap: {figure(worth.all_topics)} from topics stand against misbehaviour and shared "
            "addresses"
        )
        yield Remark(words, "topic_cap", None, {"all_topics": worth.all_topics})


def activation_within_a_refresh(worth: Worth) -> Iterator[Remark]:
    interval = worth.subject.score.peer.decay_interval_ms
    for topic in worth.topics:
        activation = topic.parameters.mesh_deliveries_activation_ms
        if topic.expects and activation < interval and worth.peer.mesh_times is not MeshTimes.NOW:
            words = (
                f"deliveries are expected after {count(activation)} ms, and a refresh, which sees "
                f"to that, comes every {count(interval)} ms"
            )
            figures = {"activation_ms": activation, "interval_ms": interval}
            yield Remark(words, "mesh_deliveries_activation_ms", topic.group, figures)


def refresh_is_rare(worth: Worth) -> Iterator[Remark]:
    """Between two refreshes whatever was counted stands, and times in meshes are not seen."""
    interval, backoff = worth.subject.score.peer.decay_interval_ms, worth.subject.expected.prune_backoff_ms
    if backoff and interval >= backoff:
        words = (
            f"a refresh comes every {seconds(interval / 1000)}, a backoff lasts {seconds(backoff / 1000)}: scores "
            "change in steps that are longer than what they punish"
        )
        yield Remark(words, "decay_interval_ms", None, {"interval_s": interval / 1000, "backoff_s": backoff / 1000})


def _with_traffic(worth: Worth) -> Iterator[tuple[TopicWorth, float]]:
    return ((topic, topic.per_refresh) for topic in worth.topics if topic.per_refresh)
