"""Checks on traffic and on offences: what honest members earn, and what offences cost."""

from __future__ import annotations

from collections.abc import Iterator

from hearsay.core.rules.score_parts import may_be_in_mesh
from hearsay.core.scores.declarations import RetainedScores
from hearsay.score_check.findings import Remark, Severity, check
from hearsay.score_check.offences import GRAFTS, SHARING_PEERS, active_after_s, offences_of_the_peer
from hearsay.score_check.worth import TopicWorth, Worth, first_that, refreshes_to_reach, refreshes_until
from hearsay.text.numbers import count, figure, plural, seconds

_FEWEST_GAPS = 3
"""If messages come at random, one gap in twenty is longer than three mean ones."""
_PATIENCE = 10
"""Number of invalid messages above which they are no accident."""


@check(Severity.ERROR, "the cap of mesh deliveries, after a refresh, is below what is expected")
def threshold_out_of_reach(worth: Worth) -> Iterator[Remark]:
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


@check(Severity.ERROR, "the topic's traffic is so little that members that deliver all of it are pruned")
def idle_prunes(worth: Worth) -> Iterator[Remark]:
    for topic, lacking in _lacking(worth, 1.0):
        score = worth.score(worth.usual_topics + lacking)
        if not may_be_in_mesh(score):
            yield _idle(worth, topic, 1.0, f"is at {figure(score)} and pruned by others", score)


@check(Severity.WARNING, "the topic's traffic is so little that members that are first with their share have a "
       "deficit")  # fmt: skip
def idle_costs(worth: Worth) -> Iterator[Remark]:
    pruned = {id(topic.group) for topic, lacking in _lacking(worth, 1.0)
              if not may_be_in_mesh(worth.score(worth.usual_topics + lacking))}  # fmt: skip
    share = 1.0 / worth.subject.expected.degree
    for topic, lacking in _lacking(worth, share):
        if id(topic.group) not in pruned:
            score = worth.score(worth.usual_topics + lacking)
            yield _idle(worth, topic, share, f"pays {figure(-lacking)} and is at {figure(score)}", score)


@check(Severity.WARNING, "the traffic is enough on average, and not over a usual pause")
def pause_prunes(worth: Worth) -> Iterator[Remark]:
    """Warn if a usual gap in traffic prunes members, although traffic is enough on average."""
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


@check(Severity.WARNING, "deliveries are expected before a new member can make them")
def activation_early(worth: Worth) -> Iterator[Remark]:
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


@check(Severity.NOTE, "deliveries are expected in a topic whose traffic is not known")
def traffic_unknown(worth: Worth) -> Iterator[Remark]:
    for topic in worth.topics:
        if topic.per_refresh is None and topic.expects:
            least, liberal = (
                least_rate(worth, topic, 1.0 / worth.subject.expected.degree),
                least_rate(worth, topic, 1),
            )
            if least is None or liberal is None:
                continue
            words = (
                f"its traffic is not known; a member that delivers every message delivers enough from "
                f"{per_time(liberal)} on, and one that is first with its share from {per_time(least)} on"
            )
            figures = {"least_messages_per_s": liberal, "safe_messages_per_s": least}
            yield Remark(words, "mesh_deliveries_threshold", topic.group, figures)


@check(Severity.ERROR, "invalid messages cost nothing")
def invalid_unpunished(worth: Worth) -> Iterator[Remark]:
    for topic in worth.topics:
        if not worth.invalid(topic, 1.0):
            words = "invalid messages cost nothing (P4)"
            yield Remark(words, "invalid_messages_weight", topic.group)


@check(Severity.WARNING, "it takes more than ten invalid messages at once until a peer at its best is below 0")
def invalid_cheap(worth: Worth) -> Iterator[Remark]:
    for topic in worth.topics:
        number = _needed(worth, topic)
        if worth.invalid(topic, 1.0) and (number is None or number > _PATIENCE):
            amount = "no number of" if number is None else count(number)
            words = (
                f"it takes {amount} invalid messages at once until a peer at its best "
                f"({figure(worth.best)}) is below 0; one costs {figure(-worth.invalid(topic, 1.0))}"
            )
            figures = {"best": worth.best, "one": worth.invalid(topic, 1.0), "needed": number or 0.0}
            yield Remark(words, "invalid_messages_weight", topic.group, figures)


