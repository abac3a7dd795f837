"""The answer about one node in words: the path as a timeline, who else sent it, what was lost or refused."""

from __future__ import annotations

from collections.abc import Iterator

from hearsay.explain import reasons
from hearsay.explain.one_node import NodeAnswer, Sent
from hearsay.explain.path import Hop, Path, Spell, Step
from hearsay.explain.shortcut import Shortcut
from hearsay.explain.story import Story
from hearsay.text.numbers import figure, milliseconds, percent, plain, plural
from hearsay.text.text_table import prose, table_text

MOST_COPIES = 40
TIMELINE_HEAD = ("after", "took", "")


def node_text(story: Story, answer: NodeAnswer, shortcut: Shortcut | str) -> str:
    parts = [heading(story), prose(summary(story, answer)), "", timeline_text(story, answer)]
    shares = costs(answer.path)
    if shares:
        parts += ["", prose(f"What it took: {shares}.")]
    parts += ["", prose(shortcut_words(story, shortcut))]
    others = [each for each in answer.copies if not each.is_first]
    if others:
        parts += ["", f"{plain(plural(len(others), 'other copy', 'other copies'))} to {story.node(answer.node)}:"]
        parts.append(copies_text(story, others))
    return "\n".join([*parts, *told_unknowns(story)])


def shortcut_words(story: Story, shortcut: Shortcut | str) -> str:
    if isinstance(shortcut, str):
        return f"The fastest path: not to be told, as {shortcut}."
    if not shortcut.sooner_us:
        return "No path would have been faster."
    after = milliseconds((shortcut.path.arrived_us - story.books.start_us()) / 1000)
    way = " → ".join(story.node(node).removeprefix("node ") for node in shortcut.path.nodes)
    words = f"The fastest path would have taken {after}, {milliseconds(shortcut.sooner_us / 1000)} less: {way}."
    if shortcut.parts_at is None or shortcut.why is None:
        return words
    sender, receiver = story.node(shortcut.parts_at.sender), story.node(shortcut.parts_at.receiver)
    return f"{words} It was not taken from {sender} to {receiver}: {cause_words(shortcut.why)}."


def heading(story: Story) -> str:
    return prose(heading_words(story))


def heading_words(story: Story) -> str:
    """Which message this is; times count from the beginning of the run."""
    books = story.books
    at = (books.published_us - story.run.start_us) / 1e6
    by = f", published by {story.node(books.publisher)} at {at:.6f} s" if books.published else ""
    size = f", {books.bytes:,} bytes" if books.bytes >= 0 else ""
    return f"{story.message()} of topic {story.topic()}{by}{size}"


def summary(story: Story, answer: NodeAnswer) -> str:
    """The answer in a sentence or two."""
    path, node = answer.path, story.node(answer.node)
    again = f" It delivered it {answer.deliveries} times; this is the first." if answer.deliveries > 1 else ""
    if not path.hops and path.whole:
        return f"{node} published it itself.{again}"
    after = milliseconds((path.delivered_us - story.books.start_us()) / 1000)
    if not path.hops:
        return f"{node} had it after {after}; the trace does not tell from whom.{again}"
    way = " → ".join(story.node(one).removeprefix("node ") for one in path.nodes)
    begin = "" if path.whole else f" How {story.node(path.nodes[0])} came by it, the trace does not tell."
    late = ""
    if answer.joined_us is not None:
        joined = milliseconds((answer.joined_us - story.books.start_us()) / 1000)
        late = f" It came to the topic {joined} after the publication."
    return f"{node} got it after {after}, over {plural(len(path.hops), 'hop')}: {way}.{late}{begin}{again}"


def timeline_rows(story: Story, answer: NodeAnswer) -> list[tuple[str, str, str]]:
    start = story.books.start_us()
    rows: list[tuple[str, str, str]] = []
    for number, hop in enumerate(answer.path.hops):
        if number == 0:
            begin = "published it" if answer.path.whole else "had it, or sent it"
            rows.append((offset(hop.held_us - start), "", f"{story.node(hop.sender)} {begin}"))
        rows += [(offset(each.from_us - start), cost(each.took_us), _step(story, hop, each)) for each in hop.spells]
        rows.append((offset(hop.delivered_us - start), "", f"{story.node(hop.receiver)} had it"))
    return rows


def timeline_text(story: Story, answer: NodeAnswer) -> str:
    rows = timeline_rows(story, answer)
    if not rows:
        return offset(answer.path.delivered_us - story.books.start_us()) + f"  {story.node(answer.node)} had it"
    widths = [max(len(row[place]) for row in (TIMELINE_HEAD, *rows)) for place in range(2)]
    lines = (f"{row[0]:>{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]}" for row in (TIMELINE_HEAD, *rows))
    return "\n".join(line.rstrip() for line in lines)


