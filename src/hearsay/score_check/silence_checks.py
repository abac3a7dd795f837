"""Checks on silence: the score that a peer keeps although it forwards nothing."""

from __future__ import annotations

from collections.abc import Iterator

from hearsay.score_check.findings import Remark, Severity, check
from hearsay.score_check.offences import Silence, Verdict, active_after_s, most_silent, silences
from hearsay.score_check.worth import Worth, refreshes_until
from hearsay.text.numbers import count, figure, plural, seconds

_NAMED = 3


@check(Severity.ERROR, "deliveries are scored, and other topics outweigh silence in this one: a peer that forwards "
       "nothing in it is never pruned (CVE-2022-47547)")  # fmt: skip
def silence_outweighed(worth: Worth) -> Iterator[Remark]:
    topics = {id(topic.group): topic for topic in worth.topics}
    for each in _with(worth, Verdict.OUTWEIGHED):
        topic = topics[id(each.group)]
        others, cap = worth.all_topics - topic.most, worth.peer.topic_cap
        above = f", above topic_cap ({figure(cap)})" if 0 < cap < others + topic.in_mesh else ""
        gains = f"mesh time with all else gives up to {figure(others + topic.in_mesh)}{above}"
        words = f"silence costs {figure(-topic.deficit)}, and {gains}: a score of {figure(each.score)} remains"
        words += ", so the peer is not pruned"
        if 0 < cap < -topic.deficit:
            words += f"; topic_cap ({figure(cap)}) does not help, it bounds the sum"
        figures = {"deficit": topic.deficit, "others": others, "time_in_mesh": topic.in_mesh, "score": each.score}
        yield Remark(words, "mesh_deliveries_weight", each.group, figures)


@check(Severity.WARNING, "how many topics a peer can be silent in at once and keep a score of 0, with topics among "
       "them whose deliveries are scored")  # fmt: skip
def silence_in_many(worth: Worth) -> Iterator[Remark]:
    chosen = most_silent(worth)
    expecting = [(topic, many) for topic, many in chosen if topic.expects]
    if not expecting:
        return
    of = sum(topic.group.count for topic in worth.topics)
    silent, scored = (sum(many for _, many in each) for each in (chosen, expecting))
    named = ", ".join(f"{count(many)} of {topic.group.name}" for topic, many in expecting[:_NAMED])
    more = f" and {len(expecting) - _NAMED} more groups" if len(expecting) > _NAMED else ""
    words = (
        f"a peer at its best elsewhere can be silent in {silent:,} of {plural(of, 'scored topic')} at once and never "
        f"be pruned; deliveries are scored in {scored:,} of them ({named}{more})"
    )
    yield Remark(words, figures={"silent": silent, "with_deliveries_scored": scored, "of": of})


@check(Severity.WARNING, "deliveries are scored in no topic: silence is free everywhere")
def silence_nowhere_expected(worth: Worth) -> Iterator[Remark]:
    if worth.topics and not any(topic.expects for topic in worth.topics):
        words = "deliveries are scored in no topic (P3): a peer that forwards nothing keeps all its places"
        yield Remark(
            words, figures={"score": worth.score(sum(each.in_mesh * each.group.count for each in worth.topics))}
        )


@check(Severity.NOTE, "deliveries of a topic are not scored, so silence in it costs nothing")
def silence_not_expected(worth: Worth) -> Iterator[Remark]:
    for each in _with(worth, Verdict.NOT_EXPECTED):
        words = "deliveries are not scored (P3), so a member that forwards nothing keeps its place"
        yield Remark(words, "mesh_deliveries_weight", each.group, {"score": each.score})


@check(Severity.NOTE, "a topic has no parameters")
def topic_unscored(worth: Worth) -> Iterator[Remark]:
    words = "has no parameters, so nothing that is done in it counts"
    yield from (Remark(words, group=each.group) for each in _with(worth, Verdict.UNSCORED))


@check(Severity.WARNING, "time in a topic's mesh gives more than silence in it costs")
def time_outweighs_silence(worth: Worth) -> Iterator[Remark]:
    for topic in worth.topics:
        if topic.expects and topic.silent >= 0:
            words = (
                f"time in its mesh gives up to {figure(topic.in_mesh)}, silence costs "
                f"{figure(-topic.deficit)}: a silent member gains by staying"
            )
            figures = {"time_in_mesh": topic.in_mesh, "deficit": topic.deficit}
            yield Remark(words, "time_in_mesh_weight", topic.group, figures)


@check(Severity.WARNING, "silence in one topic alone is below graylist, so a bad link is an attack")
def silence_graylists(worth: Worth) -> Iterator[Remark]:
    """Warn if silence alone graylists a peer: a broken link is silence, too."""
    level = worth.subject.score.thresholds.graylist
    for topic in worth.topics:
        score = worth.silent_in(topic)
        if topic.expects and score < level < 0:
            words = (
                f"a peer at its best that delivers nothing in it has {figure(score)}, below "
                f"graylist ({figure(level)}): an honest peer with a bad link is ignored"
            )
            figures = {"score": score, "graylist": level, "deficit": topic.deficit}
            yield Remark(words, "mesh_deliveries_weight", topic.group, figures)


@check(Severity.WARNING, "deliveries are scored and leaving the mesh is not (P3b), so silent peers come back")
def failure_not_scored(worth: Worth) -> Iterator[Remark]:
    for topic in worth.topics:
        if topic.expects and not topic.numbers.failure_weight:
            waits = active_after_s(worth, topic)
            words = (
                f"leaving the mesh forgets the deficit (P3b is off), so a silent peer that is "
                f"pruned may come back and be waited for another {seconds(waits)}"
            )
            yield Remark(words, "mesh_failure_weight", topic.group, {"activation_s": waits})


@check(Severity.WARNING, "mesh failures are forgotten before a backoff ends")
def failure_fades(worth: Worth) -> Iterator[Remark]:
    backoff_s = worth.subject.expected.prune_backoff_ms / 1000
    for topic in worth.topics:
        own = topic.numbers
        if not (topic.expects and own.failure_weight and backoff_s):
            continue
        lasts = refreshes_until(own.mesh_threshold**2, own.failure_decay, worth.peer.decay_to_zero) * worth.interval_s
        if lasts < backoff_s:
            words = (
                f"what leaving the mesh silent costs (P3b) is forgotten after {seconds(lasts)}, "
                f"before the backoff of {seconds(backoff_s)} ends"
            )
            figures = {"forgotten_s": lasts, "backoff_s": backoff_s}
            yield Remark(words, "mesh_failure_decay", topic.group, figures)


@check(Severity.WARNING, "copies count for as long as a round trip: a peer gets credit for echoing a message")
def window_mirrors(worth: Worth) -> Iterator[Remark]:
    trip = worth.subject.expected.round_trip_ms
    for topic in worth.topics:
        window = topic.parameters.mesh_deliveries_window_ms
        if topic.expects and trip and window >= trip:
            words = (
                f"a copy counts for {count(window)} ms, and a round trip to a near peer takes "
                f"{count(trip)} ms: a peer gets credit for echoing a message"
            )
            figures = {"window_ms": window, "round_trip_ms": trip}
            yield Remark(words, "mesh_deliveries_window_ms", topic.group, figures)


def _with(worth: Worth, verdict: Verdict) -> Iterator[Silence]:
    return (each for each in silences(worth) if each.verdict is verdict)