@check(Severity.ERROR, "an invalid message at every heartbeat never adds up to a score below 0")
def invalid_forgotten(worth: Worth) -> Iterator[Remark]:
    """Warn if one invalid message at every heartbeat never prunes a peer."""
    for topic in worth.topics:
        if not worth.invalid(topic, 1.0):
            continue
        most = _at_every_heartbeat(worth, topic.numbers.invalid_decay)
        score = worth.score(worth.all_topics + worth.invalid(topic, most))
        if may_be_in_mesh(score):
            words = (
                f"with an invalid message at every heartbeat {figure(most)} are counted and a "
                f"peer at its best keeps {figure(score)}: they are forgotten as fast as they come"
            )
            yield Remark(words, "invalid_messages_decay", topic.group, {"counted": most, "score": score})


@check(Severity.WARNING, "broken promises and GRAFTs in a backoff cost nothing")
def misbehaviour_unpunished(worth: Worth) -> Iterator[Remark]:
    if not worth.peer.misbehaviour_weight:
        yield Remark("broken promises and GRAFTs in a backoff cost nothing (P7)", "misbehaviour_weight")
    elif not worth.subject.expected.promises_per_heartbeat:
        yield Remark("promises are not tracked (tracked_promises), so none is ever broken", "misbehaviour_weight")


@check(Severity.WARNING, "as many broken promises as there can be at every heartbeat never add up to a score below 0")
def misbehaviour_forgotten(worth: Worth) -> Iterator[Remark]:
    """Warn if the maximum of broken promises at every heartbeat never prunes a peer."""
    peer, each = worth.peer, worth.subject.expected.promises_per_heartbeat
    if not peer.misbehaviour_weight or not each:
        return
    most = each * _at_every_heartbeat(worth, peer.misbehaviour_decay)
    score = worth.score(worth.all_topics, 0.0, most)
    if may_be_in_mesh(score):
        words = (
            f"with {plural(each, 'broken promise')} at every heartbeat, the most there can be, {figure(most)} are "
            f"counted and a peer at its best keeps {figure(score)}: they are forgotten as fast as they come"
        )
        yield Remark(words, "misbehaviour_decay", None, {"counted": most, "score": score})


@check(Severity.NOTE, "peers that share an address lose nothing")
def addresses_unpunished(worth: Worth) -> Iterator[Remark]:
    if not worth.peer.shared_address_weight:
        yield Remark("peers that share an address lose nothing (P6)", "shared_address_weight")


@check(Severity.NOTE, "two peers at one address are punished")
def address_of_household(worth: Worth) -> Iterator[Remark]:
    weight = float(worth.peer.shared_address_weight)
    if weight and worth.peer.shared_address_threshold <= 1:
        pair = worth.score(worth.all_topics, 2.0)
        words = (
            f"two peers at one address, a household, lose {figure(-weight)} each; at their best they "
            f"are at {figure(pair)}"
        )
        yield Remark(words, "shared_address_threshold", None, {"one": weight, "score": pair})


@check(Severity.WARNING, "it takes more than a hundred GRAFTs in a backoff, or peers at one address, until a peer "
       "at its best is below 0")  # fmt: skip
def offence_cheap(worth: Worth) -> Iterator[Remark]:
    """Warn if many offences of one kind are needed to prune a peer."""
    found = {each.name: each for each in offences_of_the_peer(worth)}
    for name, parameter, on in (
        (GRAFTS, "misbehaviour_weight", worth.peer.misbehaviour_weight),
        (SHARING_PEERS, "shared_address_weight", worth.peer.shared_address_weight),
    ):
        number = found[name].needed["negative"]
        if on and number is not None and number > 10 * _PATIENCE:
            words = f"it takes {count(number)} {name} until a peer at its best ({figure(worth.best)}) is below 0"
            yield Remark(words, parameter, None, {"needed": number})


