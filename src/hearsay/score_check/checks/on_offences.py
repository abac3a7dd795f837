"""Checks on offences: what invalid messages, misbehaviour and shared addresses cost, and when it is forgotten."""

from __future__ import annotations

from collections.abc import Iterator

from hearsay.core.rules.score_parts import may_be_in_mesh
from hearsay.core.scores.declarations import RetainedScores
from hearsay.score_check.findings import Remark
from hearsay.score_check.offences import GRAFTS, SHARING_PEERS, offences_of_the_peer
from hearsay.score_check.worth import TopicWorth, Worth, first_that
from hearsay.text.numbers import count, figure, plural, seconds

_PATIENCE = 10
"""Number of invalid messages that is not an accident."""


def invalid_unpunished(worth: Worth) -> Iterator[Remark]:
    for topic in worth.topics:
        if not worth.invalid(topic, 1.0):
            words = "invalid messages cost nothing (P4)"
            yield Remark(words, "invalid_messages_weight", topic.group)


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


def invalid_never_adds_up(worth: Worth) -> Iterator[Remark]:
    """One at every heartbeat."""
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


def misbehaviour_unpunished(worth: Worth) -> Iterator[Remark]:
    if not worth.peer.misbehaviour_weight:
        yield Remark("broken promises and GRAFTs in a backoff cost nothing (P7)", "misbehaviour_weight")
    elif not worth.subject.expected.promises_per_heartbeat:
        yield Remark("promises are not tracked (tracked_promises), so none is ever broken", "misbehaviour_weight")


def misbehaviour_never_adds_up(worth: Worth) -> Iterator[Remark]:
    """As many promises as can be broken, at every heartbeat."""
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


def addresses_unpunished(worth: Worth) -> Iterator[Remark]:
    if not worth.peer.shared_address_weight:
        yield Remark("peers that share an address lose nothing (P6)", "shared_address_weight")


def address_is_a_household(worth: Worth) -> Iterator[Remark]:
    weight = float(worth.peer.shared_address_weight)
    if weight and worth.peer.shared_address_threshold <= 1:
        pair = worth.score(worth.all_topics, 2.0)
        words = (
            f"two peers at one address, a household, lose {figure(-weight)} each; at their best they "
            f"are at {figure(pair)}"
        )
        yield Remark(words, "shared_address_threshold", None, {"one": weight, "score": pair})


def forgotten_in_backoff(worth: Worth) -> Iterator[Remark]:
    retain_s, backoff_s = worth.peer.retain_ms / 1000, worth.subject.expected.prune_backoff_ms / 1000
    if retain_s < backoff_s:
        kept = f"kept for {seconds(retain_s)}" if retain_s else "not kept"
        words = (
            f"the score of a peer that goes is {kept}, and a backoff lasts {seconds(backoff_s)}: a pruned peer that "
            "reconnects is a stranger when it may graft again"
        )
        yield Remark(words, "retain_ms", None, {"retain_s": retain_s, "backoff_s": backoff_s})


def return_is_fresh(worth: Worth) -> Iterator[Remark]:
    if worth.peer.retained_scores is RetainedScores.UNTIL_RETURN:
        words = 'a returning peer starts with a new score (retained_scores = "until-return"): no penalty lasts'
        yield Remark(words, "retained_scores")


def gone_at_once(worth: Worth) -> Iterator[Remark]:
    """A count of 1 that is 0 after one refresh is remembered for less than it takes to see two of it."""
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


def patience(worth: Worth) -> Iterator[Remark]:
    """Where the thresholds of whole peers are too far for one kind of offence."""
    found = {each.name: each for each in offences_of_the_peer(worth)}
    for name, parameter, on in (
        (GRAFTS, "misbehaviour_weight", worth.peer.misbehaviour_weight),
        (SHARING_PEERS, "shared_address_weight", worth.peer.shared_address_weight),
    ):
        number = found[name].needed["negative"]
        if on and number is not None and number > 10 * _PATIENCE:
            words = f"it takes {count(number)} {name} until a peer at its best ({figure(worth.best)}) is below 0"
            yield Remark(words, parameter, None, {"needed": number})


def _needed(worth: Worth, topic: TopicWorth) -> int | None:
    """Invalid messages at once until a peer at its best is below 0."""
    return first_that(lambda sent: not may_be_in_mesh(worth.score(worth.all_topics + worth.invalid(topic, sent))))


def _gone(name: str, decay: float, zero: float) -> str:
    return (
        f"{name} ({figure(decay)}) is below decay_to_zero ({figure(zero)}): a count of 1 is gone at the next refresh"
    )


def _at_every_heartbeat(worth: Worth, decay: float) -> float:
    """The most that is counted of what happens once a heartbeat, for ever."""
    per_refresh = worth.interval_s * 1000 / worth.subject.expected.heartbeat_ms
    if per_refresh >= 1:
        return per_refresh / (1.0 - decay)
    return 1.0 / (1.0 - decay ** (1.0 / per_refresh))
