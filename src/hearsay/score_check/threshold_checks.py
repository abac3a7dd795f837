"""Checks on caps, weights and times without effect, on thresholds, and on sets that an implementation rejects."""

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
from hearsay.score_check.findings import Remark, Severity, check
from hearsay.score_check.offences import levels
from hearsay.score_check.worth import TopicWorth, Worth
from hearsay.text.numbers import count, figure, seconds

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
_NEGLIGIBLE = 0.001
"""Share of the total below which a part has no effect."""
_SHORT_STAY_S = 60.0
_JUST_BELOW = 1.0 - 1e-9
"""Tolerance for values that reach a cap exactly, before rounding."""


@check(Severity.ERROR, "nothing leads below a threshold")
def threshold_unreachable(worth: Worth) -> Iterator[Remark]:
    """Warn of thresholds that no peer reaches. Counts of offences have no cap, so a weight for one is enough."""
    if not scores_anything(worth) or _has_unbounded_harm(worth):
        return
    lowest = worth.score(sum(topic.deficit * topic.group.count for topic in worth.topics))
    missed = {name: level for name, level in levels(worth).items() if lowest >= level}
    if missed:
        named = ", ".join("a score below 0" if name == "negative" else f"{name} ({figure(level)})"
                          for name, level in missed.items())  # fmt: skip
        words = f"nothing leads to {named}: a score is never below {figure(lowest)}"
        yield Remark(words, "thresholds", None, {"lowest": lowest, **missed})


@check(Severity.WARNING, "graylist is 0: peers with a score below 0 are ignored")
def threshold_at_zero(worth: Worth) -> Iterator[Remark]:
    """Warn of thresholds at zero, the start value of implementations without defaults."""
    found = worth.subject.score.thresholds
    names = [name for name in ("gossip", "publish", "graylist") if getattr(found, name) == 0]
    if "graylist" in names and scores_anything(worth):
        words = f"{', '.join(names)} at 0: a peer with a score slightly below 0 is ignored"
        yield Remark(words, "thresholds")


@check(Severity.NOTE, "two thresholds are the same")
def thresholds_equal(worth: Worth) -> Iterator[Remark]:
    found = worth.subject.score.thresholds
    for lower, upper in (("publish", "gossip"), ("graylist", "publish")):
        low, high = getattr(found, lower), getattr(found, upper)
        if low == high and low:
            words = f"{lower} is {upper} ({figure(low)}): there is no step between the two"
            yield Remark(words, f"thresholds.{lower}", None, {"threshold": low})


@check(Severity.WARNING, "a single invalid message is below graylist")
def invalid_graylists(worth: Worth) -> Iterator[Remark]:
    """Warn if one invalid message graylists: a bug in one release of a client affects all its nodes."""
    graylist = worth.subject.score.thresholds.graylist
    for topic in worth.topics:
        score = worth.score(worth.invalid(topic, 1.0))
        if score < graylist < 0:
            words = (
                f"a single invalid message brings a newcomer to {figure(score)}, below graylist ({figure(graylist)})"
            )
            figures = {"score": score, "graylist": graylist}
            yield Remark(words, "invalid_messages_weight", topic.group, figures)


@check(Severity.NOTE, "accept_exchange is above what topics give")
def exchange_unreachable(worth: Worth) -> Iterator[Remark]:
    level = worth.subject.score.thresholds.accept_exchange
    if exchange_is_accepted(worth.best, level):
        return
    only = "only by what the application says (P5)" if worth.peer.application_weight else "by nothing at all"
    words = (
        f"accept_exchange ({figure(level)}) is above what topics give ({figure(worth.best)}): it is reached {only}"
    )
    yield Remark(words, "thresholds.accept_exchange", None, {"threshold": level, "best": worth.best})


@check(Severity.WARNING, "accept_exchange is 0, and the router may dial peers that a PRUNE names")
def exchange_from_anyone(worth: Worth) -> Iterator[Remark]:
    dials = worth.subject.dials_exchanged
    if worth.subject.score.thresholds.accept_exchange == 0 and dials is not False:
        condition = "" if dials else ", if the router dials"
        words = f"accept_exchange is 0: a stranger that prunes may name peers, and they are dialled{condition}"
        yield Remark(words, "thresholds.accept_exchange")


@check(Severity.WARNING, "opportunistic_graft is above what honest members have")
def opportunity_unreachable(worth: Worth) -> Iterator[Remark]:
    level = worth.subject.score.thresholds.opportunistic_graft
    if worth.topics and worth.subject.expected.opportunistic_graft_ticks and mesh_is_poor(worth.usual, level):
        words = (
            f"opportunistic_graft ({figure(level)}) is above what honest members have ({figure(worth.usual)}, "
            f"at best {figure(worth.best)}): meshes graft at every check, however good they are"
        )
        figures = {"threshold": level, "usual": worth.usual, "best": worth.best}
        yield Remark(words, "thresholds.opportunistic_graft", None, figures)


@check(Severity.NOTE, "opportunistic_graft is 0, or opportunistic_graft_ticks is")
def opportunity_off(worth: Worth) -> Iterator[Remark]:
    """Warn if only one of the two parameters of opportunistic grafting is set."""
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