@check(Severity.WARNING, "scores of peers that go are kept for less than a backoff lasts")
def forgotten_in_backoff(worth: Worth) -> Iterator[Remark]:
    retain_s, backoff_s = worth.peer.retain_ms / 1000, worth.subject.expected.prune_backoff_ms / 1000
    if retain_s < backoff_s:
        kept = f"kept for {seconds(retain_s)}" if retain_s else "not kept"
        words = (
            f"the score of a peer that goes is {kept}, and a backoff lasts {seconds(backoff_s)}: a pruned peer that "
            "reconnects is a stranger when it may graft again"
        )
        yield Remark(words, "retain_ms", None, {"retain_s": retain_s, "backoff_s": backoff_s})


@check(Severity.WARNING, "a peer that returns starts with a new score")
def return_is_fresh(worth: Worth) -> Iterator[Remark]:
    if worth.peer.retained_scores is RetainedScores.UNTIL_RETURN:
        words = 'a returning peer starts with a new score (retained_scores = "until-return"): no penalty lasts'
        yield Remark(words, "retained_scores")


@check(Severity.WARNING, "a decay is below decay_to_zero: a count of 1 is gone at the next refresh")
def decay_below_zero(worth: Worth) -> Iterator[Remark]:
    """Warn of counts of 1 that are 0 after one refresh: two offences are rarely seen together."""
    zero = worth.peer.decay_to_zero
    for name, decay, weight in (
        ("misbehaviour_decay", worth.peer.misbehaviour_decay, worth.peer.misbehaviour_weight),
        ("slow_peer_decay", worth.peer.slow_peer_decay, worth.peer.slow_peer_weight),
    ):
        if weight and decay < zero:
            yield Remark(_gone(name, decay, zero), name, None, {"decay": decay, "zero": zero})
    for topic in worth.topics:
        own = topic.numbers
        for name, decay, weight in (
            ("first_deliveries_decay", own.first_decay, own.first_weight),
            ("mesh_deliveries_decay", own.mesh_decay, own.mesh_weight),
            ("mesh_failure_decay", own.failure_decay, own.failure_weight),
            ("invalid_messages_decay", own.invalid_decay, own.invalid_weight),
        ):
            if weight and decay < zero:
                yield Remark(_gone(name, decay, zero), name, topic.group, {"decay": decay, "zero": zero})


def least_rate(worth: Worth, topic: TopicWorth, share: float) -> float | None:
    """Return the topic's messages per second at which a member that delivers this share of them meets the threshold;
    None if no traffic is enough."""
    own = topic.numbers
    if own.mesh_cap * own.mesh_decay < own.mesh_threshold:
        return None
    return own.mesh_threshold * (1.0 - own.mesh_decay) / own.mesh_decay / share / worth.interval_s


def per_time(rate: float) -> str:
    """Return a rate in the shortest unit of time with at least one message."""
    for factor, unit in ((1, "second"), (60, "minute"), (3_600, "hour")):
        if rate * factor >= 1:
            return f"{figure(rate * factor)} messages per {unit}"
    return "no messages" if not rate else f"{figure(rate * 86_400)} messages per day"


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
    """Yield topics whose members lack deliveries although they deliver this share, with the loss of score."""
    for topic in worth.topics:
        level = worth.delivered(topic, share)
        if not topic.expects or level is None or least_rate(worth, topic, share) is None:
            continue
        cost = worth.deficit(topic, level)
        if cost < 0:
            yield topic, cost


def _needed(worth: Worth, topic: TopicWorth) -> int | None:
    """Return the number of invalid messages at once that bring a peer with the best score below 0."""
    return first_that(lambda sent: not may_be_in_mesh(worth.score(worth.all_topics + worth.invalid(topic, sent))))


def _gone(name: str, decay: float, zero: float) -> str:
    return (
        f"{name} ({figure(decay)}) is below decay_to_zero ({figure(zero)}): a count of 1 is gone at the next refresh"
    )


def _at_every_heartbeat(worth: Worth, decay: float) -> float:
    """Return the limit of a count to which every heartbeat adds one."""
    per_refresh = worth.interval_s * 1000 / worth.subject.expected.heartbeat_ms
    if per_refresh >= 1:
        return per_refresh / (1.0 - decay)
    return 1.0 / (1.0 - decay ** (1.0 / per_refresh))
