"""The answer without a node in words: the slowest deliveries, what took their time, and what they have in common."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hearsay.explain import reasons
from hearsay.explain.books import Fate
from hearsay.explain.node_words import STEP_WORDS, heading, offset, told_unknowns, took_by_step
from hearsay.explain.path import Path
from hearsay.explain.slowest import SlowAnswer, Trait
from hearsay.explain.story import Story
from hearsay.text.numbers import milliseconds, plural
from hearsay.text.text_table import prose, table_text
from hearsay.trace.language.schema import NONE

SLOW_HEAD = ("node", "after", "hops", "from", "why that copy went", "what took longest")


def slow_text(story: Story, answer: SlowAnswer) -> str:
    parts = [heading(story), prose(slow_summary(story, answer))]
    if answer.slow:
        parts += ["", "The slowest:", table_text(SLOW_HEAD, list(slow_rows(story, answer)), left=1)]
        parts += [
            "",
            "What they have in common:" if answer.traits else "They have nothing in common that others lack.",
        ]
        parts += [f"  {trait_words(trait)}" for trait in answer.traits]
    return "\n".join([*parts, *told_unknowns(story)])


def slow_summary(story: Story, answer: SlowAnswer) -> str:
    later = f" {_latecomers(answer.latecomers)}" if answer.latecomers else ""
    if not answer.slow or answer.median_us is None:
        return f"Nobody that was there in time got it.{later}" if later else _nobody(story)
    last = milliseconds((answer.slow[0].delivered_us - story.books.start_us()) / 1000)
    beside = " beside its publisher" if story.books.publisher in story.run.nodes else ""
    got = f"{plural(answer.deliveries, 'node')} got it{beside}"
    if answer.deliveries == 1:
        return f"{got}, after {last}.{later}"
    return f"{got}, half of them within {milliseconds(answer.median_us / 1000)}, the last after {last}.{later}"


def _latecomers(count: int) -> str:
    who, verb = ("1 more node", "is") if count == 1 else (f"{count:,} more nodes", "are")
    return f"{who} that came to the topic after the publication got it as well, and {verb} not counted."


def _nobody(story: Story) -> str:
    if story.run.simulated or len(story.observers) >= len(story.names.peers):
        return "Nobody but its publisher got it." if story.books.published else "Nobody got it."
    copies = story.books.copies
    untraced = len(
        np.setdiff1d(copies.receiver[(copies.sent_us != NONE) & (copies.fate < Fate.QUEUE_FULL)], story.observers)
    )
    whom = "a peer that did not trace" if untraced == 1 else f"{plural(untraced, 'peer')} that did not trace"
    sent = f" It was sent to {whom}." if untraced else ""
    own = " but its publisher" if story.books.published else ""
    return f"Nobody that traced got it{own}.{sent} What others got, this trace does not tell."


def slow_rows(story: Story, answer: SlowAnswer) -> Iterator[tuple[str, ...]]:
    start = story.books.start_us()
    for path in answer.slow:
        last = path.hops[-1].copy if path.hops else None
        yield (
            story.node(path.node).removeprefix("node "),
            offset(path.delivered_us - start),
            str(len(path.hops)),
            story.node(last.sender).removeprefix("node ") if last is not None else "",
            (reasons.of_copy(last) if last is not None else None) or "",
            _longest(path),
        )


def trait_words(trait: Trait) -> str:
    rest = f"; {trait.others} of {trait.others_of} others" if trait.others_of else ""
    return f"{trait.slow} of {trait.slow_of}: {trait.words}{rest}"


def _longest(path: Path) -> str:
    took = took_by_step(path)
    if not took:
        return ""
    step = max(took, key=lambda each: took[each])
    return f"{STEP_WORDS[step]} {offset(took[step])}"