@check(Severity.WARNING, "rust and js refuse the set, since something is not given")
def refused_incomplete(worth: Worth) -> Iterator[Remark]:
    for group, own in ((None, worth.subject.score.peer), *worth.subject.scored):
        try:
            replace(own, validation=Validation.ATOMIC)
        except ParameterError as error:
            for each in error.violations:
                words = f"rust, js and, in atomic mode, go refuse it: {each.field} {each.rule}"
                yield Remark(words, each.field, group)


@check(Severity.WARNING, "nim refuses the set")
def refused_by_nim(worth: Worth) -> Iterator[Remark]:
    return _refused("nim", worth)


@check(Severity.WARNING, "jvm refuses the set")
def refused_by_jvm(worth: Worth) -> Iterator[Remark]:
    return _refused("jvm", worth)


@check(Severity.WARNING, "nothing is scored at all")
def nothing_scored(worth: Worth) -> Iterator[Remark]:
    if not scores_anything(worth):
        yield Remark("no topic and nothing of the peer is scored: every score is 0 but for the application's opinion")


@check(Severity.WARNING, "topic_weight is 0, so nothing in the topic counts")
def topic_weightless(worth: Worth) -> Iterator[Remark]:
    for topic in worth.topics:
        if not topic.numbers.weight:
            yield Remark("topic_weight is 0, so nothing in it counts", "topic_weight", topic.group)


@check(Severity.WARNING, "parameters of a topic that is not there")
def topic_not_there(worth: Worth) -> Iterator[Remark]:
    """Warn of parameters for topics that do not exist, except those of a preset, which may have some."""
    written = (group for group in worth.subject.unmet if group.place in worth.subject.lines)
    for group in written:
        yield Remark("has parameters, and no topic of that name is there", group=group)


@check(Severity.NOTE, "the cap of first deliveries is above the possible number")
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


@check(Severity.NOTE, "the cap of first deliveries is below the number of a usual member")
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


@check(Severity.NOTE, "the cap of mesh deliveries is above the possible number")
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


@check(Severity.NOTE, "time in the mesh is at its cap within a minute")
def time_cap_at_once(worth: Worth) -> Iterator[Remark]:
    for topic in worth.topics:
        own = topic.numbers
        full_s = own.time_in_mesh_cap * own.quantum / 1_000_000
        if own.time_in_mesh_weight and full_s <= _SHORT_STAY_S:
            words = f"time in the mesh is at its cap after {seconds(full_s)}; all members have it alike"
            yield Remark(words, "time_in_mesh_cap", topic.group, {"full_s": full_s})


@check(Severity.NOTE, "a part gives less than a thousandth of what all topics give")
def weight_negligible(worth: Worth) -> Iterator[Remark]:
    whole = worth.all_topics
    for topic in worth.topics:
        for name, most, on in (
            ("time_in_mesh_weight", topic.in_mesh, topic.numbers.time_in_mesh_weight),
            ("first_deliveries_weight", topic.first, topic.numbers.first_weight),
        ):
            if on and topic.numbers.weight and most * topic.group.count < _NEGLIGIBLE * whole:
                words = f"{name} gives {most:.2g} at most, of {figure(whole)} that topics can give"
                yield Remark(words, name, topic.group, {"most": most, "all_topics": whole})


@check(Severity.NOTE, "topic_cap is above what all topics give")
def topic_cap_never_binds(worth: Worth) -> Iterator[Remark]:
    cap = float(worth.peer.topic_cap)
    if worth.topics and cap and worth.all_topics <= cap:
        words = f"topic_cap ({figure(cap)}) never binds: all topics together give {figure(worth.all_topics)} at most"
        yield Remark(words, "topic_cap", None, {"cap": cap, "all_topics": worth.all_topics})


@check(Severity.NOTE, "what topics give is not bounded")
def topic_cap_missing(worth: Worth) -> Iterator[Remark]:
    if worth.topics and not worth.peer.topic_cap:
        words = (
            f"there is no topic_cap: {figure(worth.all_topics)} from topics stand against misbehaviour and shared "
            "addresses"
        )
        yield Remark(words, "topic_cap", None, {"all_topics": worth.all_topics})


@check(Severity.NOTE, "deliveries are expected after less time than a refresh takes")
def activation_within_refresh(worth: Worth) -> Iterator[Remark]:
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


@check(Severity.WARNING, "a refresh is rarer than a backoff is long")
def refresh_rare(worth: Worth) -> Iterator[Remark]:
    """Warn of rare refreshes: between two of them counts stay the same, and times in meshes do not grow."""
    interval, backoff = worth.subject.score.peer.decay_interval_ms, worth.subject.expected.prune_backoff_ms
    if backoff and interval >= backoff:
        words = (
            f"a refresh comes every {seconds(interval / 1000)}, a backoff lasts {seconds(backoff / 1000)}: scores "
            "change in steps that are longer than what they punish"
        )
        yield Remark(words, "decay_interval_ms", None, {"interval_s": interval / 1000, "backoff_s": backoff / 1000})


def _refused(implementation: str, worth: Worth) -> Iterator[Remark]:
    score = worth.subject.score
    for group, own in ((None, score.peer), (None, score.thresholds), *worth.subject.scored):
        for kind, name, words, holds in _RULES[implementation]:
            if isinstance(own, kind) and not holds(own):
                place = f"thresholds.{name}" if kind is Thresholds else name
                yield Remark(f"{implementation} refuses it: {place} must be {words}", place, group)


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


def _with_traffic(worth: Worth) -> Iterator[tuple[TopicWorth, float]]:
    return ((topic, topic.per_refresh) for topic in worth.topics if topic.per_refresh)
