"""The text of explanations: summaries, tables and sentences. Times are since the publication of the message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hearsay.core.language.actions import Via
from hearsay.explain.copies import REFUSALS, WORDS, Cause, Fate, cause_of_reason, why_sent
from hearsay.explain.deliveries import NodeAnswer, Sent, SlowAnswer, Trait
from hearsay.explain.fastest import Shortcut
from hearsay.explain.message import Message
from hearsay.explain.missing import NO_MEMBERS, RULES, Missing, MissingAnswer, Why, by_reason
from hearsay.explain.path import Hop, Path, Step, StepTime
from hearsay.number_text import count, figure, milliseconds, percent, plural
from hearsay.trace.language.schema import NONE

_BETWEEN = (Step.ABSENT, Step.UNCONNECTED, Step.ANNOUNCED, Step.ASKED, Step.LINE, Step.FLIGHT, Step.UNKNOWN)
"""Steps that may begin at a time of one node's clock and end at a time of the other node's clock."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of words and numbers."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int
    """Number of leading columns that are left-aligned on the terminal; 0 for a timeline, which has its own format."""
    words: tuple[int, ...]
    """Indexes of the columns of words; all other columns have numbers."""


def step_look(step: Step) -> dict[str, Any]:
    """Return the table of a step in `words.toml`: name, sentence and colour, and where a picture draws the step."""
    return WORDS["steps"][step.name.lower()]


def milliseconds_exactly(us: int) -> str:
    """Return a time in milliseconds with one decimal, so that times can be added up."""
    return f"{us / 1000:,.1f} ms"


def heading(message: Message) -> str:
    """Return the message with its topic, publisher, size, and time of publication after the start of the run."""
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
    joined = plural(answer.latecomers, "node") if answer.latecomers else ""
    late = joined and f" Not counted: {joined} that joined the topic after the publication."
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
    others = plural(answer.got_undue, "other") if answer.got_undue else ""
    undue = others and f" Not due it, because not in the topic for its whole window: {others} that got it."
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
    if missing.why is Why.UNKNOWN:
        words = f"{node} never got it, as far as the trace shows: {missing.detail or missing.why}."
    else:
        words = f"{node} never got it: {missing.why}{detail}{rule}."
    return f"{words} It was not due it: {not_due}." if not_due else words


def timeline(message: Message, answer: NodeAnswer) -> Table:
    """Return the beginning, the duration and a sentence for each step of the path to a node."""
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


def step_words(path: Path) -> str:
    """Return in words the total time of each step over all hops of a path, the longest time first. Leave out steps
    whose total time is not positive.
    """
    took_us = _us_by_step(path)
    total = took_us.total()
    return ", ".join(
        f"{step_look(step)['name']} {milliseconds(us / 1000)} ({percent(us / total) if us <= total else figure(0)})"
        for step, us in took_us.most_common()
        if us > 0
    )


def _us_by_step(path: Path) -> Counter[Step]:
    """Return the total time of each step over all hops of a path, in microseconds."""
    took_us: Counter[Step] = Counter()
    for each in (each for hop in path.hops for each in hop.times):
        took_us[each.step] += each.took_us
    return took_us


def copy_table(message: Message, copies: Sequence[Sent]) -> Table:
    rows = [
        (
            message.short_name(each.copy.sender),
            "" if each.copy.sent_us is None else _time(message, each.copy.sent_us),
            "" if each.copy.arrived_us is None else _time(message, each.copy.arrived_us),
            why_sent(each.copy) or "",
            cause_words(each.outcome),
        )
        for each in copies
    ]
    return Table(("from", "sent", "arrived", "why", "outcome"), rows, 5, (0, 3, 4))


def slow_table(message: Message, answer: SlowAnswer) -> Table:
    rows: list[tuple[str, ...]] = []
    for path in answer.slow:
        last = path.hops[-1].copy if path.hops else None
        longest = _us_by_step(path).most_common(1)
        sender, why = ("", "") if last is None else (message.short_name(last.sender), why_sent(last) or "")
        step = "".join(f"{step_look(step)['name']} {milliseconds_exactly(us)}" for step, us in longest)
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
    """Return a trait with the numbers of deliveries that have it: "4 of 10: over node 3; 1 of 200 others"."""
    others = f"; {trait.others} of {trait.others_of} others" if trait.others_of else ""
    return f"{trait.slow} of {trait.slow_of}: {trait.words}{others}"


def cause_words(cause: Cause) -> str:
    return f"{cause.words} [{cause.rule}]" if cause.rule else cause.words


def _time(message: Message, us: int) -> str:
    return milliseconds_exactly(message.us_after(us))


def _route(message: Message, nodes: Sequence[int]) -> str:
    return " → ".join(map(message.short_name, nodes))


def _sentence(message: Message, hop: Hop, step_time: StepTime) -> str:
    """Return a sentence about a step. If the step begins and ends at times of different clocks, the sentence has the
    error of the duration.
    """
    via = why_sent(hop.copy) if hop.copy is not None else None
    error = message.clocks.words(hop.sender, hop.receiver) if step_time.step in _BETWEEN else ""
    words = step_look(step_time.step)["sentence"].format(
        sender=message.node(hop.sender),
        receiver=message.node(hop.receiver),
        what="its last part" if hop.copy is not None and hop.copy.in_parts else "it",
        request="IWANT" if hop.copy is not None and hop.copy.via == Via.IWANT else "GRAFT",
        via=f" ({via})" if via else "",
    )
    return words + error


def _not_delivered(message: Message) -> str:
    refused = _refusals(message)
    if message.run.simulated or len(message.observers) >= len(message.names.peers):
        return f"{'Only its publisher' if message.history.published else 'No node'} got it.{refused}"
    copies = message.history.copies
    sent = copies.receiver[(copies.sent_us != NONE) & (copies.fate < Fate.QUEUE_FULL)]
    untraced = len(np.setdiff1d(sent, message.observers))
    to = f" It was sent to {plural(untraced, 'peer')} that did not trace." if untraced else ""
    own = " except its publisher" if message.history.published else ""
    return f"No node that traced got it{own}.{refused}{to} This trace does not show what other nodes got."


def _refusals(message: Message) -> str:
    """Return a sentence about the nodes that rejected or ignored the message, with their reasons; empty if there are
    none.
    """
    rejects = message.history.rejects
    refused = np.isin(rejects.value, REFUSALS)
    nodes, reasons = np.unique(rejects.node[refused]), np.unique(rejects.value[refused])
    causes = ", or ".join(cause_of_reason(reason).words for reason in reasons.tolist())
    return f" {plural(len(nodes), 'node')} refused it: {causes}." if causes else ""
