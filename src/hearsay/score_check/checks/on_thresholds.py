"""Checks on thresholds: whether what leads there is of their size, and whether anything leads there."""

from __future__ import annotations

from collections.abc import Iterator

from hearsay.core.rules.scores.parts import exchange_is_accepted, mesh_is_poor
from hearsay.score_check.findings import Told
from hearsay.score_check.offences import levels
from hearsay.score_check.worth import Worth
from hearsay.text.numbers import figure


def unreachable(worth: Worth) -> Iterator[Told]:
    """Counts of offences have no cap, so a single weight of theirs leads anywhere in time."""
    if not scores_anything(worth) or _has_unbounded_harm(worth):
        return
    lowest = worth.score(sum(topic.deficit * topic.group.count for topic in worth.topics))
    missed = {name: level for name, level in levels(worth).items() if lowest >= level}
    if missed:
        named = ", ".join("a score below 0" if name == "negative" else f"{name} ({figure(level)})"
                          for name, level in missed.items())  # fmt: skip
        words = f"nothing leads to {named}: a score is never below {figure(lowest)}"
        yield Told(words, "thresholds", None, {"lowest": lowest, **missed})


def at_zero(worth: Worth) -> Iterator[Told]:
    """What implementations without defaults start from."""
    found = worth.subject.score.thresholds
    names = [name for name in ("gossip", "publish", "graylist") if getattr(found, name) == 0]
    if "graylist" in names and scores_anything(worth):
        words = f"{', '.join(names)} at 0: whoever is below 0 for the smallest thing is not heard at all"
        yield Told(words, "thresholds")


def equal(worth: Worth) -> Iterator[Told]:
    found = worth.subject.score.thresholds
    for lower, upper in (("publish", "gossip"), ("graylist", "publish")):
        low, high = getattr(found, lower), getattr(found, upper)
        if low == high and low:
            words = f"{lower} is {upper} ({figure(low)}): there is no step between the two"
            yield Told(words, f"thresholds.{lower}", None, {"threshold": low})


def one_offence_graylists(worth: Worth) -> Iterator[Told]:
    """A bug in one release of a client is an invalid message of everybody."""
    graylist = worth.subject.score.thresholds.graylist
    for topic in worth.topics:
        score = worth.score(worth.invalid(topic, 1.0))
        if score < graylist < 0:
            words = (
                f"a single invalid message brings a newcomer to {figure(score)}, below graylist ({figure(graylist)})"
            )
            figures = {"score": score, "graylist": graylist}
            yield Told(words, "invalid_messages_weight", topic.group, figures)


def exchange_unreachable(worth: Worth) -> Iterator[Told]:
    level = worth.subject.score.thresholds.accept_exchange
    if exchange_is_accepted(worth.best, level):
        return
    only = "only by what the application says (P5)" if worth.peer.application_weight else "by nothing at all"
    words = (
        f"accept_exchange ({figure(level)}) is above what topics give ({figure(worth.best)}): it is reached {only}"
    )
    yield Told(words, "thresholds.accept_exchange", None, {"threshold": level, "best": worth.best})


def exchange_from_anyone(worth: Worth) -> Iterator[Told]:
    dials = worth.subject.dials_exchanged
    if worth.subject.score.thresholds.accept_exchange == 0 and dials is not False:
        condition = "" if dials else ", if the router dials"
        words = f"accept_exchange is 0: a stranger that prunes may name peers, and they are dialled{condition}"
        yield Told(words, "thresholds.accept_exchange")


def opportunity_unreachable(worth: Worth) -> Iterator[Told]:
    level = worth.subject.score.thresholds.opportunistic_graft
    if worth.topics and worth.subject.expected.opportunistic_graft_ticks and mesh_is_poor(worth.usual, level):
        words = (
            f"opportunistic_graft ({figure(level)}) is above what honest members have ({figure(worth.usual)}, "
            f"at best {figure(worth.best)}): meshes graft at every look, however good they are"
        )
        figures = {"threshold": level, "usual": worth.usual, "best": worth.best}
        yield Told(words, "thresholds.opportunistic_graft", None, figures)


def opportunity_off(worth: Worth) -> Iterator[Told]:
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
    yield Told(words, "thresholds.opportunistic_graft", None, {"threshold": level})


def scores_anything(worth: Worth) -> bool:
    peer = worth.peer
    return bool(worth.topics or peer.address_weight or peer.misbehaviour_weight or peer.slow_weight)


def _has_unbounded_harm(worth: Worth) -> bool:
    of_topics = (
        topic.numbers.weight and (topic.numbers.invalid_weight or topic.numbers.failure_weight)
        for topic in worth.topics
    )
    peer = worth.peer
    return any(of_topics) or bool(peer.address_weight or peer.misbehaviour_weight or peer.slow_weight)