def offset(us: int) -> str:
    """A time after the publication: to a tenth of a millisecond, so that one can follow."""
    return f"{us / 1000:,.1f} ms"


def cost(us: int) -> str:
    return f"{us / 1000:,.1f} ms"


STEP_WORDS = {
    Step.HELD: "waited before sending",
    Step.ABSENT: "before the node came to the topic",
    Step.UNCONNECTED: "before the two were connected",
    Step.HEARTBEAT: "waited for a heartbeat",
    Step.NEXT_IHAVE: "waited for the next IHAVE",
    Step.ANNOUNCED: "announcements under way",
    Step.ASKING: "waited before asking",
    Step.ASKED: "requests under way",
    Step.ANSWERING: "waited before answering",
    Step.QUEUE: "in queues",
    Step.UPLINK: "leaving on the uplink",
    Step.LINE: "on the line",
    Step.FLIGHT: "under way",
    Step.VALIDATION: "validation",
    Step.HANDLING: "waiting to be handled",
    Step.UNTOLD: "not told",
}


def _step(story: Story, hop: Hop, spell: Spell) -> str:
    sender, receiver = story.node(hop.sender), story.node(hop.receiver)
    via = reasons.of_copy(hop.copy) if hop.copy is not None else None
    why = f" ({via})" if via else ""
    match spell.step:
        case Step.HELD:
            what = "its last part" if hop.copy is not None and hop.copy.in_parts else "it"
            return f"{sender} had it and had not sent {what} yet{why}"
        case Step.ABSENT:
            return f"{sender} had it, and {receiver} was not in the topic yet"
        case Step.UNCONNECTED:
            return f"{sender} had it, and was not connected with {receiver} yet"
        case Step.HEARTBEAT:
            return f"{sender} waited for a heartbeat to announce it"
        case Step.NEXT_IHAVE:
            return f"{sender} waited for its next IHAVE to announce it"
        case Step.ANNOUNCED:
            return f"IHAVE from {sender} to {receiver}"
        case Step.ASKING:
            return f"{receiver} had heard of it and had not asked yet"
        case Step.ASKED:
            return f"{'IWANT' if via == reasons.of_via(1) else 'GRAFT'} from {receiver} to {sender}"
        case Step.ANSWERING:
            return f"{sender} had been asked and had not answered yet"
        case Step.QUEUE:
            return f"in the queue of {sender}, behind others"
        case Step.UPLINK:
            return f"its own bytes left {sender}"
        case Step.LINE:
            return f"on the line from {sender} to {receiver}{why}"
        case Step.FLIGHT:
            return f"under way from {sender} to {receiver}, queues included{why}"
        case Step.VALIDATION:
            return f"{receiver} validated it"
        case Step.HANDLING:
            return f"{receiver} had not handled it yet: service and validation"
        case Step.UNTOLD:
            return f"from {sender} to {receiver}: the trace does not tell what took the time{why}"


def costs(path: Path) -> str:
    """What the time of the whole path went by with, the longest first."""
    took = took_by_step(path)
    whole = sum(took.values())
    ordered = sorted((item for item in took.items() if item[1] > 0), key=lambda item: -item[1])
    return ", ".join(f"{STEP_WORDS[step]} {milliseconds(us / 1000)} ({_share(us, whole)})" for step, us in ordered)


def took_by_step(path: Path) -> dict[Step, int]:
    took: dict[Step, int] = {}
    for hop in path.hops:
        for spell in hop.spells:
            took[spell.step] = took.get(spell.step, 0) + spell.took_us
    return took


def _share(part: int, whole: int) -> str:
    return percent(part / whole) if 0 < part <= whole else figure(0)


def copies_text(story: Story, copies: list[Sent]) -> str:
    rows = list(copy_rows(story, copies[:MOST_COPIES]))
    table = table_text(COPY_HEAD, rows, left=5)
    more = len(copies) - MOST_COPIES
    return f"{table}\n… {more} more are in the output of --json" if more > 0 else table


COPY_HEAD = ("from", "sent", "arrived", "why", "what became of it")


def copy_rows(story: Story, copies: list[Sent]) -> Iterator[tuple[str, ...]]:
    start = story.books.start_us()
    for each in copies:
        copy = each.copy
        yield (
            story.node(copy.sender).removeprefix("node "),
            "" if copy.sent_us is None else offset(copy.sent_us - start),
            "" if copy.arrived_us is None else offset(copy.arrived_us - start),
            reasons.of_copy(copy) or "",
            cause_words(each.outcome),
        )


def cause_words(cause: reasons.Cause) -> str:
    return f"{cause.words} [{cause.rule}]" if cause.rule else cause.words


def told_unknowns(story: Story) -> list[str]:
    told = story.unknowns()
    return ["", *map(prose, told)] if told else []
