"""The words of explanations: times, steps, paths and summaries. Times count from the publication."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hearsay.explain import causes
from hearsay.explain.copies import Fate
from hearsay.explain.deliveries import NodeAnswer, Sent, SlowAnswer, Trait
from hearsay.explain.fastest import Shortcut
from hearsay.explain.message import Message
from hearsay.explain.missing import NO_MEMBERS, RULES, Missing, MissingAnswer, Why, by_reason
from hearsay.explain.path import Hop, Path, Step, StepTime
from hearsay.text.numbers import count, figure, milliseconds, percent, plural
from hearsay.trace.language.schema import NONE

STEPS = {
    Step.HELD: ("waited before sending", "{sender} had it and had not sent {what} yet{via}"),
    Step.ABSENT: ("before the node joined the topic", "{sender} had it; {receiver} had not joined the topic yet"),
    Step.UNCONNECTED: (
        "before the two were connected", "{sender} had it; it was not connected to {receiver} yet",
    ),
    Step.HEARTBEAT: ("waited for a heartbeat", "{sender} waited for a heartbeat to announce it"),
    Step.NEXT_IHAVE: ("waited for the next IHAVE", "{sender} waited for its next IHAVE to announce it"),
    Step.ANNOUNCED: ("announcements in flight", "IHAVE from {sender} to {receiver}"),
    Step.ASKING: ("waited before requesting", "{receiver} knew of it and had not requested it yet"),
    Step.ASKED: ("requests in flight", "{request} from {receiver} to {sender}"),
    Step.ANSWERING: ("waited before answering", "{sender} had the request and had not answered yet"),
    Step.QUEUE: ("in queues", "in the queue of {sender}, behind others"),
    Step.UPLINK: ("transmission on the uplink", "its own bytes on the uplink of {sender}"),
    Step.LINE: ("on the link", "on the link from {sender} to {receiver}{via}"),
    Step.FLIGHT: ("in flight", "in flight from {sender} to {receiver}, queues included{via}"),
    Step.VALIDATION: ("validation", "{receiver} validated it"),
    Step.HANDLING: ("waiting to be handled", "{receiver} had not handled it yet: service and validation"),
    Step.UNKNOWN: ("unknown", "from {sender} to {receiver}: the trace does not show what took the time{via}"),
}  # fmt: skip
"""A short name and a sentence for each step."""
_BETWEEN = (Step.ABSENT, Step.UNCONNECTED, Step.ANNOUNCED, Step.ASKED, Step.LINE, Step.FLIGHT, Step.UNKNOWN)
"""Steps from a time of one node to a time of another."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of words and numbers."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int
    """Number of leading columns that name a row; 0 for a timeline."""
    words: tuple[int, ...]
    """Indexes of the columns of words; the others have numbers."""


def milliseconds_exactly(us: int) -> str:
    """Return a time to a tenth of a millisecond, so that times of steps can be added."""
    return f"{us / 1000:,.1f} ms"


def heading(message: Message) -> str:
    """Return the message with its topic, publisher and size; times count from the start of the run."""
    history = message.history
    at = (history.published_us - message.run.start_us) / 1e6
    by = f", published by {message.node(history.publisher)} at {at:.6f} s" if history.published else ""
    size = f", {history.bytes:,} bytes" if history.bytes >= 0 else ""
    return f"{message.title()} of topic {message.topic()}{by}{size}"


def node_summary(message: Message, answer: NodeAnswer) -> str:
    path, node = answer.path, message.node(answer.node)
    again = f" It delivered it {answer.deliveries} times; this is the first." if answer.deliveries > 1 else ""
    if not path.hops and path.complete:
        return f"{node} published it itself.{again}"
    after = f"{milliseconds(message.us_after(path.delivered_us) / 1000)}{message.clock_error(answer.node)}"
    if not path.hops:
        return f"{node} had it after {after}; the trace does not show from which peer.{again}"
    late = ""
    if answer.joined_us is not None:
        joined = milliseconds(message.us_after(answer.joined_us) / 1000)
        late = f" It joined the topic {joined} after the publication."
    begin = "" if path.complete else f" The trace does not show how {message.node(path.nodes[0])} got it."
    hops = plural(len(path.hops), "hop")
    return f"{node} got it after {after}, over {hops}: {_route(message, path.nodes)}.{late}{begin}{again}"


