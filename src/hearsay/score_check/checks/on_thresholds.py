"""Checks on thresholds, and on parameter sets that an implementation rejects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from hearsay.core.rules.score_parts import exchange_is_accepted, mesh_is_poor
from hearsay.core.scores.declarations import Validation
from hearsay.core.scores.score_parameters import PeerScoreParameters as Peer
from hearsay.core.scores.score_parameters import ScoreThresholds as Thresholds
from hearsay.core.scores.score_parameters import TopicScoreParameters as Topic
from hearsay.core.shell.parameters import ParameterError
from hearsay.score_check.findings import Remark
from hearsay.score_check.offences import levels
from hearsay.score_check.worth import Worth
from hearsay.text.numbers import figure

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


def incomplete(worth: Worth) -> Iterator[Remark]:
    for group, own in ((None, worth.subject.score.peer), *worth.subject.scored):
        try:
            replace(own, validation=Validation.ATOMIC)
        except ParameterError as error:
            for each in error.violations:
                words = f"rust, js and, in atomic mode, go refuse it: {each.field} {each.rule}"
                yield Remark(words, each.field, group)


def refused(implementation: str, worth: Worth) -> Iterator[Remark]:
    score = worth.subject.score
    for group, own in ((None, score.peer), (None, score.thresholds), *worth.subject.scored):
        for kind, name, words, holds in _RULES[implementation]:
            if isinstance(own, kind) and not holds(own):
                place = f"thresholds.{name}" if kind is Thresholds else name
                yield Remark(f"{implementation} refuses it: {place} must be {words}", place, group)


def unreachable(worth: Worth) -> Iterator[Remark]:
    """Counts of offences have no cap, so a single weight of theirs leads anywhere in time."""
    if not scores_anything(worth) or _has_unbounded_harm(worth):
        return
    lowest = worth.score(sum(topic.deficit * topic.group.count for topic in worth.topics))
    missed = {name: level for name, level in levels(worth).items() if lowest >= level}
    if missed:
        named = ", ".join("a score below 0" if name == "negative" else f"{name} ({figure(level)})"
                          for name, level in missed.items())  # fmt: skip
        words = f"nothing leads to {named}: a score is never below {figure(lowest)}"
        yield Remark(words, "thresholds", None, {"lowest": lowest, **missed})


def at_zero(worth: Worth) -> Iterator[Remark]:
    """Zero is the start value of implementations without defaults."""
    found = worth.subject.score.thresholds
    names = [name for name in ("gossip", "publish", "graylist") if getattr(found, name) == 0]
    if "graylist" in names and scores_anything(worth):
        words = f"{', '.join(names)} at 0: a peer with a score slightly below 0 is ignored"
        yield Remark(words, "thresholds")


def equal(worth: Worth) -> Iterator[Remark]:
    found = worth.subject.score.thresholds
    for lower, upper in (("publish", "gossip"), ("graylist", "publish")):
        low, high = getattr(found, lower), getattr(found, upper)
        if low == high and low:
            words = f"{lower} is {upper} ({figure(low)}): there is no step between the two"
            yield Remark(words, f"thresholds.{lower}", None, {"threshold": low})


def one_offence_graylists(worth: Worth) -> Iterator[Remark]:
    """A bug in one release of a client is an invalid message of everybody."""
    graylist = worth.subject.score.thresholds.graylist
    for topic in worth.topics:
        score = worth.score(worth.invalid(topic, 1.0))
        if score < graylist < 0:
            words = (
                f"a single invalid message brings a newcomer to {figure(score)}, below graylist ({figure(graylist)})"
            )
            figures = {"score": score, "graylist": graylist}
            yield Remark(words, "invalid_messages_weight", topic.group, figures)


def exchange_unreachable(worth: Worth) -> Iterator[Remark]:
    level = worth.subject.score.thresholds.accept_exchange
    if exchange_is_accepted(worth.best, level):
        return
    only = "only by what the application says (P5)" if worth.peer.application_weight else "by nothing at all"
    words = (
        f"accept_exchange ({figure(level)}) is above what topics give ({figure(worth.best)}): it is reached {only}"
    )
    yield Remark(words, "thresholds.accept_exchange", None, {"threshold": level, "best": worth.best})


def exchange_from_anyone(worth: Worth) -> Iterator[Remark]:
    dials = worth.subject.dials_exchanged
    if worth.subject.score.thresholds.accept_exchange == 0 and dials is not False:
        condition = "" if dials else ", if the router dials"
        words = f"accept_exchange is 0: a stranger that prunes may name peers, and they are dialled{condition}"
        yield Remark(words, "thresholds.accept_exchange")


def opportunity_unreachable(worth: Worth) -> Iterator[Remark]:
    level = worth.subject.score.thresholds.opportunistic_graft
    if worth.topics and worth.subject.expected.opportunistic_graft_ticks and mesh_is_poor(worth.usual, level):
        words = (
            f"opportunistic_graft ({figure(level)}) is above what honest members have ({figure(worth.usual)}, "
            f"at best {figure(worth.best)}): meshes graft at every check, however good they are"
        )
        figures = {"threshold": level, "usual": worth.usual, "best": worth.best}
        yield Remark(words, "thresholds.opportunistic_graft", None, figures)


def opportunity_off(worth: Worth) -> Iterator[Remark]:
    """Either of the two leaves the other without use."""
    level = worth.subject.score.thresholds.opportunistic_graft
    ticks = worth.subject.expected.opportunistic_graft_ticks
    if ticks and not level:
        words = "opportunistic_graft is 0: a mesh full of peers that do nothing is never thought poor"
    elif level and not ticks:
        words = (
            f"opportunistic_graft is {figure(level)} and opportunistic_graft_ticks is 0: no mesh is ever looked at, "
            "and nothing is grafted by it"
        )
    else:
        return
    yield Remark(words, "thresholds.opportunistic_graft", None, {"threshold": level})


def scores_anything(worth: Worth) -> bool:
    peer = worth.peer
    return bool(worth.topics or peer.shared_address_weight or peer.misbehaviour_weight or peer.slow_peer_weight)


def _has_unbounded_harm(worth: Worth) -> bool:
    of_topics = (
        topic.numbers.weight and (topic.numbers.invalid_weight or topic.numbers.failure_weight)
        for topic in worth.topics
    )
    peer = worth.peer
    return any(of_topics) or bool(peer.shared_address_weight or peer.misbehaviour_weight or peer.slow_peer_weight)
