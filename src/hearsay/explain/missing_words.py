"""Who never got a message, in words: counted by reason, and one node in full."""

from __future__ import annotations

from collections.abc import Iterator

from hearsay.explain.missing import NOBODY, RULES, Missing, MissingAnswer, Why, counted
from hearsay.explain.node_words import copies_text, heading, told_unknowns
from hearsay.explain.story import Story
from hearsay.text.numbers import percent, plural
from hearsay.text.text_table import prose, table_text

MOST_NODES = 20
MISSING_HEAD = ("node", "why", "what is known")
REASON_HEAD = ("nodes", "why", "rule")


def missing_text(story: Story, answer: MissingAnswer) -> str:
    parts = [heading(story), prose(missing_summary(answer))]
    if answer.missing:
        rows = [(str(count), why, rule) for count, why, rule in reason_rows(answer)]
        parts += ["", table_text(REASON_HEAD, rows, left=3), ""]
        parts.append(table_text(MISSING_HEAD, list(missing_rows(story, answer.missing[:MOST_NODES])), left=3))
        more = len(answer.missing) - MOST_NODES
        parts += [f"… {more} more are in the output of --json"] if more > 0 else []
    return "\n".join([*parts, *told_unknowns(story)])


def missing_summary(answer: MissingAnswer) -> str:
    if answer.due is None:
        where = "It was due nowhere" if answer.unknown == NOBODY else "Who was due it is not known"
        return f"{where}: {answer.unknown}."
    if answer.refused_by_all:
        return "It was due nowhere: applications refused it wherever it came."
    rest = _undue_words(answer.got_undue) if answer.got_undue else ""
    if not answer.due:
        return f"It was due nowhere: nobody was in the topic from its publication to the end of its window.{rest}"
    among = ", its publisher among them" if answer.publisher_is_due else ""
    if not answer.missing and answer.due > 1:
        return f"All {plural(answer.due, 'node')} that were due it got it{among}.{rest}"
    if not answer.missing:
        only = "Its publisher alone was due it, and got it." if among else "The one node that was due it got it."
        return f"{only}{rest}"
    share = percent(answer.got / answer.due)
    were = "was" if answer.due == 1 else "were"
    return (
        f"{plural(answer.due, 'node')} {were} due it{among}; {answer.got} got it ({share}), "
        f"{len(answer.missing)} never did.{rest}"
    )


def _undue_words(number: int) -> str:
    were, they = ("was", "it was") if number == 1 else ("were", "they were")
    others = plural(number, "other")
    return f" {others} got it and {were} not due it, as {they} not in the topic for the whole of its window."


def reason_rows(answer: MissingAnswer) -> Iterator[tuple[int, str, str]]:
    for why, nodes in counted(answer.missing):
        yield len(nodes), why, RULES.get(why, "")


def missing_rows(story: Story, missing: tuple[Missing, ...]) -> Iterator[tuple[str, ...]]:
    for each in missing:
        yield story.node(each.node).removeprefix("node "), each.why, each.detail


def absence_text(story: Story, missing: Missing, not_due: str | None) -> str:
    parts = [heading(story), prose(absence_summary(story, missing, not_due))]
    if missing.copies:
        parts += ["", f"{plural(len(missing.copies), 'copy', 'copies')} to {story.node(missing.node)}:"]
        parts.append(copies_text(story, list(missing.copies)))
    return "\n".join([*parts, *told_unknowns(story)])


def absence_summary(story: Story, missing: Missing, not_due: str | None) -> str:
    if missing.node == story.books.publisher:
        return f"{story.node(missing.node)} published it, and was given none itself."
    detail = f" ({missing.detail})" if missing.detail else ""
    rule = f" [{RULES[missing.why]}]" if missing.why in RULES else ""
    words = f"{story.node(missing.node)} never got it: {missing.why}{detail}{rule}."
    if missing.why is Why.UNKNOWN:
        words = f"{story.node(missing.node)} never got it, as far as is known: {missing.detail or missing.why}."
    return f"{words} It was not due it: {not_due}." if not_due else words