def shortcut_summary(message: Message, shortcut: Shortcut | str) -> str:
    if isinstance(shortcut, str):
        return f"The fastest path is unknown: {shortcut}."
    if not shortcut.sooner_us:
        return "No path would have been faster."
    after = milliseconds(message.us_after(shortcut.path.arrived_us) / 1000)
    less, route = milliseconds(shortcut.sooner_us / 1000), _route(message, shortcut.path.nodes)
    words = f"The fastest path would have taken {after}, {less} less: {route}."
    if shortcut.missed is None or shortcut.why is None:
        return words
    sender, receiver = message.node(shortcut.missed.sender), message.node(shortcut.missed.receiver)
    return f"{words} It was not taken from {sender} to {receiver}: {cause_words(shortcut.why)}."


def slow_summary(message: Message, answer: SlowAnswer) -> str:
    late = _latecomers(answer.latecomers)
    if not answer.slow or answer.median_us is None:
        return f"No node that was in the topic in time got it.{late}" if late else _not_delivered(message)
    slowest = answer.slow[0]
    last = f"{milliseconds(message.us_after(slowest.delivered_us) / 1000)}{message.clock_error(slowest.node)}"
    besides = " besides its publisher" if message.history.publisher in message.run.nodes else ""
    got = f"{plural(answer.deliveries, 'node')} got it{besides}"
    if answer.deliveries == 1:
        return f"{got}, after {last}.{late}"
    return f"{got}, half of them within {milliseconds(answer.median_us / 1000)}, the last after {last}.{late}"


def missing_summary(answer: MissingAnswer) -> str:
    if answer.due is None:
        start = "It was not due at any node" if answer.unknown == NO_MEMBERS else "The due nodes are unknown"
        return f"{start}: {answer.unknown}."
    if answer.refused_by_all:
        return "It was not due at any node: every application that got it rejected it."
    undue = _undue(answer.got_undue)
    if not answer.due:
        return f"It was not due at any node: no node was in the topic for the whole of its window.{undue}"
    among = ", its publisher among them" if answer.publisher_is_due else ""
    if not answer.missing and answer.due > 1:
        return f"All {plural(answer.due, 'node')} that were due it got it{among}.{undue}"
    if not answer.missing:
        only = "Only its publisher was due it, and got it." if among else "The one node that was due it got it."
        return f"{only}{undue}"
    were = "was" if answer.due == 1 else "were"
    return (
        f"{plural(answer.due, 'node')} {were} due it{among}; {answer.got} got it "
        f"({percent(answer.got / answer.due)}), {len(answer.missing)} never did.{undue}"
    )


def absence_summary(message: Message, missing: Missing, not_due: str | None) -> str:
    node = message.node(missing.node)
    if missing.node == message.history.publisher:
        return f"{node} published it, and got no copy itself."
    detail = f" ({missing.detail})" if missing.detail else ""
    rule = f" [{RULES[missing.why]}]" if missing.why in RULES else ""
    words = f"{node} never got it: {missing.why}{detail}{rule}."
    if missing.why is Why.UNKNOWN:
        words = f"{node} never got it, as far as the trace shows: {missing.detail or missing.why}."
    return f"{words} It was not due it: {not_due}." if not_due else words


def timeline(message: Message, answer: NodeAnswer) -> Table:
    """Return the time, the duration and the event of each step of a path."""
    rows: list[tuple[str, str, str]] = []
    for number, hop in enumerate(answer.path.hops):
        if number == 0:
            begin = "published it" if answer.path.complete else "had it, or sent it"
            rows.append((_time(message, hop.held_us), "", f"{message.node(hop.sender)} {begin}"))
        for each in hop.times:
            took = milliseconds_exactly(each.took_us)
            rows.append((_time(message, each.from_us), took, _sentence(message, hop, each)))
        rows.append((_time(message, hop.delivered_us), "", f"{message.node(hop.receiver)} had it"))
    if not rows:
        rows.append((_time(message, answer.path.delivered_us), "", f"{message.node(answer.node)} had it"))
    return Table(("after", "took", ""), rows, 0, (2,))


def costs(path: Path) -> str:
    """Return the time of each kind of step on the whole path, the longest first."""
    took = took_by_step(path)
    total = sum(took.values())
    longest_first = sorted((item for item in took.items() if item[1] > 0), key=lambda item: -item[1])
    return ", ".join(
        f"{STEPS[step][0]} {milliseconds(us / 1000)} ({percent(us / total) if us <= total else figure(0)})"
        for step, us in longest_first
    )


