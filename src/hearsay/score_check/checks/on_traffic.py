"""Checks on traffic: whether honest members can deliver what is expected of them (P3), and earn what they should."""

from __future__ import annotations

from collections.abc import Iterator

from hearsay.core.rules.score_parts import may_be_in_mesh
from hearsay.score_check.findings import Remark
from hearsay.score_check.silence import active_after_s
from hearsay.score_check.worth import TopicWorth, Worth, refreshes_to_reach, refreshes_until
from hearsay.text.numbers import figure, seconds

_FEWEST_GAPS = 3
"""Between messages that come by chance one gap in twenty is longer than three mean ones."""


def least_rate(worth: Worth, topic: TopicWorth, share: float) -> float | None:
    """Messages per second of the topic with which a member that delivers this share of them meets the threshold;
    None if no traffic is enough."""
    own = topic.numbers
    if own.mesh_cap * own.mesh_decay < own.mesh_threshold:
        return None
    return own.mesh_threshold * (1.0 - own.mesh_decay) / own.mesh_decay / share / worth.interval_s


def per_time(rate: float) -> str:
    """Messages in the unit of time in which there is at least one."""
    for factor, unit in ((1, "second"), (60, "minute"), (3_600, "hour")):
        if rate * factor >= 1:
            return f"{figure(rate * factor)} messages per {unit}"
    return "no messages" if not rate else f"{figure(rate * 86_400)} messages per day"


def out_of_reach(worth: Worth) -> Iterator[Remark]:
    for topic in worth.topics:
        own = topic.numbers
        reached = own.mesh_cap * own.mesh_decay
        if topic.expects and reached < own.mesh_threshold:
            words = (
                f"{figure(own.mesh_threshold)} deliveries are expected, and after a refresh never "
                f"more than {figure(reached)} are counted (cap {figure(own.mesh_cap)}): every member has a deficit"
            )
            figures = {"threshold": own.mesh_threshold, "most": reached, "cap": own.mesh_cap}
            yield Remark(words, "mesh_deliveries_cap", topic.group, figures)


def idle_prunes(worth: Worth) -> Iterator[Remark]:
    for topic, lacking in _lacking(worth, 1.0):
        score = worth.score(worth.usual_topics + lacking)
        if not may_be_in_mesh(score):
            yield _idle(worth, topic, 1.0, f"is at {figure(score)} and pruned by others", score)


def idle_costs(worth: Worth) -> Iterator[Remark]:
    pruned = {id(topic.group) for topic, lacking in _lacking(worth, 1.0)
              if not may_be_in_mesh(worth.score(worth.usual_topics + lacking))}  # fmt: skip
    share = 1.0 / worth.subject.expected.degree
    for topic, lacking in _lacking(worth, share):
        if id(topic.group) not in pruned:
            score = worth.score(worth.usual_topics + lacking)
            yield _idle(worth, topic, share, f"pays {figure(-lacking)} and is at {figure(score)}", score)


def pause_prunes(worth: Worth) -> Iterator[Remark]:
    """Traffic that is enough on average comes with gaps."""
    share = 1.0 / worth.subject.expected.degree
    short = {id(topic.group) for topic, _ in _lacking(worth, share)}
    for topic in worth.topics:
        level, own = worth.delivered(topic, share), topic.numbers
        if not topic.expects or not level or not topic.per_refresh or id(topic.group) in short:
            continue
        pause = refreshes_until(level, own.mesh_decay, own.mesh_threshold) * worth.interval_s
        gap = worth.interval_s / (topic.per_refresh * share)
        if pause < _FEWEST_GAPS * gap:
            words = (
                f"a member that is first with its share has enough deliveries for a pause of "
                f"{seconds(pause)}, and brings one message in {seconds(gap)}: three such gaps in a row are common"
            )
            yield Remark(words, "mesh_deliveries_threshold", topic.group, {"pause_s": pause, "gap_s": gap})


def activation_is_early(worth: Worth) -> Iterator[Remark]:
    share = 1.0 / worth.subject.expected.degree
    for topic in worth.topics:
        own = topic.numbers
        if not topic.expects or not topic.per_refresh:
            continue
        needed = refreshes_to_reach(own.mesh_threshold, topic.per_refresh * share, own.mesh_decay)
        active = active_after_s(worth, topic)
        if needed is not None and own.mesh_cap * own.mesh_decay >= own.mesh_threshold:
            fills = needed * worth.interval_s
            if fills > active:
                words = (
                    f"deliveries are expected after {seconds(active)}, and a newcomer that is "
                    f"first with its share has enough of them after {seconds(fills)}"
                )
                figures = {"active_s": active, "filled_s": fills}
                yield Remark(words, "mesh_deliveries_activation_ms", topic.group, figures)


def unknown(worth: Worth) -> Iterator[Remark]:
    for topic in worth.topics:
        if topic.per_refresh is None and topic.expects:
            least, liberal = (
                least_rate(worth, topic, 1.0 / worth.subject.expected.degree),
                least_rate(worth, topic, 1),
            )
            if least is None or liberal is None:
                continue
            words = (
                f"its traffic is not known; deliveries are enough from {per_time(liberal)} on of "
                f"who delivers every message, and from {per_time(least)} on of who is first with its share"
            )
            figures = {"least_messages_per_s": liberal, "safe_messages_per_s": least}
            yield Remark(words, "mesh_deliveries_threshold", topic.group, figures)


def _idle(worth: Worth, topic: TopicWorth, share: float, fate: str, score: float) -> Remark:
    rate = topic.group.messages_per_s or 0.0
    level, threshold = worth.delivered(topic, share) or 0.0, topic.numbers.mesh_threshold
    least = least_rate(worth, topic, share)
    who = "a member that delivers every message" if share == 1.0 else "a member that is first with its share"
    safe = "" if least is None else f"; it takes {per_time(least)}"
    words = (
        f"with {per_time(rate)} {who} has {figure(level)} of {figure(threshold)} deliveries expected, {fate}{safe}"
    )
    figures = {"messages_per_s": rate, "delivered": level, "threshold": threshold, "score": score}
    if least is not None:
        figures["least_messages_per_s"] = least
    return Remark(words, "mesh_deliveries_threshold", topic.group, figures)


def _lacking(worth: Worth, share: float) -> Iterator[tuple[TopicWorth, float]]:
    """Topics whose members lack deliveries although they deliver this share, with what that costs."""
    for topic in worth.topics:
        level = worth.delivered(topic, share)
        if not topic.expects or level is None or least_rate(worth, topic, share) is None:
            continue
        cost = worth.deficit(topic, level)
        if cost < 0:
            yield topic, cost
