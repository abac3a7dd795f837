"""The messages of a report that are worth explaining: the slowest, and those that not all got who were due them.

Rules:

* A message is as slow as its last delivery at a node that was due it: who comes to the topic late gets it late, and
  that is no news. Where others got it, and not all who were due it, the tables know when most of these had it.
* Each has the command that explains it. Where a run lies in one folder with its trace, that is the whole command.
* Explanations stand on the page itself, so that no link leads anywhere else. One run's stand there if its trace has
  at most `MOST_ROWS` rows, or if they are asked for.
* What cannot be explained, as the trace cannot be read, says why and has no link.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hearsay.explain.explained import Answer, explain
from hearsay.explain.missing import MissingAnswer
from hearsay.explain.missing_words import MISSING_HEAD, REASON_HEAD, missing_rows, missing_summary, reason_rows
from hearsay.explain.node_words import costs, heading_words
from hearsay.explain.slow_words import SLOW_HEAD, slow_rows, slow_summary, trait_words
from hearsay.explain.slowest import SlowAnswer
from hearsay.explain.story import Story, open_story
from hearsay.explain.subject import NotInThisRun
from hearsay.pipeline.output.tables import MESSAGES
from hearsay.report.document import labelled_table, scrolling
from hearsay.report.explain.timeline import legend, timeline
from hearsay.report.markup import Html, tag
from hearsay.report.run import Row, Run, Selection, topic_name
from hearsay.report.what_ran import command_line
from hearsay.studies.settings import command_of
from hearsay.text.numbers import count, milliseconds, plural
from hearsay.trace.folder.arrow_compute import compute
from hearsay.trace.folder.manifest import MANIFEST, load_manifest
from hearsay.trace.language.errors import RunFolderError

MOST_ROWS = 1_000_000
MOST_OF_ONE_RUN, MOST_OF_SEVERAL = 3, 1
MOST_NODES = 20
_SHARES = (100, 99, 90, 50)
_COLUMNS = (
    "topic", "message", "eligible", "delivered_eligible", "delivered", "max_us",
    *(f"t{share}_us" for share in _SHARES),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Worth:
    """A message, and what is to be asked about it."""

    run: int
    line: Row
    missing: bool
    words: str
    command: str

    @property
    def id(self) -> str:
        return f"explained-{self.run}-{self.line['message']}{'-missing' if self.missing else ''}"


def worth_explaining(
    selection: Selection, named: Callable[[int], Html], everything: bool, say: Callable[[str], None]
) -> Html:
    """A section, or nothing. `named` shows a run; `everything` explains what takes longer, too."""
    asked = [each for place, run in enumerate(selection.runs) for each in _worth(place, run, len(selection.runs))]
    if not asked:
        return Html("")
    explained: dict[str, Html] = {}
    refused: dict[str, str] = {}
    for number, each in enumerate(asked, 1):
        run = selection.runs[each.run]
        if not everything and (len(selection.runs) > 1 or _rows_of(run) > MOST_ROWS):
            continue
        say(f"explaining message {each.line['message']} ({number} of {len(asked)})")
        try:
            story = open_story(run.folder, str(each.line["message"]))
            explained[each.id] = _article(each, story, explain(story, None, each.missing))
        except (RunFolderError, NotInThisRun) as error:
            refused[each.id] = str(error)
    return tag(
        "section",
        tag("h2", "Worth explaining"),
        _table(selection, asked, named, explained, refused),
        *explained.values(),
        id="explained",
    )


def _worth(place: int, run: Run, runs: int) -> Iterator[Worth]:
    if not (run.folder / MANIFEST).exists():
        return
    most = MOST_OF_ONE_RUN if runs == 1 else MOST_OF_SEVERAL
    known = run.read(MESSAGES, *_COLUMNS)
    known = known.append_column("took_us", _took_us(known))
    slow = known.filter(compute.is_valid(known.column("took_us")))
    for line in slow.sort_by([("took_us", "descending"), ("message", "ascending")])[:most].to_pylist():
        yield Worth(place, line, False, _slow_words(line), _command(run, line))
    lacking = compute.subtract(known.column("eligible"), known.column("delivered_eligible"))
    lacking = known.append_column("lacking", compute.fill_null(lacking, 0)).sort_by(
        [("lacking", "descending"), ("message", "ascending")]
    )
    for line in lacking[:most].to_pylist():
        if line["lacking"] > 0:
            words = f"{plural(line['lacking'], 'node')} of {count(line['eligible'])} never got it"
            yield Worth(place, line, True, words, _command(run, line, "--missing"))


def _took_us(messages: Any) -> Any:
    """When the last had it who was due it, as far as the table knows."""
    undue = compute.subtract(messages.column("delivered"), messages.column("delivered_eligible"))
    all_due = compute.fill_null(compute.equal(undue, 0), True)
    last = compute.if_else(all_due, messages.column("max_us"), None)
    return compute.coalesce(messages.column("t100_us"), last, *(messages.column(f"t{share}_us") for share in _SHARES))


def _slow_words(line: Row) -> str:
    took = milliseconds(line["took_us"] / 1000)
    if line["took_us"] == line["max_us"]:
        return f"its last delivery took {took}"
    share = next(share for share in _SHARES if line[f"t{share}_us"] is not None)
    whom = "the last node that was due it" if share == 100 else f"{share} % of the nodes that were due it"
    return f"{whom} had it after {took}, others later"


def _command(run: Run, line: Row, *more: str) -> str:
    return command_of(["explain", run.folder, "--message", line["message"], *more])


def _rows_of(run: Run) -> int:
    return sum(file.rows for file in load_manifest(run.folder).trace.files)


def _table(
    selection: Selection,
    asked: Sequence[Worth],
    named: Callable[[int], Html],
    explained: dict[str, Html],
    refused: dict[str, str],
) -> Html:
    several_runs = len(selection.runs) > 1
    several_topics = any(len(run.headlines) > 1 for run in selection.runs)
    heads = ["message", "run", "topic", "what is odd", "why"]
    rows: list[list[object]] = []
    for each in asked:
        why: list[object] = [command_line(each.command)]
        if each.id in explained:
            why = [tag("a", "explained below", href=f"#{each.id}"), " ", *why]
        elif each.id in refused:
            why = [tag("span", refused[each.id], class_="faint")]
        headlines = selection.runs[each.run].headlines
        topic = next((topic_name(one) for one in headlines if one["topic"] == each.line["topic"]), "")
        run = tag("span", named(each.run))
        rows.append([str(each.line["message"]), run, topic, each.words, tag("div", *why)])
    shown = [0, *([1] if several_runs else []), *([2] if several_topics else []), 3, 4]
    kept = [[row[place] for place in shown] for row in rows]
    return labelled_table([heads[place] for place in shown], kept, "Messages worth explaining", range(len(shown)))


def _article(asked: Worth, story: Story, answer: Answer) -> Html:
    if isinstance(answer, SlowAnswer):
        title, parts = "the slowest deliveries", list(_slow(story, answer, asked.command))
    else:
        assert isinstance(answer, MissingAnswer)
        title, parts = "who never got it", list(_missing(story, answer))
    words = f"Message {story.name.number}: {title}"
    return tag(
        "details",
        tag("summary", tag("strong", words), " ", tag("span", heading_words(story), class_="faint")),
        *parts,
        *(tag("p", line, class_="faint") for line in story.unknowns()),
        class_="card explained",
        id=asked.id,
        data_run=asked.run,
    )


def _slow(story: Story, answer: SlowAnswer, command: str) -> Iterator[Html]:
    yield tag("p", slow_summary(story, answer))
    if not answer.slow:
        return
    yield labelled_table(SLOW_HEAD, list(slow_rows(story, answer)), "The slowest", (0, 3, 4, 5))
    traits = [tag("li", trait_words(trait)) for trait in answer.traits]
    words = "What they have in common:" if traits else "They have nothing in common that others lack."
    yield tag("p", words)
    yield tag("ul", *traits) if traits else Html("")
    path = answer.slow[0]
    if path.hops:
        title = f"The path to {story.node(path.node)}, the last"
        yield tag("p", f"{title}: {costs(path)}.")
        yield legend(path)
        yield scrolling(tag("div", timeline(story, path), class_="chart lanes"), title)
        yield command_line(f"{command} --node {shlex.quote(story.names.peer(path.node))}")


def _missing(story: Story, answer: MissingAnswer) -> Iterator[Html]:
    yield tag("p", missing_summary(answer))
    if not answer.missing:
        return
    reasons = [(why, rule, count(nodes)) for nodes, why, rule in reason_rows(answer)]
    head = (REASON_HEAD[1], REASON_HEAD[2], REASON_HEAD[0])
    yield labelled_table(head, reasons, "Why they never got it", (0, 1))
    rows = list(missing_rows(story, answer.missing[:MOST_NODES]))
    yield labelled_table(MISSING_HEAD, rows, "Who never got it", (0, 1, 2))
    more = len(answer.missing) - MOST_NODES
    if more > 0:
        yield tag("p", f"{count(more)} more are in the output of the command with --json.", class_="faint")