def took_by_step(path: Path) -> dict[Step, int]:
    took: dict[Step, int] = {}
    for hop in path.hops:
        for each in hop.times:
            took[each.step] = took.get(each.step, 0) + each.took_us
    return took


def copy_table(message: Message, copies: Sequence[Sent]) -> Table:
    rows = [
        (
            message.short_name(each.copy.sender),
            "" if each.copy.sent_us is None else _time(message, each.copy.sent_us),
            "" if each.copy.arrived_us is None else _time(message, each.copy.arrived_us),
            causes.of_copy(each.copy) or "",
            cause_words(each.outcome),
        )
        for each in copies
    ]
    return Table(("from", "sent", "arrived", "why", "outcome"), rows, 5, (0, 3, 4))


def slow_table(message: Message, answer: SlowAnswer) -> Table:
    rows: list[tuple[str, ...]] = []
    for path in answer.slow:
        last = path.hops[-1].copy if path.hops else None
        took = took_by_step(path)
        longest = max(took, key=lambda step: took[step], default=None)
        sender, why = ("", "") if last is None else (message.short_name(last.sender), causes.of_copy(last) or "")
        step = "" if longest is None else f"{STEPS[longest][0]} {milliseconds_exactly(took[longest])}"
        delivered = f"{_time(message, path.delivered_us)}{message.clock_error(path.node)}"
        rows.append((message.short_name(path.node), delivered, str(len(path.hops)), sender, why, step))
    return Table(("node", "after", "hops", "from", "why that copy was sent", "longest step"), rows, 1, (0, 3, 4, 5))


def reason_table(missing: Sequence[Missing]) -> Table:
    rows = [(why, RULES.get(why, ""), count(len(nodes))) for why, nodes in by_reason(missing)]
    return Table(("reason", "rule", "nodes"), rows, 2, (0, 1))


def missing_table(message: Message, missing: Sequence[Missing]) -> Table:
    rows = [(message.short_name(each.node), each.why, each.detail) for each in missing]
    return Table(("node", "reason", "details"), rows, 3, (0, 1, 2))


def trait_words(trait: Trait) -> str:
    others = f"; {trait.others} of {trait.others_of} others" if trait.others_of else ""
    return f"{trait.slow} of {trait.slow_of}: {trait.words}{others}"


def cause_words(cause: causes.Cause) -> str:
    return f"{cause.words} [{cause.rule}]" if cause.rule else cause.words


def _time(message: Message, us: int) -> str:
    return milliseconds_exactly(message.us_after(us))


def _route(message: Message, nodes: Sequence[int]) -> str:
    return " → ".join(map(message.short_name, nodes))


def _sentence(message: Message, hop: Hop, step_time: StepTime) -> str:
    via = causes.of_copy(hop.copy) if hop.copy is not None else None
    error = message.clocks.words(hop.sender, hop.receiver) if step_time.step in _BETWEEN else ""
    words = STEPS[step_time.step][1].format(
        sender=message.node(hop.sender),
        receiver=message.node(hop.receiver),
        what="its last part" if hop.copy is not None and hop.copy.in_parts else "it",
        request="IWANT" if via == causes.of_via(1) else "GRAFT",
        via=f" ({via})" if via else "",
    )
    return f"{words}{error}"


def _latecomers(nodes: int) -> str:
    return f" Not counted: {plural(nodes, 'node')} that joined the topic after the publication." if nodes else ""


def _not_delivered(message: Message) -> str:
    if message.run.simulated or len(message.observers) >= len(message.names.peers):
        return "Only its publisher got it." if message.history.published else "No node got it."
    copies = message.history.copies
    sent = copies.receiver[(copies.sent_us != NONE) & (copies.fate < Fate.QUEUE_FULL)]
    untraced = len(np.setdiff1d(sent, message.observers))
    to = f" It was sent to {plural(untraced, 'peer')} that did not trace." if untraced else ""
    own = " except its publisher" if message.history.published else ""
    return f"No node that traced got it{own}.{to} This trace does not show what other nodes got."


def _undue(nodes: int) -> str:
    return (
        f" Not due it, because not in the topic for its whole window: {plural(nodes, 'other')} that got it."
        if nodes
        else ""
    )
